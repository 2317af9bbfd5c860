"""The released code's score: as described, and blind to the candidate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from crabjax.scoring import expected_loss_reduction
from crabjax.scoring.beta import BetaRule
from crabjax.scoring.released import released_score

RULE = BetaRule(0.1, 3.0)


@pytest.fixture(scope="module")
def ensemble():
    generator = np.random.default_rng(0)
    candidates, anchors = generator.uniform(0.01, 0.99, (2, 4, 6, 3))
    return candidates, anchors, generator.uniform(0.5, 2, 3)


def test_equals_direct_enumeration(ensemble):
    candidates, anchors, weights = ensemble
    alpha, beta = RULE.alpha, RULE.beta
    loss1 = np.vectorize(
        lambda p: integrate.quad(lambda t: t ** (alpha - 1) * (1 - t) ** beta, p, 1)[0]
    )
    loss0 = np.vectorize(
        lambda p: integrate.quad(lambda t: t**alpha * (1 - t) ** (beta - 1), 0, p)[0]
    )
    expected = np.zeros((6, 6))
    for x, a, k, y, y_anchor, member in np.ndindex(6, 6, 3, 2, 2, 4):
        own = candidates[:, x, k] if y else 1 - candidates[:, x, k]
        forecast = anchors[:, a, k]
        predictive = (own / own.sum()) @ (forecast if y_anchor else 1 - forecast)
        loss = (loss1 if y_anchor else loss0)(forecast[member])
        expected[x, a] -= weights[k] * own.mean() * predictive * loss / 4
    found = released_score(*map(jnp.float32, (candidates, anchors)), RULE, jnp.float32(weights))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_does_not_tell_candidates_apart(ensemble):
    candidates, anchors, weights = ensemble
    with jax.enable_x64(True):
        arrays = jnp.asarray(candidates), jnp.asarray(anchors), jnp.asarray(weights)
        released = np.asarray(released_score(*arrays[:2], RULE, arrays[2])).sum(axis=1)
        expected = np.asarray(expected_loss_reduction(*arrays[:2], RULE, arrays[2])).sum(axis=1)
    assert np.ptp(released) < 1e-14 * np.abs(released).mean()
    assert np.ptp(expected) > 0.5 * expected.mean()
