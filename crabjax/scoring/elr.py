"""Expected loss reduction: what labelling a candidate teaches about the anchors (docs/method.md 3).

Observing label k of candidate x re-weights the ensemble members, which moves their mean at anchor
x' from m to ``m + (1-p) v`` when the label is one (probability p) and to ``m - p v`` when it is
zero, where ``v = sum_e (p_e(x) - p) / (p (1-p)) * (p_e(x') - m) / E`` is the distance between both.
The gain is what the entropy H loses by that spread: ``H(m) - p H(m + (1-p) v) - (1-p) H(m - p v)``.
It is computed as ``p (1-p) v^2`` times a mean curvature of H (see ``divergence``): in float32 gains
as small as 1e-12 stay accurate, where the difference of entropies is noise below 1e-6.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from crabjax.checks import (
    check_not_empty,
    check_probabilities,
    check_rank,
    check_same_size,
    is_concrete,
)
from crabjax.scoring.beta import BetaRule, ScoringRule, check_rule
from crabjax.scoring.gain import gains


def expected_loss_reduction(
    candidates: ArrayLike,
    anchors: ArrayLike,
    rule: ScoringRule = BetaRule(),  # noqa: B008
    label_weights: ArrayLike | None = None,
    chunk_size: int = 512,
) -> jax.Array:
    """Expected reduction of the loss at every anchor, from labelling every candidate.

    NumPy arrays go in chunks cut on the host through programs of up to three padded sizes, so their
    number may change from call to call without a recompilation. Arrays on a device stay there, and
    candidates that are sharded give scores sharded the same way. Where its row sums are enough,
    :func:`total_loss_reduction` holds less.

    Args:
      candidates: member probabilities of the documents that could be labelled, [E, X, K].
      anchors: member probabilities of the documents the gain is assessed on, [E, P, K]. Anchors
        whose probabilities are all 0 give a column of zeros: padding is free of side effects.
      rule: the scoring rule, a :class:`BetaRule` or one's own.
      label_weights: weight of each label's gain, [K]; ones by default.
      chunk_size: candidates scored at once.

    Returns:
      ``sum_k weight_k * gain_k(x, x')``, [X, P]; not negative for weights >= 0.
    """
    return _scores(candidates, anchors, label_weights, chunk_size, Kernel(rule, total=False))


def total_loss_reduction(
    candidates: ArrayLike,
    anchors: ArrayLike,
    rule: ScoringRule = BetaRule(),  # noqa: B008
    label_weights: ArrayLike | None = None,
    chunk_size: int = 512,
) -> jax.Array:
    """The row sums of :func:`expected_loss_reduction`, without the rows.

    Sums over anchors are taken where the gains are computed: [X, P] is neither held nor moved.

    Args:
      candidates: [E, X, K].
      anchors: [E, P, K]; those whose probabilities are all 0 add nothing.
      rule: the scoring rule.
      label_weights: [K]; ones by default.
      chunk_size: candidates scored at once.

    Returns:
      ``sum_x' sum_k weight_k * gain_k(x, x')``, [X].
    """
    return _scores(candidates, anchors, label_weights, chunk_size, Kernel(rule, total=True))


class Kernel(NamedTuple):
    """What is computed for a chunk of candidates."""

    rule: ScoringRule
    total: bool  # summed over anchors


def _scores(candidates, anchors, label_weights, chunk_size: int, kernel: Kernel) -> jax.Array:
    check_rule(kernel.rule)
    candidates, anchors, label_weights = _checked(candidates, anchors, label_weights, chunk_size)
    if not isinstance(candidates, jax.Array) and is_concrete(anchors, label_weights):
        return _score_from_host(np.asarray(candidates), anchors, label_weights, kernel, chunk_size)
    anchors, label_weights = jnp.asarray(anchors), jnp.asarray(label_weights)
    axes = _sharded_axes(candidates)
    if axes is None:
        return _score_chunks(jnp.asarray(candidates), anchors, label_weights, kernel, chunk_size)
    return _score_shards(candidates, anchors, label_weights, kernel, chunk_size, *axes)


def _checked(candidates, anchors, label_weights, chunk_size: int):
    named = {"candidates": (candidates, "EXK"), "anchors": (anchors, "EPK")}
    for name, (array, axes) in named.items():
        check_rank(name, array, axes)
        check_not_empty(name, array)
        check_probabilities(name, array)
    members, _, labels = np.shape(candidates)
    check_same_size("E", "candidates", members, "anchors", np.shape(anchors)[0])
    check_same_size("K", "candidates", labels, "anchors", np.shape(anchors)[2])
    if label_weights is None:
        label_weights = np.ones(labels, np.float32)
    check_rank("label_weights", label_weights, "K")
    check_same_size("K", "candidates", labels, "label_weights", np.shape(label_weights)[0])
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, found {chunk_size}")
    return candidates, anchors, label_weights


def _score_from_host(
    candidates: np.ndarray, anchors, label_weights, kernel, chunk_size
) -> jax.Array:
    anchors, label_weights = jnp.asarray(anchors), jnp.asarray(label_weights)
    count, starts, chunks = candidates.shape[1], range(0, candidates.shape[1], chunk_size), []
    for start in starts:
        chunk = candidates[:, start : start + chunk_size]
        padding = ((0, 0), (0, _padded(chunk.shape[1], chunk_size) - chunk.shape[1]), (0, 0))
        chunk = jnp.asarray(np.pad(chunk, padding))
        chunks.append(_score_chunk(chunk, anchors, label_weights, kernel))
    scores = np.empty((count, *chunks[0].shape[1:]), chunks[0].dtype)
    for start in starts:
        scores[start : start + chunk_size] = np.asarray(chunks.pop(0))[: count - start]
    return jax.device_put(scores)


def _padded(count: int, chunk_size: int) -> int:
    """The smallest of three sizes that holds ``count``: few programs, and one document is cheap."""
    return min(size for share in (1, 8, 64) if (size := max(chunk_size // share, 1)) >= count)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _score_chunks(candidates, anchors, label_weights, kernel, chunk_size) -> jax.Array:
    members, count, labels = candidates.shape
    chunk_size = min(chunk_size, count)
    chunks = -(-count // chunk_size)
    padding = ((0, 0), (0, chunks * chunk_size - count), (0, 0))
    padded = jnp.pad(candidates, padding).reshape(members, chunks, chunk_size, labels)
    score = lambda chunk: _score_chunk(chunk, anchors, label_weights, kernel)
    scores = jax.lax.map(score, jnp.moveaxis(padded, 1, 0))  # [chunks, chunk_size, P] or without P
    return scores.reshape(-1, *scores.shape[2:])[:count]


def _sharded_axes(candidates: Any) -> tuple[Any, Any] | None:
    """The mesh, and its axes that candidates are cut over; None where they lie in one piece."""
    sharding = None if isinstance(candidates, Tracer) else getattr(candidates, "sharding", None)
    if not isinstance(sharding, NamedSharding) or len(sharding.spec) < 2:
        return None
    return None if sharding.spec[1] is None else (sharding.mesh, sharding.spec[1])


@functools.partial(jax.jit, static_argnums=(3, 4, 5, 6))
def _score_shards(candidates, anchors, label_weights, kernel, chunk_size, mesh, axes) -> jax.Array:
    """Every device scores its own candidates."""
    score = lambda *arrays: _score_chunks(*arrays, kernel, chunk_size)
    specs = (PartitionSpec(None, axes), PartitionSpec(), PartitionSpec())
    shard = jax.shard_map(score, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(axes))
    return shard(candidates, anchors, label_weights)


@functools.partial(jax.jit, static_argnums=3)
def _score_chunk(
    candidates: jax.Array, anchors: jax.Array, label_weights: jax.Array, kernel: Kernel
) -> jax.Array:
    """[E, C, K], [E, P, K], [K] -> [C, P], or [C] for the total."""
    return gains(candidates, anchors, label_weights, *kernel)
