"""Expected loss reduction: what labelling a candidate teaches about the anchors (docs/method.md 3).

Observing label k of candidate x re-weights the ensemble members, which moves their mean at anchor
x' from m to ``m + (1-p) v`` when the label is one (probability p) and to ``m - p v`` when it is
zero, where ``v = sum_e (p_e(x) - p) / (p (1-p)) * (p_e(x') - m) / E`` is the distance between both.
The gain is what the entropy H loses by that spread: ``H(m) - p H(m + (1-p) v) - (1-p) H(m - p v)``.
In float32 it is computed as ``p (1-p) v^2`` times a mean curvature of H (see ``divergence``), which
keeps gains as small as 1e-12 accurate where the difference of entropies is noise below 1e-6.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from crabjax.checks import (
    check_not_empty,
    check_probabilities,
    check_rank,
    check_same_size,
    is_concrete,
)
from crabjax.scoring.beta import BetaRule, ScoringRule, as_float
from crabjax.scoring.divergence import Side, rational_sides, relative_curvature


def expected_loss_reduction(
    candidates: ArrayLike,
    anchors: ArrayLike,
    rule: ScoringRule = BetaRule(),  # noqa: B008
    label_weights: ArrayLike | None = None,
    chunk_size: int = 512,
) -> jax.Array:
    """Expected reduction of the loss at every anchor, from labelling every candidate.

    Outside jit the candidates go through one compiled program in chunks cut on the host, so their
    number may change from call to call without a recompilation; under jit it is one ``lax.map``.
    Nothing larger than [chunk_size, P] is held besides the result.

    Args:
      candidates: member probabilities of the documents that could be labelled, [E, X, K].
      anchors: member probabilities of the documents the gain is assessed on, [E, P, K]. Anchors
        whose probabilities are all 0 give a column of zeros: padding is free of side effects.
      rule: the scoring rule, a :class:`BetaRule` or one's own.
      label_weights: weight of each label's gain, [K]; ones by default.
      chunk_size: candidates scored at once.

    Returns:
      ``sum_k weight_k * gain_k(x, x')``, [X, P]; not negative, up to rounding, for weights >= 0.
    """
    candidates, anchors, label_weights = _checked(candidates, anchors, label_weights, chunk_size)
    if is_concrete(candidates, anchors, label_weights):
        return _score_on_host(candidates, anchors, label_weights, rule, chunk_size)
    return _score_traced(candidates, anchors, label_weights, rule, chunk_size)


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


def _score_on_host(candidates, anchors, label_weights, rule, chunk_size) -> jax.Array:
    candidates = np.asarray(candidates)
    anchors, label_weights = jnp.asarray(anchors), jnp.asarray(label_weights)
    count, starts, chunks = candidates.shape[1], range(0, candidates.shape[1], chunk_size), []
    for start in starts:
        chunk = candidates[:, start : start + chunk_size]
        padding = ((0, 0), (0, chunk_size - chunk.shape[1]), (0, 0))
        chunk = jnp.asarray(np.pad(chunk, padding))
        chunks.append(_score_chunk(chunk, anchors, label_weights, rule))
    scores = np.empty((count, anchors.shape[1]), chunks[0].dtype)
    for start in starts:
        scores[start : start + chunk_size] = np.asarray(chunks.pop(0))[: count - start]
    return jax.device_put(scores)


def _score_traced(candidates, anchors, label_weights, rule, chunk_size) -> jax.Array:
    candidates, anchors, label_weights = map(jnp.asarray, (candidates, anchors, label_weights))
    members, count, labels = candidates.shape
    chunk_size = min(chunk_size, count)
    chunks = -(-count // chunk_size)
    padding = ((0, 0), (0, chunks * chunk_size - count), (0, 0))
    padded = jnp.pad(candidates, padding).reshape(members, chunks, chunk_size, labels)
    score = lambda chunk: _score_chunk(chunk, anchors, label_weights, rule)
    return jax.lax.map(score, jnp.moveaxis(padded, 1, 0)).reshape(-1, anchors.shape[1])[:count]


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
    shape = (candidates.shape[1], anchors.shape[1])
    return jax.lax.scan(add_label, jnp.zeros(shape, candidates.dtype), by_label)[0]


def _label_gain(candidate: jax.Array, anchor: jax.Array, rule: ScoringRule) -> jax.Array:
    """The gain of one label, [E, C], [E, P] -> [C, P]."""
    one, zero = jnp.mean(candidate, axis=0), jnp.mean(1 - candidate, axis=0)  # [C] each
    variance = one * zero
    # A label that is certain has one outcome, which teaches nothing: no member gains influence.
    influence = _divide(candidate - one[None], variance[None])  # [E, C]
    one, zero, variance = one[:, None], zero[:, None], variance[:, None]
    sides: tuple[Side, ...] = ()
    if isinstance(rule, BetaRule) and candidate.dtype == jnp.float32:
        sides = rational_sides(rule, len(anchor))
    if not sides:
        return _gain_by_difference(influence, one, zero, anchor, rule)
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


def _gain_by_difference(influence, one, zero, anchor, rule: ScoringRule) -> jax.Array:
    """The gain as a difference of entropies, for any rule; accurate to rounding of H."""
    mean = jnp.mean(anchor, axis=0, keepdims=True)  # [1, P]
    spread = _spread(influence, anchor - mean)
    mean = jnp.clip(mean, 0, 1)  # rounding can lift a mean of ones above one
    if_one = rule.entropy(jnp.clip(mean + zero * spread, 0, 1))
    if_zero = rule.entropy(jnp.clip(mean - one * spread, 0, 1))
    return one * (rule.entropy(mean) - if_one) + zero * (rule.entropy(mean) - if_zero)


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
