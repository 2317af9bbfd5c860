"""ADAPTIVE: margin and label-cardinality uncertainty, traded off by expected error."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator
from crabjax.pool.select import largest
from crabjax.strategies.base import Selection, register
from crabjax.strategies.common import mean_cardinality, revealed_labels
from crabjax.strategies.given import Pool

_TRADE_OFFS = np.linspace(0.0, 1.0, 11)
_RIDGE = 1.0
_BLOCK_SIZE = 64


@register("adaptive", needs_features=True)
def adaptive(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """Of the most uncertain documents, those that leave the smallest approximate error.

    Li and Guo (IJCAI 2013). Adaptations: the ensemble's mean logits are the decision values; the
    classifier refitted for each candidate is a ridge regression (penalty 1) from frozen features
    to labels -1/+1, so that one candidate is a rank-one change of the fit and none is refitted
    from the start; a batch takes the smallest errors.
    """
    del config
    generator = host_generator(key)
    assert pool.features is not None
    decisions = pool.logits.mean(axis=0)  # [N, K]
    unlabelled = decisions[pool.unlabelled]
    inconsistency = np.abs((unlabelled > 0).sum(axis=1) - mean_cardinality(pool))
    chosen = shortlist(margin_uncertainty(unlabelled), inconsistency, query_size, generator)
    documents = pool.unlabelled[chosen]
    head = fit_head(pool.features, pool.labelled, revealed_labels(pool))
    errors = approximate_errors(head, documents, decisions[documents] > 0, pool.unlabelled)
    return Selection(documents[largest(-errors, query_size, generator)], {})


def margin_uncertainty(decisions: np.ndarray) -> np.ndarray:
    """1 / (smallest positive - largest negative decision value); 0 if one side is empty.

    Args:
      decisions: float [u, K].

    Returns:
      float [u].
    """
    smallest_positive = np.min(decisions, axis=1, where=decisions > 0, initial=np.inf)
    largest_negative = np.max(decisions, axis=1, where=decisions < 0, initial=-np.inf)
    return 1.0 / (smallest_positive - largest_negative)


def shortlist(
    uncertainty: np.ndarray, inconsistency: np.ndarray, count: int, generator: np.random.Generator
) -> np.ndarray:
    """The union over b of the ``count`` largest uncertainty^b * inconsistency^(1-b), int64."""
    best = [
        largest(uncertainty**b * inconsistency ** (1.0 - b), count, generator) for b in _TRADE_OFFS
    ]
    return np.unique(np.concatenate(best))


class Head(NamedTuple):
    """A ridge regression from features, a constant included, to labels -1/+1."""

    features: np.ndarray  # float32 [N, D + 1]
    inverse: np.ndarray  # (F^T F + penalty)^-1 over the labelled rows F, [D + 1, D + 1]
    weights: np.ndarray  # float32 [D + 1, K]


def fit_head(features: np.ndarray, labelled: np.ndarray, labels: np.ndarray) -> Head:
    """Fits the head on the labelled documents.

    Args:
      features: float [N, D] of all training documents.
      labelled: int64 [n], rows of the training set.
      labels: bool [n, K], of the labelled documents.
    """
    constant = np.ones((len(features), 1), dtype=np.float32)
    features = np.concatenate([features, constant], axis=1)
    known = features[labelled].astype(np.float64)
    inverse = np.linalg.inv(known.T @ known + _RIDGE * np.eye(features.shape[1]))
    weights = inverse @ (known.T @ np.where(labels, 1.0, -1.0))
    return Head(features, inverse.astype(np.float32), weights.astype(np.float32))


def approximate_errors(
    head: Head, documents: np.ndarray, predicted: np.ndarray, unlabelled: np.ndarray
) -> np.ndarray:
    """The pool's error after the head also learns one candidate with its predicted labels.

    By Sherman and Morrison, learning (x, y) moves the output at any document z by
    ``(z . A x) / (1 + x . A x) * (y - output(x))``, where A is the head's inverse.

    Args:
      head: fitted on the labelled documents.
      documents: int64 [X], the candidates, rows of the training set.
      predicted: bool [X, K], their predicted labels.
      unlabelled: int64 [u], the documents the error is summed over.

    Returns:
      float32 [X].
    """
    outputs = head.features @ head.weights  # [N, K]
    rows = head.features[documents]
    directions = rows @ head.inverse  # [X, D + 1]
    leverage = np.sum(directions * rows, axis=1, keepdims=True)
    residuals = (np.where(predicted, 1, -1) - outputs[documents]) / (1.0 + leverage)
    in_pool = np.zeros(len(outputs), dtype=np.float32)
    in_pool[unlabelled] = 1.0
    errors = []
    for start in range(0, len(documents), _BLOCK_SIZE):
        block = slice(start, start + _BLOCK_SIZE)
        influence = _padded(directions[block] @ head.features.T)  # [block, N]
        summed = _summed_errors(outputs, influence, _padded(residuals[block]), in_pool)
        errors.append(np.asarray(summed)[: len(documents[block])])
    return np.concatenate(errors)


def _padded(rows: np.ndarray) -> np.ndarray:
    """float32, with rows of zeros up to the block size: one shape, one compilation."""
    return np.pad(np.asarray(rows, dtype=np.float32), ((0, _BLOCK_SIZE - len(rows)), (0, 0)))


@jax.jit
def _summed_errors(
    outputs: jax.Array, influence: jax.Array, residuals: jax.Array, in_pool: jax.Array
) -> jax.Array:
    """[N, K], [X, N], [X, K], [N] -> [X].

    A document adds max over its positive outputs g of 1 - g, and max over the others of 1 + g;
    a side without any adds 0, while one where all outputs exceed the margin lowers the error.
    """

    def one_candidate(candidate: tuple[jax.Array, jax.Array]) -> jax.Array:
        change, residual = candidate
        moved = outputs + change[:, None] * residual[None, :]  # [N, K]
        positive = jnp.where(moved > 0, 1.0 - moved, -jnp.inf).max(axis=1)
        negative = jnp.where(moved > 0, -jnp.inf, 1.0 + moved).max(axis=1)
        sides = jnp.stack([positive, negative])  # [2, N]
        return jnp.vdot(in_pool, jnp.where(jnp.isneginf(sides), 0.0, sides).sum(axis=0))

    return jax.lax.map(one_candidate, (influence, residuals))
