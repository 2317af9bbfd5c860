"""Expected loss reduction: what labelling a candidate teaches about the anchors (docs/method.md 3).

Observing label k of candidate x re-weights the ensemble members, which moves their mean at anchor
x' from m to ``m + (1-p) v`` when the label is one (probability p) and to ``m - p v`` when it is
zero, where ``v = sum_e (p_e(x) - p) / (p (1-p)) * (p_e(x') - m) / E`` is the distance between both.
The gain is what the entropy H loses by that spread: ``H(m) - p H(m + (1-p) v) - (1-p) H(m - p v)``.
It is computed as ``p (1-p) v^2`` times a mean curvature of H (see ``divergence``): in float32 gains
as small as 1e-12 stay accurate, where the difference of entropies is noise below 1e-6.
"""

import functools
from typing import Any

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
from crabjax.scoring.beta import BetaRule, ScoringRule, as_float, check_rule
from crabjax.scoring.divergence import Side, divergence, rational_sides, relative_curvature


def expected_loss_reduction(
    candidates: ArrayLike,
    anchors: ArrayLike,
    rule: ScoringRule = BetaRule(),  # noqa: B008
    label_weights: ArrayLike | None = None,
    chunk_size: int = 512,
) -> jax.Array:
    """Expected reduction of the loss at every anchor, from labelling every candidate.

    NumPy arrays go through one compiled program in chunks cut on the host, so their number may
    change from call to call without a recompilation. Arrays on a device stay there, and candidates
    that are sharded give scores sharded the same way. Nothing larger than [chunk_size, P] is held
    besides the result.

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
    check_rule(rule)
    candidates, anchors, label_weights = _checked(candidates, anchors, label_weights, chunk_size)
    if not isinstance(candidates, jax.Array) and is_concrete(anchors, label_weights):
        return _score_from_host(np.asarray(candidates), anchors, label_weights, rule, chunk_size)
    anchors, label_weights = jnp.asarray(anchors), jnp.asarray(label_weights)
    axes = _sharded_axes(candidates)
    if axes is None:
        return _score_chunks(jnp.asarray(candidates), anchors, label_weights, rule, chunk_size)
    return _score_shards(candidates, anchors, label_weights, rule, chunk_size, *axes)


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


def _score_from_host(candidates: np.ndarray, anchors, label_weights, rule, chunk_size) -> jax.Array:
    anchors, label_weights = jnp.asarray(anchors), jnp.asarray(label_weights)
    count, starts, chunks = candidates.shape[1], range(0, candidates.shape[1], chunk_size), []
    for start in starts:
        chunk = candidates[:, start : start + chunk_size]
        padding = ((0, 0), (0, _padded(chunk.shape[1], chunk_size) - chunk.shape[1]), (0, 0))
        chunk = jnp.asarray(np.pad(chunk, padding))
        chunks.append(_score_chunk(chunk, anchors, label_weights, rule))
    scores = np.empty((count, anchors.shape[1]), chunks[0].dtype)
    for start in starts:
        scores[start : start + chunk_size] = np.asarray(chunks.pop(0))[: count - start]
    return jax.device_put(scores)


def _padded(count: int, chunk_size: int) -> int:
    """The smallest of three sizes that holds ``count``: few programs, and one document is cheap."""
    return min(size for share in (1, 8, 64) if (size := max(chunk_size // share, 1)) >= count)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _score_chunks(candidates, anchors, label_weights, rule, chunk_size) -> jax.Array:
    members, count, labels = candidates.shape
    chunk_size = min(chunk_size, count)
    chunks = -(-count // chunk_size)
    padding = ((0, 0), (0, chunks * chunk_size - count), (0, 0))
    padded = jnp.pad(candidates, padding).reshape(members, chunks, chunk_size, labels)
    score = lambda chunk: _score_chunk(chunk, anchors, label_weights, rule)
    return jax.lax.map(score, jnp.moveaxis(padded, 1, 0)).reshape(-1, anchors.shape[1])[:count]


def _sharded_axes(candidates: Any) -> tuple[Any, Any] | None:
    """The mesh, and its axes that candidates are cut over; None where they lie in one piece."""
    sharding = None if isinstance(candidates, Tracer) else getattr(candidates, "sharding", None)
    if not isinstance(sharding, NamedSharding) or len(sharding.spec) < 2:
        return None
    return None if sharding.spec[1] is None else (sharding.mesh, sharding.spec[1])


@functools.partial(jax.jit, static_argnums=(3, 4, 5, 6))
def _score_shards(candidates, anchors, label_weights, rule, chunk_size, mesh, axes) -> jax.Array:
    """Every device scores its own candidates."""
    score = lambda *arrays: _score_chunks(*arrays, rule, chunk_size)
    specs = (PartitionSpec(None, axes), PartitionSpec(), PartitionSpec())
    shard = jax.shard_map(score, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(axes))
    return shard(candidates, anchors, label_weights)


@functools.partial(jax.jit, static_argnums=3)
def _score_chunk(
    candidates: jax.Array, anchors: jax.Array, label_weights: jax.Array, rule: ScoringRule
) -> jax.Array:
    """[E, C, K], [E, P, K], [K] -> [C, P], one label at a time."""
    candidates, anchors = as_float(candidates), as_float(anchors)
    if candidates.dtype != anchors.dtype:
        dtype = jnp.promote_types(candidates.dtype, anchors.dtype)
        candidates, anchors = candidates.astype(dtype), anchors.astype(dtype)

    def add_label(total, label):
        candidate, anchor, weight = label  # [E, C], [E, P], []
        return total + weight * _label_gain(candidate, anchor, rule), None

    by_label = (
        jnp.moveaxis(candidates, 2, 0),
        jnp.moveaxis(anchors, 2, 0),
        label_weights.astype(candidates.dtype),
    )
    return jax.lax.scan(add_label, zero_pairs(*by_label), by_label)[0]


def zero_pairs(candidates: jax.Array, anchors: jax.Array, weights: jax.Array) -> jax.Array:
    """Zeros [C, P] from [K, E, C], [K, E, P], [K]; inside shard_map they vary as these do."""
    return 0 * (candidates[0, 0][:, None] + anchors[0, 0][None] + weights[0])


def _label_gain(candidate: jax.Array, anchor: jax.Array, rule: ScoringRule) -> jax.Array:
    """The gain of one label, [E, C], [E, P] -> [C, P]."""
    one, zero = jnp.mean(candidate, axis=0), jnp.mean(1 - candidate, axis=0)  # [C] each
    variance = one * zero
    # A label that is certain has one outcome, which teaches nothing: no member gains influence.
    influence = _divide(candidate - one[None], variance[None])  # [E, C]
    one, zero, variance = one[:, None], zero[:, None], variance[:, None]
    if not isinstance(rule, BetaRule):
        return _gain_by_difference(influence, one, zero, anchor, rule)
    in_float32 = candidate.dtype == jnp.float32
    if not in_float32 or not (sides := rational_sides(rule, len(anchor))):
        return _gain_by_divergence(influence, one, zero, anchor, rule)
    gain = jnp.zeros((candidate.shape[1], anchor.shape[1]), candidate.dtype)
    for side in sides:
        gain = gain + _gain_by_curvature(influence, one, zero, anchor, side)
    return variance * gain


def _gain_by_curvature(influence, one, zero, anchor, side: Side) -> jax.Array:
    """The gain over ``p (1-p)``, as a mean curvature: accurate however small it is."""
    members = anchor.shape[0]
    mean = jnp.mean(1 - anchor if side.flipped else anchor, axis=0)  # [P]
    deviation = anchor - jnp.mean(anchor, axis=0, keepdims=True)
    deviation = _divide(-deviation if side.flipped else deviation, mean[None])  # [E, P]
    change = _spread(influence, deviation)  # [C, P], relative to mean
    curvature = functools.partial(
        relative_curvature, mean=mean[None], rule=side.rule, members=members
    )
    if_one = curvature(jnp.maximum(1 + zero * change, 0))
    if_zero = curvature(jnp.maximum(1 - one * change, 0))
    scale = mean ** (side.rule.alpha + 1)
    return (zero * if_one + one * if_zero) * (change * change) * scale[None]


def _gain_by_divergence(influence, one, zero, anchor, rule: BetaRule) -> jax.Array:
    """The gain as what each outcome moves the forecast by, for any rule of the family."""
    mean, complement = jnp.mean(anchor, axis=0)[None], jnp.mean(1 - anchor, axis=0)[None]  # [1, P]
    spread = _spread(influence, anchor - mean)
    if_one = divergence(zero * spread, mean, complement, rule)
    if_zero = divergence(-one * spread, mean, complement, rule)
    return one * if_one + zero * if_zero


def _gain_by_difference(influence, one, zero, anchor, rule: ScoringRule) -> jax.Array:
    """The gain as a difference of entropies, for any rule; accurate to rounding of H."""
    mean = jnp.mean(anchor, axis=0, keepdims=True)  # [1, P]
    spread = _spread(influence, anchor - mean)
    mean = jnp.clip(mean, 0, 1)  # rounding can lift a mean of ones above one
    if_one = rule.entropy(jnp.clip(mean + zero * spread, 0, 1))
    if_zero = rule.entropy(jnp.clip(mean - one * spread, 0, 1))
    gain = one * (rule.entropy(mean) - if_one) + zero * (rule.entropy(mean) - if_zero)
    return jnp.maximum(gain, 0)  # below zero it is rounding


def _spread(influence: jax.Array, deviation: jax.Array) -> jax.Array:
    """Mean over members of influence times deviation, [E, C], [E, P] -> [C, P]."""
    precision = jax.lax.Precision.HIGHEST
    return jnp.einsum("ec,ep->cp", influence / influence.shape[0], deviation, precision=precision)


@jax.custom_jvp
def _divide(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
    """The quotient, and 0 where the denominator is 0."""
    positive = denominator > 0
    return jnp.where(positive, numerator / jnp.where(positive, denominator, 1), 0)


@_divide.defjvp
def _divide_jvp(primals, tangents):
    """Written so that no denominator is squared: 1e-30 is a probability, 1e-60 underflows."""
    (numerator, denominator), (d_numerator, d_denominator) = primals, tangents
    quotient, positive = _divide(numerator, denominator), denominator > 0
    change = (d_numerator - quotient * d_denominator) / jnp.where(positive, denominator, 1)
    return quotient, jnp.where(positive, change, 0)
