"""AUDI: active querying by uncertainty and diversity, over a label-ranking model."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator
from crabjax.pool.select import largest, normalised
from crabjax.strategies.base import Selection, register
from crabjax.strategies.common import mean_cardinality, revealed_labels
from crabjax.strategies.given import Pool

_HIDDEN = 200
_PROTOTYPES = 5
_STEP_SIZE = 0.05
_PASSES = 10
_BLOCK_SIZE = 1024
_FEWEST_QUERIED = 0.5


@register("audi", needs_features=True)
def audi(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """The most inconsistent label cardinality under a label-ranking model; ties by uncertainty.

    Huang and Zhou (ICDM 2013) query pairs of a document and a label; here whole documents are
    queried, so no label of a candidate was queried before, and a document's uncertainty is that
    of its least certain label. Features are frozen and scaled to length one.
    """
    del config
    generator = host_generator(key)
    assert pool.features is not None
    features = normalised(pool.features)
    labels = revealed_labels(pool)
    ranking = fit_ranking(features[pool.labelled], labels, generator)
    values = label_values(ranking, features[pool.unlabelled])  # [u, K + 1]
    distances = values[:, :-1] - values[:, -1:]
    cardinality = (distances > 0).sum(axis=1)
    inconsistency = np.abs(cardinality - mean_cardinality(pool)) / _FEWEST_QUERIED
    certainty = np.abs(distances).min(axis=1)
    best = largest(np.stack([inconsistency, -certainty], axis=1), query_size, generator)
    return Selection(pool.unlabelled[best], {})


class Ranking(NamedTuple):
    """f_k(x) = max_j prototypes[k, j] . (projection x); label K is the threshold."""

    projection: jax.Array  # V, [hidden, D]
    prototypes: jax.Array  # B, [K + 1, 5, hidden]


class Pairs(NamedTuple):
    """Documents and one label each that must rank above their irrelevant labels."""

    features: jax.Array  # [B, D]
    label: jax.Array  # int32 [B]
    irrelevant: jax.Array  # bool [B, K + 1]
    share: jax.Array  # [B], the share of the average that this update misses
    uniforms: jax.Array  # [B, K + 2], in (0, 1]


def label_values(ranking: Ranking, features: np.ndarray) -> np.ndarray:
    """f of every document, [X, D] -> [X, K + 1]; the last column is the threshold."""
    projection, prototypes = np.asarray(ranking.projection), np.asarray(ranking.prototypes)
    labels, count, hidden = prototypes.shape
    values = features @ projection.T @ prototypes.reshape(-1, hidden).T
    return values.reshape(-1, labels, count).max(axis=2)


def fit_ranking(
    features: np.ndarray, labels: np.ndarray, generator: np.random.Generator
) -> Ranking:
    """Trains the label-ranking model and averages its parameters over all steps.

    Args:
      features: float32 [n, D] of the labelled documents.
      labels: bool [n, K].
      generator: initial values, order and draws.
    """
    (documents, width), label_count = features.shape, labels.shape[1] + 1
    scale = 1.0 / np.sqrt(width)
    start = Ranking(
        _normal(generator, scale, (_HIDDEN, width)),
        _normal(generator, scale, (label_count, _PROTOTYPES, _HIDDEN)),
    )
    # the threshold, the last column, ranks above every irrelevant label
    relevant = np.concatenate([labels, np.ones((documents, 1), dtype=bool)], axis=1)
    pairs = np.argwhere(relevant)
    order = np.concatenate([generator.permutation(pairs) for _ in range(_PASSES)])
    current, missed = start, jax.tree.map(jnp.zeros_like, start)
    for first in range(0, len(order), _BLOCK_SIZE):
        share = np.arange(first, first + _BLOCK_SIZE, dtype=np.float32) / len(order)
        block = _pairs(features, relevant, order[first : first + _BLOCK_SIZE], share, generator)
        current, missed = _run_block(current, missed, block)
    # sum over steps of V_t / T = V_T - sum over updates of (share of steps before it) * update
    return jax.tree.map(lambda last, lacking: last - lacking, current, missed)


def _normal(generator: np.random.Generator, scale: float, shape: tuple[int, ...]) -> jax.Array:
    return jnp.asarray(np.float32(scale) * generator.standard_normal(shape, dtype=np.float32))


def _pairs(
    features: np.ndarray,
    relevant: np.ndarray,
    pairs: np.ndarray,
    share: np.ndarray,
    generator: np.random.Generator,
) -> Pairs:
    """One block of pairs (document, label), [at most B, 2]; what is missing changes nothing."""
    documents, labels = np.pad(pairs, ((0, _BLOCK_SIZE - len(pairs)), (0, 0))).T
    threshold = relevant.shape[1] - 1
    irrelevant = ~relevant[documents]
    irrelevant[:, threshold] = labels != threshold
    irrelevant[len(pairs) :] = False
    uniforms = 1 - generator.random((_BLOCK_SIZE, threshold + 2), dtype=np.float32)
    block = (features[documents], labels.astype(np.int32), irrelevant, share, uniforms)
    return Pairs(*map(jnp.asarray, block))


@functools.partial(jax.jit, donate_argnums=(0, 1))
def _run_block(current: Ranking, missed: Ranking, pairs: Pairs) -> tuple[Ranking, Ranking]:
    """One stochastic hinge-gradient step for each pair, in order."""

    def step(current: Ranking, pair: Pairs):
        hidden = current.projection @ pair.features
        label, rival, size = _violation(current.prototypes @ hidden, pair)
        pull = size * (current.prototypes[label] - current.prototypes[rival])
        push = size * hidden
        moved = Ranking(
            current.projection + jnp.outer(pull, pair.features),
            current.prototypes.at[label].add(push).at[rival].add(-push),
        )
        return moved, (label, rival, pair.share * pull, pair.share * push)

    current, (labels, rivals, pulls, pushes) = jax.lax.scan(step, current, pairs)
    # no step reads what is missed, so a block adds it up at once
    missed = Ranking(
        missed.projection + pulls.T @ pairs.features,
        missed.prototypes.at[labels].add(pushes).at[rivals].add(-pushes),
    )
    return current, missed


Place = tuple[jax.Array, jax.Array]
"""A label and the prototype of it that speaks for the document."""


def _violation(values: jax.Array, pair: Pairs) -> tuple[Place, Place, jax.Array]:
    """An irrelevant label within margin 1 of the pair's label, and the size of the step.

    Irrelevant labels are drawn with replacement, at most R times, R being their number. The draw
    v that first meets one of W violators is geometric, and the violator any of them alike, so
    two random numbers stand for the whole sequence.

    Args:
      values: prototypes . hidden, [K + 1, 5].
      pair: one entry of a block.
    """
    best = jnp.max(values, axis=1)
    violators = pair.irrelevant & (best > best[pair.label] - 1.0)
    irrelevant_count = jnp.sum(pair.irrelevant.astype(jnp.float32))
    violator_share = jnp.sum(violators.astype(jnp.float32)) / jnp.maximum(irrelevant_count, 1.0)
    never = violator_share == 0.0
    miss = jnp.where(never, -1.0, jnp.log1p(-violator_share))
    draws = 1.0 + jnp.floor(jnp.log(pair.uniforms[0]) / miss)
    found = ~never & (draws <= irrelevant_count)
    rival = jnp.argmax(jnp.where(violators, pair.uniforms[1:], 0.0))
    rank = jnp.floor(irrelevant_count / draws)  # how many violators there seem to be
    harmonic = jnp.cumsum(1.0 / jnp.arange(1.0, len(best) + 1.0, dtype=jnp.float32))
    weight = harmonic[jnp.maximum(rank.astype(jnp.int32) - 1, 0)]
    prototype = jnp.argmax(values, axis=1)
    size = jnp.where(found, _STEP_SIZE * weight, 0.0)
    return (pair.label, prototype[pair.label]), (rival, prototype[rival]), size
