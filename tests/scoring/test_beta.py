"""Beta rules against the incomplete beta function and against numerical integration."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from crabjax.scoring import BetaRule, beta_entropy, beta_losses

EXPONENTS = (0, 0.05, 0.1, 0.5, 1, 1.7, 2, 3, 5, 10)
FORECASTS = np.array(
    [0, 1e-30, 1e-12, 1e-6, 1e-3, 0.03, 0.2, 0.45, 0.5, 0.55, 0.8, 0.97, 0.999, 1 - 1e-6, 1]
)
ONE_OF_EACH_FORM = ((0.1, 3), (3, 0.1), (0, 0), (0, 2), (1, 1), (0.5, 1.7), (0, 0.5), (0.05, 10))


def incomplete_integral(x, complement, a, b):
    """int_0^x t^(a-1) (1-t)^(b-1) dt, for a, b > 0."""
    return special.beta(a, b) * (
        special.betainc(a, b, x) if x < 0.5 else special.betaincc(b, a, complement)
    )


def loss_if_one_by_quadrature(p, alpha, beta):
    """int_p^1 t^(alpha-1) (1-t)^beta dt with t = exp(-s)."""
    if p == 0 and alpha == 0:
        return math.inf
    end = -math.log(p) if p > 0 else math.inf
    integrand = lambda s: math.exp(-alpha * s) * (-math.expm1(-s)) ** beta
    middle = min(end, 1.0)
    parts = [integrate.quad(integrand, 0, middle, epsabs=1e-13, epsrel=1e-13, limit=500)[0]]
    if end > middle:
        parts += [integrate.quad(integrand, middle, end, epsabs=1e-12, epsrel=1e-12, limit=500)[0]]
    return sum(parts)


def relative_error(found, expected):
    """Error relative to max(1, value), where infinities must agree."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    finite = np.isfinite(expected)
    found, expected = found[finite], expected[finite]
    return (np.abs(found - expected) / np.maximum(1, np.abs(expected))).max()


@pytest.fixture(params=["float32", "float64"])
def precision(request):
    """A dtype and the largest error allowed in it."""
    with jax.enable_x64(request.param == "float64"):
        yield jnp.dtype(request.param), {"float32": 2e-6, "float64": 1e-12}[request.param]


@pytest.mark.parametrize("alpha", EXPONENTS)
def test_losses_and_entropy_against_betainc(alpha, precision):
    dtype, tolerance = precision
    p = jnp.asarray(FORECASTS, dtype)
    exact = np.asarray(p, np.float64)
    for beta in EXPONENTS:
        with jax.disable_jit():  # a hundred rules: operation by operation beats compiling them
            if_one, if_zero = beta_losses(p, BetaRule(alpha, beta))
            entropy = beta_entropy(p, BetaRule(alpha, beta))
        assert np.isfinite(entropy).all()
        assert np.abs(entropy[np.array([0, -1])]).max() < tolerance
        assert not np.isnan(if_one).any()
        assert not np.isnan(if_zero).any()
        assert np.isinf(if_one).any() == (alpha == 0)
        assert np.isinf(if_zero).any() == (beta == 0)
        if alpha > 0:
            expected = [incomplete_integral(1 - q, q, beta + 1, alpha) for q in exact]
            assert relative_error(if_one, expected) < tolerance
        if beta > 0:
            expected = [incomplete_integral(q, 1 - q, alpha + 1, beta) for q in exact]
            assert relative_error(if_zero, expected) < tolerance
        one, zero = np.asarray(if_one, np.float64)[1:-1], np.asarray(if_zero, np.float64)[1:-1]
        expected = exact[1:-1] * one + (1 - exact[1:-1]) * zero
        assert relative_error(entropy[1:-1], expected) < tolerance


@pytest.mark.parametrize("small", [1e-6, 1e-3])
def test_an_exponent_close_to_zero_costs_no_digits(small):
    p = jnp.asarray(FORECASTS[1:-1], jnp.float32)
    exact = np.asarray(p, np.float64)
    if_one = np.array([incomplete_integral(1 - q, q, 4, small) for q in exact])
    if_zero = np.array([incomplete_integral(q, 1 - q, small + 1, 3) for q in exact])
    with jax.disable_jit():
        found = beta_entropy(p, BetaRule(small, 3))
        mirrored = beta_entropy(1 - p, BetaRule(3, small))
    assert relative_error(found, exact * if_one + (1 - exact) * if_zero) < 2e-6
    assert relative_error(mirrored, found) < 2e-6


@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (0, 0.5), (0, 3), (0, 10), (0.1, 3), (1.7, 0)])
def test_losses_against_quadrature(alpha, beta):
    with jax.enable_x64(True), jax.disable_jit():
        if_one, if_zero = beta_losses(FORECASTS, BetaRule(alpha, beta))
    expected = [loss_if_one_by_quadrature(p, alpha, beta) for p in FORECASTS]
    assert relative_error(if_one, expected) < 1e-10
    expected = [loss_if_one_by_quadrature(1 - p, beta, alpha) for p in FORECASTS]
    assert relative_error(if_zero, expected) < 1e-10


def test_known_rules():
    p = np.linspace(0.01, 0.99, 50, dtype=np.float32)
    if_one, if_zero = beta_losses(p, BetaRule(0, 0))
    np.testing.assert_allclose(if_one, -np.log(p), rtol=2e-6)
    np.testing.assert_allclose(if_zero, -np.log1p(-p), rtol=2e-6)
    if_one, if_zero = beta_losses(p, BetaRule(1, 1))
    np.testing.assert_allclose(if_one, (1 - p) ** 2 / 2, rtol=2e-6)
    np.testing.assert_allclose(if_zero, p**2 / 2, rtol=2e-6)


def test_default_rule_is_the_published_polynomial():
    q = np.linspace(0, 1, 101)
    polynomial = -9.0909 + 0.86580 * q - 0.15361 * q**2
    expected = q * special.beta(0.1, 4) + q**1.1 * polynomial
    np.testing.assert_allclose(beta_entropy(q, BetaRule()), expected, atol=1e-4)


@pytest.mark.parametrize(("alpha", "beta"), ONE_OF_EACH_FORM)
def test_jit_vmap_and_slopes(alpha, beta):
    rule = BetaRule(alpha, beta)
    q = jnp.asarray(FORECASTS, jnp.float32)
    eager, compiled = beta_entropy(q, rule), jax.jit(beta_entropy, static_argnums=1)(q, rule)
    np.testing.assert_allclose(eager, compiled, atol=5e-7)
    slope = jax.vmap(jax.grad(beta_entropy), in_axes=(0, None))(q, rule)
    if_one, if_zero = beta_losses(q, rule)
    np.testing.assert_allclose(slope, if_one - if_zero, rtol=1e-6)  # H' = loss1 - loss0
    assert np.isfinite(slope).all() == (alpha > 0 and beta > 0)
    middle = q[(q > 0.1) & (q < 0.9)]
    bend = jax.vmap(jax.grad(jax.grad(beta_entropy)), in_axes=(0, None))(middle, rule)
    np.testing.assert_allclose(bend, -(middle ** (alpha - 1)) * (1 - middle) ** (beta - 1), 1e-5)


def test_entropy_is_concave_and_not_negative():
    q = np.linspace(0, 1, 401)
    with jax.enable_x64(True):
        for alpha, beta in ONE_OF_EACH_FORM:
            entropy = np.asarray(beta_entropy(q, BetaRule(alpha, beta)))
            assert (entropy > -1e-14).all()
            assert (np.diff(entropy, 2) < 1e-14).all()


def test_low_precision_is_computed_in_float32():
    p = jnp.asarray([0.1, 0.5], jnp.bfloat16)
    assert beta_entropy(p, BetaRule()).dtype == jnp.float32
    expected = beta_entropy(p.astype(jnp.float32), BetaRule())
    np.testing.assert_array_equal(beta_entropy(p, BetaRule()), expected)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("alpha", (-0.1, 3)), ("beta", (0.1, -1)), ("alpha", (math.nan, 1)), ("beta", (1, "3"))],
)
def test_impossible_rules(name, arguments):
    with pytest.raises(ValueError, match=rf"{name}: expected a finite number >= 0, found"):
        BetaRule(*arguments)


@pytest.mark.parametrize("bad", [-0.1, 1.5, math.nan])
def test_forecasts_outside_the_unit_interval(bad):
    with pytest.raises(ValueError, match=r"p: expected probabilities in \[0, 1\], found .* \(1,\)"):
        beta_losses(np.array([0.5, bad], np.float32), BetaRule())
    with pytest.raises(ValueError, match="q: expected probabilities"):
        beta_entropy(np.array([0.5, bad], np.float32), BetaRule())


def test_rules_are_static_and_equal_by_value():
    assert BetaRule(1, 3) == BetaRule(1.0, 3.0)
    assert len({BetaRule(), BetaRule(0.1, 3), BetaRule(0.1, 2)}) == 2
