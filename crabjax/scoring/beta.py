"""The beta family of proper scoring rules (docs/method.md 2).

Every quantity reduces to the incomplete integral ``J(x; a, b) = int_0^x t^(a-1) (1-t)^(b-1) dt``.
The exponents are fixed for a run, so all coefficients are worked out once on the host in float64
and what is left for the device is one power and a short polynomial.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from crabjax.checks import check_probabilities

# Binomial sums alternate in sign; up to this exponent they cost less than 2e-6 in float32.
_LARGEST_BINOMIAL = 6
# Below this alpha, 1/alpha is so large that (1 - q^alpha) / alpha needs expm1.
_SMALLEST_PLAIN_POWER = 0.1


class ScoringRule(Protocol):
    """A proper scoring rule of one's own: hashable, with a concave entropy."""

    def entropy(self, q: jax.Array) -> jax.Array:
        """The expected loss of a truthful forecast ``q`` of any shape; 0 at 0 and 1."""
        ...


@jax.tree_util.register_static
@dataclass(frozen=True)
class BetaRule:
    """A proper scoring rule of the beta family; a static argument or a constant leaf under jit.

    Attributes:
      alpha: weight of small probabilities, at least 0.
      beta: weight of large probabilities, at least 0.

    ``alpha = beta = 0`` is the log loss, ``alpha = beta = 1`` half the squared error.
    """

    alpha: float = 0.1
    beta: float = 3.0

    def __post_init__(self):
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.number) and 0 <= value < math.inf):
                raise ValueError(f"{name}: expected a finite number >= 0, found {value!r}")
            object.__setattr__(self, name, float(value))

    def entropy(self, q: jax.Array) -> jax.Array:
        """:func:`beta_entropy` without checks, on a floating array."""
        return entropy(q, self)

    @property
    def reflected(self) -> "BetaRule":
        """The rule that treats 1 - p as this one treats p."""
        return BetaRule(self.beta, self.alpha)


def check_rule(rule: Any) -> None:
    """Raises unless ``rule`` is a scoring rule: a :class:`BetaRule` or something like it."""
    if not callable(getattr(rule, "entropy", None)):
        raise TypeError(
            "rule: expected a BetaRule(alpha, beta), or a hashable object with a method "
            f"entropy(q), found {rule!r}"
        )


def beta_losses(p: ArrayLike, rule: BetaRule) -> tuple[jax.Array, jax.Array]:
    """Losses of forecasting ``p`` when the label turns out to be one, and zero.

    Args:
      p: probabilities, any shape.
      rule: the scoring rule.

    Returns:
      ``int_p^1 t^(alpha-1) (1-t)^beta dt`` and ``int_0^p t^alpha (1-t)^(beta-1) dt``, each of the
      shape of ``p``; infinite only where the integral is (logarithmic rules at 0 or 1).
    """
    check_probabilities("p", p)
    check_rule(rule)
    return _losses(as_float(p), rule)


def beta_entropy(q: ArrayLike, rule: BetaRule) -> jax.Array:
    """Generalised entropy ``q * loss_if_one(q) + (1-q) * loss_if_zero(q)``.

    Args:
      q: probabilities, any shape.
      rule: the scoring rule.

    Returns:
      The expected loss of a truthful forecast: concave, 0 at 0 and 1, of the shape of ``q``.
    """
    check_probabilities("q", q)
    check_rule(rule)
    return entropy(as_float(q), rule)


def as_float(values: ArrayLike) -> jax.Array:
    """float32 and float64 as they are; anything else, such as bfloat16, as float32."""
    array = jnp.asarray(values)
    return array if array.dtype in (jnp.float32, jnp.float64) else array.astype(jnp.float32)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
@functools.partial(jax.jit, static_argnums=1)
def _losses(p: jax.Array, rule: BetaRule) -> tuple[jax.Array, jax.Array]:
    loss_if_one = _incomplete_integral(1 - p, p, rule.beta + 1, rule.alpha)
    loss_if_zero = _incomplete_integral(p, 1 - p, rule.alpha + 1, rule.beta)
    return loss_if_one, loss_if_zero


@_losses.defjvp
def _losses_jvp(rule: BetaRule, primals, tangents):
    (p,), (dp,) = primals, tangents
    slope_one = -(p ** (rule.alpha - 1)) * (1 - p) ** rule.beta
    slope_zero = p**rule.alpha * (1 - p) ** (rule.beta - 1)
    return _losses(p, rule), (slope_one * dp, slope_zero * dp)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
@functools.partial(jax.jit, static_argnums=1)
def entropy(q: jax.Array, rule: BetaRule) -> jax.Array:
    """:func:`beta_entropy` without checks, on a floating array."""
    if rule.alpha == rule.beta == 0:
        return _shannon_entropy(q)
    if is_short_binomial(rule.beta):
        return _binomial_entropy(q, rule)
    if is_short_binomial(rule.alpha):
        return _binomial_entropy(1 - q, rule.reflected)
    loss_if_one, loss_if_zero = _losses(q, rule)
    return _times(q, loss_if_one) + _times(1 - q, loss_if_zero)


@entropy.defjvp
def _entropy_jvp(rule: BetaRule, primals, tangents):
    (q,), (dq,) = primals, tangents
    return entropy(q, rule), entropy_slope(q, rule) * dq


def entropy_slope(q: jax.Array, rule: BetaRule) -> jax.Array:
    """H'(q), finite inside (0, 1)."""
    loss_if_one, loss_if_zero = _losses(q, rule)
    return loss_if_one - loss_if_zero


def is_short_binomial(exponent: float) -> bool:
    """Whether ``(1-t)^(exponent-1)`` is best expanded into powers of t."""
    return exponent.is_integer() and 1 <= exponent <= _LARGEST_BINOMIAL


def _times(weight: jax.Array, loss: jax.Array) -> jax.Array:
    """``weight * loss`` where a weight of 0 wins over an infinite loss."""
    return jnp.where(weight > 0, weight * loss, jnp.zeros_like(loss))


def _shannon_entropy(q: jax.Array) -> jax.Array:
    return -_times(q, jnp.log(q)) - _times(1 - q, jnp.log1p(-q))


def _binomial_entropy(q: jax.Array, rule: BetaRule) -> jax.Array:
    """The entropy for a small integer beta: ``-H''`` is a short sum of powers, integrated twice.

    ``H = sum_j c_j (q - q^(1+alpha+j))``; the j = 0 term is written as ``q (1 - q^alpha) / alpha``,
    which stays accurate, and becomes ``-q log q``, as alpha goes to 0.
    """
    head, *tail = entropy_coefficients(rule)
    power, gap = _power_and_gap(q, rule.alpha)
    polynomial = evaluate_polynomial(q, (0.0, *tail)) if tail else jnp.zeros_like(q)
    return q * (head * gap + (sum(tail) - power * polynomial))


@functools.lru_cache(maxsize=64)
def entropy_coefficients(rule: BetaRule) -> tuple[float, ...]:
    """``c_0 * alpha, c_1, c_2, ...`` of ``H(q) = sum_j c_j (q - q^(1+alpha+j))``; integer beta."""
    alpha, degree = rule.alpha, int(rule.beta) - 1
    signed = [(-1) ** j * math.comb(degree, j) for j in range(degree + 1)]
    tail = [c / ((alpha + j) * (alpha + j + 1)) for j, c in enumerate(signed) if j > 0]
    return (1 / (alpha + 1), *tail)


def _power_and_gap(q: jax.Array, exponent: float) -> tuple[jax.Array, jax.Array]:
    """``q^exponent`` and ``(1 - q^exponent) / exponent``, the latter ``-log q`` at exponent 0.

    At q = 0 and exponent 0 the gap is large and finite: callers multiply it by q.
    """
    log_q = jnp.log(jnp.maximum(q, jnp.finfo(q.dtype).tiny))
    if exponent == 0:
        return jnp.ones_like(q), -log_q
    if exponent < _SMALLEST_PLAIN_POWER:
        change = jnp.expm1(exponent * log_q)
        return 1 + change, change * (-1 / exponent)
    power = jnp.exp(exponent * log_q)
    return power, (1 - power) * (1 / exponent)


def _incomplete_integral(x: jax.Array, complement: jax.Array, a: float, b: float) -> jax.Array:
    """``J(x; a, b)`` for a >= 1, b >= 0; ``complement`` is 1 - x, exact where x is close to 1."""
    if b.is_integer() and b > 0:
        return x**a * evaluate_polynomial(complement, _integer_coefficients(a, int(b)))
    terms = 26 if x.dtype == jnp.float32 else 56
    lower, upper, constant = _series_coefficients(a, b, terms)
    # Each branch gets an argument it converges on, so the one not taken is finite as well.
    below = jnp.minimum(x, 0.5)
    above = jnp.minimum(complement, 0.5)
    series_below = below**a * evaluate_polynomial(below, lower)
    log_above = jnp.log(above)
    gap = jnp.expm1(b * log_above) * (-1 / b) if b else -log_above
    series_above = constant + gap - above**b * evaluate_polynomial(above, upper)
    return jnp.where(x <= 0.5, series_below, series_above)


def evaluate_polynomial(x: jax.Array, coefficients: Sequence[float | jax.Array]) -> jax.Array:
    """Horner's rule, lowest power first."""
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value


@functools.lru_cache(maxsize=64)
def _integer_coefficients(a: float, b: int) -> tuple[float, ...]:
    """``J(x; a, b) = x^a sum_{j<b} d_j (1-x)^j``: all d_j > 0, so nothing cancels."""
    scale = 1.0  # B(a, b) for integer b
    for j in range(b):
        scale *= max(j, 1) / (a + j)
    rising = [1.0]
    for j in range(b - 1):
        rising.append(rising[-1] * (a + j) / (j + 1))
    return tuple(scale * one for one in rising)


@functools.lru_cache(maxsize=64)
def _series_coefficients(
    a: float, b: float, terms: int
) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Power series of ``J(x; a, b)`` around 0 and around 1, and the constant that joins them.

    Around 1, with y = 1 - x, ``J = constant + (1 - y^b) / b - y^b * sum_n upper_n y^n``; this has a
    limit at b = 0, and the constant, B(a, b) - 1/b, follows from both series at x = 1/2.
    """

    def binomial_series(exponent: float, shift: float, count: int) -> list[float]:
        """Coefficients of the integral of ``t^(shift-1) (1-t)^(exponent-1)``, over t^shift."""
        rising, coefficients = 1.0, []
        for n in range(count):
            coefficients.append(rising / (shift + n) if n or shift else 0.0)
            rising *= (n + 1 - exponent) / (n + 1)
        return coefficients

    def at_half(coefficients: list[float]) -> float:
        return math.fsum(c * 0.5**n for n, c in enumerate(coefficients))

    lower, upper = binomial_series(b, a, 80), binomial_series(a, b, 80)
    upper[0] = 0.0  # the term y^b / b is the gap
    gap = -math.expm1(b * math.log(0.5)) / b if b else -math.log(0.5)
    constant = 0.5**a * at_half(lower) - gap + 0.5**b * at_half(upper)
    last = max((n + 1 for n, c in enumerate(upper[:terms]) if c != 0.0), default=1)
    return tuple(lower[:terms]), tuple(upper[:last]), constant
