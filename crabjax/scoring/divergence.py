"""How far the entropy bends between two forecasts, without cancellation.

Moving a forecast from m to q costs the Bregman divergence of the entropy,
``H(m) + H'(m) (q-m) - H(q) = (q-m)^2 * C``, with ``C = int_0^1 (1-u) w(m + u (q-m)) du`` the mean
curvature and ``w(t) = -H''(t) = t^(alpha-1) (1-t)^(beta-1)``. As a difference of entropies it
drowns in float32 rounding when q is close to m. For an integer beta, however, w is a short sum of
powers, and the curvature of a power, relative to that at m, depends on the ratio r = q/m alone:

    R_s(r) = int_0^1 (1-u) (1 + u (r-1))^(s-2) du,      (s+1) R_{s+1} = (s-1) r R_s + 1.

For 1 <= s < 2 a few poles and a constant, ``c + sum_i w_i / (x + pole_i)``, approximate it on
[0, E] as a function of x = sqrt(r): r itself would need half as many again. Over a common
denominator that is a quotient of polynomials whose coefficients are positive, but for one or two of
the numerator's highest, which are small beside the others. Evaluating the quotient in float32 loses
next to nothing, and takes neither a power nor a logarithm.

Where neither exponent is a small integer, and in float64, the mean curvature is a Gauss-Jacobi sum
while q is within a factor of four of m, and 1 - q of 1 - m: its error falls by a factor of nine a
place. Farther off little cancels, and the difference of entropies does.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crabjax.scoring.beta import (
    BetaRule,
    entropy,
    entropy_slope,
    evaluate_polynomial,
    is_short_binomial,
)

_TOLERANCE = 2e-6  # largest relative error of a fit
_MOST_POLES = 20
# Below, slopes are those here: the fit is of the square root, whose is infinite.
_LEAST_RATIO = 1e-6
_FACTOR = 4.0  # within which a few places are enough
_HIGHEST_DEGREE = 10  # of a power that they integrate exactly
_MOST_MEMBERS = 1000  # the grid of a fit for more is too long for its equations to be solved

Coefficients = tuple[tuple[float, ...], ...]


class Side(NamedTuple):
    """A rule with a small integer beta, seen from 0 or, ``flipped``, from 1."""

    rule: BetaRule
    flipped: bool


def rational_sides(rule: BetaRule, members: int) -> tuple[Side, ...]:
    """Rules with an integer beta that add up to ``rule``; empty if there are none.

    Empty too where no quotient is accurate enough for so many members.
    """
    sides = _sides(rule)
    orders = [_fitted_order(side.rule)[0] for side in sides]
    fits = [rational_coefficients(order, members) for order in orders]
    return () if None in fits else sides


def _sides(rule: BetaRule) -> tuple[Side, ...]:
    if is_short_binomial(rule.beta):
        return (Side(rule, False),)
    if is_short_binomial(rule.alpha):
        return (Side(rule.reflected, True),)
    if rule.alpha == rule.beta == 0:  # 1 / (t (1-t)) = 1 / t + 1 / (1-t)
        return (Side(BetaRule(0, 1), False), Side(BetaRule(0, 1), True))
    return ()


def relative_curvature(
    ratio: jax.Array, mean: jax.Array, rule: BetaRule, members: int
) -> jax.Array:
    """Mean curvature between ``mean`` and ``ratio * mean``, divided by ``mean^(alpha-1)``.

    Args:
      ratio: q/m, [..., C, P], between 0 and ``members``: no mean of E members can grow further.
      mean: m, [..., 1, P].
      rule: of a side that :func:`rational_sides` gave.
      members: E.

    Returns:
      ``sum_j binom(beta-1, j) (-m)^j R_{1+alpha+j}(r)``, [..., C, P]; where m is close to one
      rounding can take it below zero.
    """
    order, raises = _fitted_order(rule)
    part = _fitted_curvature(ratio, order, members)
    for _ in range(raises):
        part, order = ratio * part * ((order - 1) / (order + 1)) + 1 / (order + 1), order + 1
    factor, rest = _in_moved_mean(order, int(rule.beta) - 1)
    if not rest:
        return part
    moved = mean * ratio
    by_power = tuple(mean * evaluate_polynomial(mean, one) for one in rest)  # [..., 1, P] each
    return evaluate_polynomial(moved, factor) * part + evaluate_polynomial(moved, by_power)


@functools.lru_cache(maxsize=64)
def _in_moved_mean(order: float, degree: int) -> tuple[tuple[float, ...], Coefficients]:
    """``sum_j binom(degree, j) (-m)^j R_{order+j}`` as ``a(q) R_order + m sum_n q^n b_n(m)``.

    The orders follow from one another, and every r comes with an m: ``q = m r``.

    Returns:
      The coefficients of a, and those of every b_n; lowest power first.
    """
    slopes = [(order + step - 1) / (order + step + 1) for step in range(degree)]
    constants = [1 / (order + step + 1) for step in range(degree)]
    signed = [(-1) ** j * math.comb(degree, j) for j in range(degree + 1)]
    factor = tuple(signed[j] * math.prod(slopes[:j]) for j in range(degree + 1))
    rest = tuple(
        tuple(
            signed[n + i + 1] * constants[i] * math.prod(slopes[i + 1 : n + i + 1])
            for i in range(degree - n)
        )
        for n in range(degree)
    )
    return factor, rest


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _fitted_curvature(ratio: jax.Array, order: float, members: int) -> jax.Array:
    """R_order(ratio) by the quotient that was fitted, of any shape."""
    return _quotient(jnp.sqrt(ratio), order, members)


@_fitted_curvature.defjvp
def _fitted_curvature_jvp(order: float, members: int, primals, tangents):
    (ratio,), (d_ratio,) = primals, tangents
    root = jnp.sqrt(jnp.maximum(ratio, _LEAST_RATIO))
    quotient = functools.partial(_quotient, order=order, members=members)
    _, slope = jax.jvp(quotient, (root,), (d_ratio / (2 * root),))
    return _fitted_curvature(ratio, order, members), slope


def _quotient(root: jax.Array, order: float, members: int) -> jax.Array:
    coefficients = rational_coefficients(order, members)
    assert coefficients is not None  # of a side that rational_sides gave
    numerator, denominator = (evaluate_polynomial(root, one) for one in coefficients)
    return numerator / denominator


def divergence(
    change: jax.Array, mean: jax.Array, complement: jax.Array, rule: BetaRule
) -> jax.Array:
    """``H(m) + H'(m) (q-m) - H(q)`` for ``q = m + change``, accurate however small it is.

    Args:
      change: q - m, [C, P].
      mean: m, [1, P].
      complement: 1 - m, accurate where m is close to one, [1, P].
      rule: any.

    Returns:
      [C, P], not negative; 0 where m is 0 or 1, which no mean of members can leave.
    """
    least = jnp.finfo(change.dtype).tiny
    inside = (mean >= least) & (complement >= least)  # [1, P]
    mean, complement = jnp.where(inside, mean, 0.5), jnp.where(inside, complement, 0.5)
    moved, rest = mean + change, complement - change
    near = _is_near(moved, mean, rule.alpha) & _is_near(rest, complement, rule.beta)
    step = jnp.where(near, change, 0)
    curvature = jnp.zeros_like(change)
    for place, weight in _quadrature(str(change.dtype)):
        weighted = rule_weight(mean + place * step, complement - place * step, rule)
        curvature = curvature + weight * weighted
    low = mean <= 0.5  # each forecast from the end it is nearer to, where its digits are
    from_zero = _cost(mean, moved, low & ~near, rule)
    from_one = _cost(complement, rest, ~low & ~near, rule.reflected)
    found = jnp.where(near, step * step * curvature, from_zero + from_one)
    return jnp.where(inside, jnp.maximum(found, 0), 0)


def _cost(mean: jax.Array, after: jax.Array, far: jax.Array, rule: BetaRule) -> jax.Array:
    """The divergence as it is written, for forecasts that are ``far`` apart; 0 for others.

    At 0 and 1, where H is 0, some slopes are infinite: none is taken there.
    """
    mean, after = jnp.where(far, mean, 0.5), jnp.where(far, after, 0.5)
    limits = jnp.finfo(after.dtype)
    between = jnp.clip(after, limits.tiny, 1 - limits.eps)
    left = jnp.where(between == after, entropy(between, rule), 0)
    cost = entropy(mean, rule) + entropy_slope(mean, rule) * (jnp.clip(after, 0, 1) - mean) - left
    return jnp.where(far, cost, 0)


def _is_near(moved: jax.Array, start: jax.Array, exponent: float) -> jax.Array:
    """Whether the sum over places is accurate on the way; powers of a low degree always are."""
    if exponent.is_integer() and 1 <= exponent <= _HIGHEST_DEGREE:
        return moved >= 0
    return (_FACTOR * moved >= start) & (moved <= _FACTOR * start)


def rule_weight(t: jax.Array, complement: jax.Array, rule: BetaRule) -> jax.Array:
    """``w(t) = t^(alpha-1) (1-t)^(beta-1)``, minus the second derivative of H."""
    return jnp.exp((rule.alpha - 1) * jnp.log(t) + (rule.beta - 1) * jnp.log(complement))


@functools.lru_cache(maxsize=4)
def _quadrature(dtype: str) -> tuple[tuple[float, float], ...]:
    """Places and weights for ``int_0^1 (1-u) f(u) du``: as many as the precision can tell."""
    from scipy.special import roots_jacobi

    places, weights = roots_jacobi(7 if dtype == "float32" else 17, 1.0, 0.0)
    return tuple(zip(((places + 1) / 2).tolist(), (weights / 4).tolist()))


def _fitted_order(rule: BetaRule) -> tuple[float, int]:
    """The order in [1, 2] whose R is fitted, and how often it is raised to get 1 + alpha."""
    raises = max(math.ceil(rule.alpha) - 1, 0)
    return 1 + rule.alpha - raises, raises


@functools.lru_cache(maxsize=64)
def rational_coefficients(order: float, members: int) -> Coefficients | None:
    """Numerator and denominator of R_order on [0, members] in the root of r, lowest power first.

    Poles are placed by least squares, from a start that crowds them towards the singularity at
    0, with as many as the tolerance needs: 5 for the default rule and five members. None if no
    fit reaches the tolerance.
    """
    if order == 2:
        return (0.5,), (1.0,)
    if members > _MOST_MEMBERS:
        return None
    from scipy.optimize import least_squares

    grid = max(members, 2) * np.linspace(0, 1, 400) ** 6
    exact, roots = _exact_curvature(order, grid), np.sqrt(grid)
    for count in range(2, _MOST_POLES + 1):
        start = np.log(2 * roots[-1]) + 4 * (np.sqrt(np.arange(1, count + 1)) - np.sqrt(count))
        error = lambda log_poles: (_weights(log_poles, roots, exact)[1] / exact - 1) / _TOLERANCE
        log_poles = least_squares(error, start, max_nfev=40).x
        if np.abs(error(log_poles)).max() <= 1:
            return _as_polynomials(_weights(log_poles, roots, exact)[0], np.exp(log_poles))
    return None


def _exact_curvature(order: float, ratio: np.ndarray) -> np.ndarray:
    from scipy.special import hyp2f1

    return hyp2f1(2 - order, 1, 3, 1 - ratio) / 2


def _weights(
    log_poles: np.ndarray, grid: np.ndarray, exact: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The best constant and weights for given poles, and the values they give on the grid."""
    basis = np.concatenate([np.ones((len(grid), 1)), 1 / (grid[:, None] + np.exp(log_poles))], 1)
    weights = np.linalg.lstsq(basis / exact[:, None], np.ones_like(exact))[0]
    return weights, basis @ weights


def _as_polynomials(weights: np.ndarray, poles: np.ndarray) -> Coefficients:
    """``weights[0] + sum_i weights[i+1] / (x + poles[i])`` over its common denominator."""
    denominator = np.poly(-poles)
    numerator = weights[0] * denominator
    for i, weight in enumerate(weights[1:]):
        numerator[1:] += weight * np.poly(-np.delete(poles, i))
    scale = denominator.max()
    return tuple((numerator[::-1] / scale).tolist()), tuple((denominator[::-1] / scale).tolist())
