"""Gains of every rule against one integral a pair, however small they are."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from crabjax.scoring import BetaRule, expected_loss_reduction
from crabjax.scoring.divergence import _fitted_order, divergence


def ensemble(seed, members=5, documents=12, labels=3, disagreement=1.0, dtype="float32"):
    """Member probabilities that share a forecast and disagree by some logits, [E, X, K]."""
    random = np.random.default_rng(seed)
    shared = random.normal(-1, 2, (1, documents, labels))
    own = random.normal(0, disagreement, (members, documents, labels))
    return special.expit(shared + own).astype(dtype)


def divergence_by_quadrature(mean, after, rule):
    """``int_mean^after (after - t) w(t) dt``, the divergence as one integral."""
    weight = lambda t: (after - t) * t ** (rule.alpha - 1) * (1 - t) ** (rule.beta - 1)
    return integrate.quad(weight, mean, after, epsabs=0, epsrel=1e-11)[0]


@pytest.mark.parametrize("disagreement", [3.0, 0.3, 0.01])
@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.5, 1.7), (10, 0.05), (2.5, 7.3), (0.3, 0.3), (0, 1.5), (0, 0), (0.1, 3)]
)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_gains_of_every_rule_keep_their_digits(alpha, beta, disagreement, precision):
    rule = BetaRule(alpha, beta)
    with jax.enable_x64(precision == "float64"):
        probs = ensemble(1, documents=9, labels=1, disagreement=disagreement, dtype=precision)
        found = np.asarray(expected_loss_reduction(probs[:, :5], probs[:, 5:], rule, chunk_size=5))
    candidates, anchors = (part[..., 0].astype(np.float64) for part in (probs[:, :5], probs[:, 5:]))
    expected = np.zeros_like(found, np.float64)
    for x, a in itertools.product(range(5), range(4)):
        for likelihood in (candidates[:, x], 1 - candidates[:, x]):
            after = likelihood / likelihood.sum() @ anchors[:, a]
            cost = divergence_by_quadrature(anchors[:, a].mean(), after, rule)
            expected[x, a] += likelihood.mean() * cost
    assert found.min() >= 0
    # The members' spread itself carries the rounding of their probabilities.
    tolerance = {"float32": 2e-6 / min(disagreement, 1), "float64": 1e-9}[precision]
    np.testing.assert_allclose(found, expected, rtol=max(tolerance, 1e-9) * 10)


@pytest.mark.parametrize(
    ("alpha", "beta", "precision"),
    [(0.5, 1.7, "float32"), (0, 0.5, "float32"), (10, 0.05, "float32"), (10, 0.05, "float64")],
)
def test_forecasts_far_apart(alpha, beta, precision):
    """Farther than the ensembles above move one, from near either end to either end."""
    rule = BetaRule(alpha, beta)
    with jax.enable_x64(precision == "float64"):
        mean = jnp.asarray([[0.02, 0.3, 0.7, 0.98]], precision)
        after = jnp.asarray([[0], [1e-3], [0.05], [0.5], [0.95], [0.999], [1]], precision)
        found = jax.jit(divergence, static_argnums=3)(after - mean, mean, 1 - mean, rule)
    by_pair = np.vectorize(lambda m, q: divergence_by_quadrature(m, q, rule))
    expected = by_pair(np.asarray(mean, np.float64), np.asarray(after, np.float64))
    np.testing.assert_allclose(found, expected, rtol={"float32": 1e-4, "float64": 1e-10}[precision])


def test_fits_are_of_orders_from_one_to_two():
    """Those that are known to fit well; the others follow from them."""
    orders = {alpha: _fitted_order(BetaRule(alpha, 1)) for alpha in (0, 0.1, 1, 1.7, 2, 2.5)}
    for alpha, (order, raises) in orders.items():
        assert 1 <= order <= 2
        assert order + raises == pytest.approx(1 + alpha)
    assert [raises for _, raises in orders.values()] == [0, 0, 0, 1, 1, 2]
