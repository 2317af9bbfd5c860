"""The gain of labelling candidates, summed over labels: the arithmetic of ``elr``.

A label is a matrix product over the members and a short formula for every pair. How the labels are
gone through depends on what a program is compiled for. A CPU takes one at a time, which stays in
its caches. Accelerators take all at once: the compiler puts product, formula and sum into one
kernel, where a loop would start several for each label.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from crabjax.scoring.beta import BetaRule, ScoringRule, as_float
from crabjax.scoring.divergence import Side, divergence, rational_sides, relative_curvature

Product = Callable[[jax.Array, jax.Array], jax.Array]
"""Sums over members, [..., E, C], [..., E, P] -> [..., C, P]."""

_LANES = 128  # of a TPU: anchors that do not fill its registers cost a third more
_LABELS_AT_ONCE = 128  # what a compiler that does not fuse would have to hold
_MOST_UNROLLED = 16  # members


def gains(
    candidates: jax.Array,
    anchors: jax.Array,
    label_weights: jax.Array,
    rule: ScoringRule,
    total: bool,
) -> jax.Array:
    """The weighted sum of all labels' gains.

    Args:
      candidates: [E, C, K].
      anchors: [E, P, K].
      label_weights: [K].
      rule: the scoring rule.
      total: whether to sum over anchors as well.

    Returns:
      [C, P], or [C] for the total.
    """
    candidates, anchors = as_float(candidates), as_float(anchors)
    dtype = jnp.promote_types(candidates.dtype, anchors.dtype)
    by_label = (
        jnp.moveaxis(candidates.astype(dtype), 2, 0),
        jnp.moveaxis(anchors.astype(dtype), 2, 0),
        label_weights.astype(dtype),
    )
    one_by_one = functools.partial(_one_by_one, rule=rule, total=total)
    if not _sides(rule, dtype, len(candidates)):  # long formulas, which no compiler fuses
        return one_by_one(*by_label)
    at_once = functools.partial(_at_once, rule=rule, total=total)
    return jax.lax.platform_dependent(
        *by_label,
        cpu=one_by_one,
        tpu=functools.partial(at_once, product=_matrix_product, lanes=_LANES),
        default=functools.partial(at_once, product=_unrolled_product, lanes=1),
    )


def _one_by_one(candidates, anchors, weights, rule: ScoringRule, total: bool) -> jax.Array:
    """[K, E, C], [K, E, P], [K] -> [C, P] or [C], adding up the labels."""

    def add_label(so_far, label):
        candidate, anchor, weight = label  # [E, C], [E, P], []
        return so_far + weight * label_gain(candidate, anchor, rule), None

    by_label = candidates, anchors, weights
    found = jax.lax.scan(add_label, zero_pairs(*by_label), by_label)[0]
    return found.sum(axis=1) if total else found


def _at_once(
    candidates, anchors, weights, rule: ScoringRule, total: bool, product: Product, lanes: int
) -> jax.Array:
    """[K, E, C], [K, E, P], [K] -> [C, P] or [C], many labels in one kernel."""
    labels, _, count = anchors.shape
    anchors = jnp.pad(anchors, ((0, 0), (0, 0), (0, -count % lanes)))  # zeros gain nothing

    def of_block(candidates, anchors, weights):
        found = weights[:, None, None] * label_gain(candidates, anchors, rule, product)
        return found.sum(axis=(0, 2)) if total else found.sum(axis=0)

    by_label = candidates, anchors, weights
    if labels > _LABELS_AT_ONCE:
        blocks = -(-labels // _LABELS_AT_ONCE)
        missing = blocks * _LABELS_AT_ONCE - labels
        cut = lambda rows: jnp.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1)).reshape(
            blocks, _LABELS_AT_ONCE, *rows.shape[1:]
        )
        zeros = zero_pairs(*by_label)
        zeros = zeros.sum(axis=1) if total else zeros
        add_block = lambda so_far, block: (so_far + of_block(*block), None)
        found = jax.lax.scan(add_block, zeros, tuple(map(cut, by_label)))[0]
    else:
        found = of_block(*by_label)
    return found if total else found[:, :count]


def zero_pairs(candidates: jax.Array, anchors: jax.Array, weights: jax.Array) -> jax.Array:
    """Zeros [C, P] from [K, E, C], [K, E, P], [K]; inside shard_map they vary as these do."""
    return 0 * (candidates[0, 0][:, None] + anchors[0, 0][None] + weights[0])


def _matrix_product(influence: jax.Array, deviation: jax.Array) -> jax.Array:
    precision = jax.lax.Precision.HIGHEST
    return jnp.einsum("...ec,...ep->...cp", influence, deviation, precision=precision)


def _unrolled_product(influence: jax.Array, deviation: jax.Array) -> jax.Array:
    """A GPU's compiler does not put a matrix product and a sum over labels into one kernel."""
    members = influence.shape[-2]
    if members > _MOST_UNROLLED:
        return _matrix_product(influence, deviation)
    terms = (influence[..., e, :, None] * deviation[..., e, None, :] for e in range(members))
    return functools.reduce(jnp.add, terms)


def _sides(rule: ScoringRule, dtype, members: int) -> tuple[Side, ...]:
    """Of a rule that has a short formula, in float32; else none."""
    if isinstance(rule, BetaRule) and dtype == jnp.float32:
        return rational_sides(rule, members)
    return ()


def label_gain(
    candidate: jax.Array,
    anchor: jax.Array,
    rule: ScoringRule,
    product: Product = _matrix_product,
) -> jax.Array:
    """The gain of one label, [..., E, C], [..., E, P] -> [..., C, P]; of several, in front."""
    one, zero = jnp.mean(candidate, axis=-2), jnp.mean(1 - candidate, axis=-2)  # [..., C] each
    variance = one * zero
    # A label that is certain has one outcome, which teaches nothing: no member gains influence.
    influence = _divide(candidate - one[..., None, :], variance[..., None, :])  # [..., E, C]
    influence = influence / influence.shape[-2]
    one, zero, variance = one[..., None], zero[..., None], variance[..., None]
    if not isinstance(rule, BetaRule):
        return _gain_by_difference(influence, one, zero, anchor, rule)
    sides = _sides(rule, candidate.dtype, candidate.shape[-2])
    if not sides:
        return _gain_by_divergence(influence, one, zero, anchor, rule)
    parts = [_gain_by_curvature(influence, one, zero, anchor, side, product) for side in sides]
    return variance * functools.reduce(jnp.add, parts)


def _gain_by_curvature(influence, one, zero, anchor, side: Side, product: Product) -> jax.Array:
    """The gain over ``p (1-p)``, as a mean curvature: accurate however small it is."""
    members = anchor.shape[-2]
    mean = jnp.mean(1 - anchor if side.flipped else anchor, axis=-2, keepdims=True)  # [..., 1, P]
    deviation = anchor - jnp.mean(anchor, axis=-2, keepdims=True)
    deviation = _divide(-deviation if side.flipped else deviation, mean)  # [..., E, P]
    change = product(influence, deviation)  # [..., C, P], relative to mean
    curvature = functools.partial(relative_curvature, mean=mean, rule=side.rule, members=members)
    if_one = curvature(jnp.maximum(1 + zero * change, 0))
    if_zero = curvature(jnp.maximum(1 - one * change, 0))
    # Where m is close to one the terms of a curvature cancel to rounding, which may be below zero.
    both = jnp.maximum(zero * if_one + one * if_zero, 0)
    return both * (change * change) * mean ** (side.rule.alpha + 1)


def _gain_by_divergence(influence, one, zero, anchor, rule: BetaRule) -> jax.Array:
    """The gain as what each outcome moves the forecast by, for any rule of the family."""
    average = functools.partial(jnp.mean, axis=-2, keepdims=True)
    mean, complement = average(anchor), average(1 - anchor)  # [..., 1, P]
    spread = _matrix_product(influence, anchor - mean)
    if_one = divergence(zero * spread, mean, complement, rule)
    if_zero = divergence(-one * spread, mean, complement, rule)
    return one * if_one + zero * if_zero


def _gain_by_difference(influence, one, zero, anchor, rule: ScoringRule) -> jax.Array:
    """The gain as a difference of entropies, for any rule; accurate to rounding of H."""
    mean = jnp.mean(anchor, axis=-2, keepdims=True)  # [..., 1, P]
    spread = _matrix_product(influence, anchor - mean)
    mean = jnp.clip(mean, 0, 1)  # rounding can lift a mean of ones above one
    if_one = rule.entropy(jnp.clip(mean + zero * spread, 0, 1))
    if_zero = rule.entropy(jnp.clip(mean - one * spread, 0, 1))
    gain = one * (rule.entropy(mean) - if_one) + zero * (rule.entropy(mean) - if_zero)
    return jnp.maximum(gain, 0)  # below zero it is rounding


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
