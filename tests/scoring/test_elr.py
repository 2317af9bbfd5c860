"""Expected loss reduction against Eqs. 2 to 4 evaluated one number at a time."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special

from crabjax.scoring import BetaRule, beta_losses, expected_loss_reduction
from crabjax.scoring.divergence import Side, rational_coefficients, rational_sides

RULES = ((0.1, 3), (3, 0.1), (0, 0), (1, 1), (0, 3), (1.7, 2), (0.5, 6), (0.5, 1.7), (10, 0.05))


def ensemble(seed, members=5, documents=12, labels=3, disagreement=1.0, dtype="float32"):
    """Member probabilities that share a forecast and disagree by some logits, [E, X, K]."""
    random = np.random.default_rng(seed)
    shared = random.normal(-1, 2, (1, documents, labels))
    own = random.normal(0, disagreement, (members, documents, labels))
    return special.expit(shared + own).astype(dtype)


def loss(forecast, label, rule):
    """The loss of one forecast, from the incomplete beta function."""
    a, b = (rule.beta + 1, rule.alpha) if label else (rule.alpha + 1, rule.beta)
    x = 1 - forecast if label else forecast
    if b > 0:
        return special.beta(a, b) * special.betainc(a, b, x)
    # b = 0: int t^(a-1) / (1-t) for an integer a, by the geometric series
    return -math.log(forecast if label else 1 - forecast) - sum(x**i / i for i in range(1, int(a)))


def expected_loss(forecast, rule):
    """The loss a truthful forecast expects; an outcome that cannot happen costs nothing."""
    chances = {1: forecast, 0: 1 - forecast}
    return sum(chance * loss(forecast, y, rule) for y, chance in chances.items() if chance > 0)


def slow_gain(candidates, anchors, rule):
    """Eqs. 2 to 4 in loops over everything, [X, P, K]."""
    candidates, anchors = candidates.astype(np.float64), anchors.astype(np.float64)
    members, _, labels = candidates.shape
    gain = np.zeros((candidates.shape[1], anchors.shape[1], labels))
    for x, a, k in itertools.product(*map(range, gain.shape)):
        prior = anchors[:, a, k].mean()
        prior_score = -expected_loss(prior, rule)
        for outcome in (0, 1):
            likelihood = candidates[:, x, k] if outcome else 1 - candidates[:, x, k]
            chance = likelihood.mean()
            if chance == 0:
                continue
            posterior = likelihood / likelihood.sum()
            predictive = sum(posterior[e] * anchors[e, a, k] for e in range(members))
            gain[x, a, k] += chance * (-expected_loss(predictive, rule) - prior_score)
    return gain


@pytest.mark.parametrize(("alpha", "beta"), RULES)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_equals_the_equations(alpha, beta, precision):
    rule = BetaRule(alpha, beta)
    with jax.enable_x64(precision == "float64"):
        probs = ensemble(0, dtype=precision)
        candidates, anchors = probs[:, :8], probs[:, 7:]  # one document is both
        found = expected_loss_reduction(candidates, anchors, rule, chunk_size=8)
        assert found.dtype == precision
    expected = slow_gain(candidates, anchors, rule).sum(axis=2)
    tolerance = {"float32": 2e-6, "float64": 1e-12}[precision]
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def reference_entropy(q, rule):
    """H for an integer beta in extended precision."""
    alpha, degree = np.longdouble(rule.alpha), int(rule.beta) - 1
    terms = [
        (-1) ** j
        * math.comb(degree, j)
        * (q - q ** (1 + alpha + j))
        / (alpha + j)
        / (alpha + j + 1)
        for j in range(degree + 1)
    ]
    return sum(terms)


@pytest.mark.parametrize("disagreement", [3.0, 1.0, 0.1, 0.01])
@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 3), (1.7, 2)])
def test_small_gains_keep_their_digits(alpha, beta, disagreement):
    """The relative error in float32 stays below 1e-5 for gains down to 1e-11."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("needs extended precision")
    rule = BetaRule(alpha, beta)
    probs = ensemble(1, documents=60, labels=4, disagreement=disagreement)
    candidates, anchors = probs[:, :32], probs[:, 32:]
    expected = np.zeros((32, 28), np.longdouble)
    for k in range(4):
        forecast = anchors[..., k].astype(np.longdouble)
        expected += reference_entropy(forecast.mean(axis=0), rule)
        one = candidates[..., k].astype(np.longdouble)
        for likelihood in (one, 1 - one):
            posterior = likelihood / likelihood.sum(axis=0)
            after = reference_entropy(posterior.T @ forecast, rule)
            expected -= likelihood.mean(axis=0)[:, None] * after
    found = expected_loss_reduction(candidates, anchors, rule, chunk_size=32)
    np.testing.assert_allclose(found, expected.astype(np.float64), rtol=1e-5)


@pytest.mark.parametrize("order", [1.0, 1.001, 1.1, 1.5, 1.99, 2.0])
@pytest.mark.parametrize("members", [1, 2, 5, 30, 100])
def test_rational_fit(order, members):
    """The quotient is R_s up to 2e-6, from 0 to E, and in float32 it loses next to nothing."""
    coefficients = rational_coefficients(order, members)
    assert coefficients is not None
    numerator, denominator = coefficients
    assert min(denominator) > 0
    assert min(numerator) > -0.01 * max(numerator)  # nothing cancels
    ratio = np.concatenate([[0], np.geomspace(1e-12, max(members, 2), 5000)])
    exact = special.hyp2f1(2 - order, 1, 3, 1 - ratio) / 2
    root = np.sqrt(ratio)
    fitted = np.polyval(numerator[::-1], root) / np.polyval(denominator[::-1], root)
    np.testing.assert_allclose(fitted, exact, rtol=2.1e-6)
    ratio = ratio.astype(np.float32)
    exact = special.hyp2f1(2 - order, 1, 3, 1 - ratio.astype(np.float64)) / 2
    above, below = (
        np.polyval(np.array(one[::-1], np.float32), np.sqrt(ratio))
        for one in (numerator, denominator)
    )
    np.testing.assert_allclose(above / below, exact, rtol=2.6e-6)


def test_which_rules_have_a_rational_fit():
    log = Side(BetaRule(0, 1), False), Side(BetaRule(0, 1), True)
    assert rational_sides(BetaRule(0.1, 3), 5) == (Side(BetaRule(0.1, 3), False),)
    assert rational_sides(BetaRule(3, 0.1), 5) == (Side(BetaRule(0.1, 3), True),)
    assert rational_sides(BetaRule(0.5, 6), 5) == (Side(BetaRule(0.5, 6), False),)
    assert rational_sides(BetaRule(2.5, 1), 5) == (Side(BetaRule(2.5, 1), False),)
    assert rational_sides(BetaRule(0, 0), 5) == log
    for neither in ((0.5, 1.7), (0.5, 0), (0, 0.5), (0.5, 7), (7, 0.5)):
        assert rational_sides(BetaRule(*neither), 5) == ()


@pytest.mark.parametrize(("poles", "members"), [(2, 5), (20, 1001)])
def test_without_a_good_fit_gains_are_differences(monkeypatch, poles, members):
    rule = BetaRule(0.1234, 3)  # of this test alone: nothing is compiled for it
    monkeypatch.setattr("crabjax.scoring.divergence._MOST_POLES", poles)
    assert rational_coefficients(1.1234, members) is None
    probs = ensemble(0, members=members, documents=3, labels=1)
    found = expected_loss_reduction(probs, probs, rule, chunk_size=3)
    np.testing.assert_allclose(found, slow_gain(probs, probs, rule)[..., 0], atol=2e-6)


def test_log_rule_gives_mutual_information():
    candidates, anchors = ensemble(2), ensemble(3)
    found = expected_loss_reduction(candidates, anchors, BetaRule(0, 0), chunk_size=8)
    outcomes = lambda probs: np.stack([1 - np.float64(probs), probs])  # [y, E, X, K]
    joint = np.einsum("yexk,zepk->yzxpk", outcomes(candidates), outcomes(anchors)) / 5
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    information = (joint * np.log(joint / apart)).sum(axis=(0, 1, 4))
    np.testing.assert_allclose(found, information, rtol=1e-5)


def test_squared_error_gives_half_the_variance_of_the_posterior():
    candidates, anchors = ensemble(2), ensemble(3)
    found = expected_loss_reduction(candidates, anchors, BetaRule(1, 1), chunk_size=8)
    expected = 0
    prior = anchors.mean(axis=0)[None]  # [1, P, K]
    for likelihood in (candidates, 1 - candidates):
        posterior = likelihood / likelihood.sum(axis=0)
        moved = np.einsum("exk,epk->xpk", posterior, anchors) - prior
        expected = expected + likelihood.mean(axis=0)[:, None] * moved**2 / 2
    np.testing.assert_allclose(found, expected.sum(axis=2), rtol=1e-4)


def degenerate_score(candidates, anchors, rule):
    """Each member's own forecast scored against the posterior predictive: not Eq. 2, [X, P]."""
    if_one, if_zero = (np.asarray(one) for one in beta_losses(anchors, rule))  # [E, P, K]
    score = 0
    for likelihood in (candidates, 1 - candidates):
        posterior = likelihood / likelihood.sum(axis=0)
        predictive = np.einsum("exk,epk->xpk", posterior, anchors)
        expected_loss = (
            predictive[None] * if_one[:, None] + (1 - predictive[None]) * if_zero[:, None]
        )
        score = score - (likelihood.mean(axis=0)[:, None] * expected_loss.mean(axis=0)).sum(axis=2)
    return score


def test_score_depends_on_the_candidate_unlike_the_degenerate_formula():
    with jax.enable_x64(True):
        probs = ensemble(4, documents=40, dtype="float64")
        spreads = {}
        for formula in (degenerate_score, expected_loss_reduction):
            score = np.asarray(formula(probs[:, :30], probs[:, 30:], BetaRule()))
            spreads[formula] = (np.ptp(score, axis=0) / np.abs(score).mean(axis=0)).max()
    assert spreads[degenerate_score] < 1e-14
    assert spreads[expected_loss_reduction] > 0.1


def test_disagreement_ranks_above_agreement():
    shared = np.full((5, 6, 1), 0.4, np.float32)
    disputed = shared + np.array([-0.3, -0.2, 0, 0.2, 0.3], np.float32)[:, None, None]
    candidates = np.concatenate([shared, disputed], axis=1)
    scores = expected_loss_reduction(candidates, ensemble(5, labels=1), chunk_size=12)
    assert np.asarray(scores)[6:].min() > np.asarray(scores)[:6].max()


PROBABILITIES = hnp.arrays(
    np.float32, (3, 6, 2), elements=st.one_of(st.sampled_from([0, 1]), st.floats(0, 1, width=32))
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(PROBABILITIES, PROBABILITIES, st.sampled_from([(0.1, 3), (0, 0), (0.5, 1.7)]))
def test_gain_is_finite_and_not_negative(candidates, anchors, rule):
    gain = expected_loss_reduction(candidates, anchors, BetaRule(*rule), chunk_size=6)
    assert np.isfinite(gain).all()
    assert np.asarray(gain).min() >= (-2e-6 if rule == (0.5, 1.7) else 0)


@pytest.mark.parametrize(
    "rule", [(0.1, 3), (0, 0), pytest.param((0.5, 1.7), marks=pytest.mark.slow)]
)
def test_certain_members(rule):
    """Outcomes of probability 0 contribute nothing: no NaN, in values or in gradients."""
    candidates = np.array([[0, 1, 1, 0.5, 1e-30, 1], [0, 1, 0, 0.5, 2e-30, 1 - 1e-6]], np.float32)
    candidates, rule = candidates[:, :, None], BetaRule(*rule)
    gain = expected_loss_reduction(candidates, candidates, rule, chunk_size=6)
    np.testing.assert_array_equal(gain[:2], 0)
    np.testing.assert_allclose(gain, slow_gain(candidates, candidates, rule)[..., 0], atol=2e-6)
    total = lambda candidates, anchors: expected_loss_reduction(candidates, anchors, rule).sum()
    for slope in jax.jit(jax.grad(total, argnums=(0, 1)))(candidates, candidates):
        assert not np.isnan(slope).any()


def test_identical_members_learn_nothing():
    same = np.repeat(ensemble(6, members=1), 5, axis=0)
    for candidates, anchors in ((same, ensemble(7)), (ensemble(7), same)):
        gain = expected_loss_reduction(candidates, anchors, chunk_size=12)
        assert np.abs(gain).max() < 1e-12


def test_order_does_not_matter():
    candidates, anchors = ensemble(8), ensemble(9)
    score = lambda c, a: np.asarray(expected_loss_reduction(c, a, chunk_size=12))
    expected = score(candidates, anchors)
    shuffle = np.random.default_rng(0).permutation
    members, documents = shuffle(5), shuffle(12)
    np.testing.assert_allclose(score(candidates[members], anchors[members]), expected, rtol=1e-5)
    np.testing.assert_array_equal(score(candidates[:, documents], anchors), expected[documents])
    np.testing.assert_array_equal(score(candidates, anchors[:, documents]), expected[:, documents])


@pytest.mark.parametrize("chunk_size", [1, 5, 12, 512])
def test_chunks_do_not_change_the_score(chunk_size):
    candidates, anchors = ensemble(8), ensemble(9)
    expected = expected_loss_reduction(candidates, anchors, chunk_size=4)
    found = expected_loss_reduction(candidates, anchors, chunk_size=chunk_size)
    np.testing.assert_allclose(found, expected, rtol=3e-6)
    score = jax.jit(lambda c, a: expected_loss_reduction(c, a, chunk_size=chunk_size))
    np.testing.assert_allclose(score(candidates, anchors), expected, rtol=3e-6)


def test_label_weights_and_padded_anchors():
    candidates, anchors = ensemble(8), ensemble(9)
    weights = np.array([0.5, 0, 2], np.float32)
    found = expected_loss_reduction(candidates, anchors, label_weights=weights, chunk_size=12)
    gain = slow_gain(candidates, anchors, BetaRule())
    np.testing.assert_allclose(found, gain @ weights.astype(np.float64), atol=2e-6)
    padded = np.concatenate([anchors, np.zeros_like(anchors)], axis=1)
    np.testing.assert_array_equal(expected_loss_reduction(candidates, padded)[:, 12:], 0)


def test_vmap_grad_and_low_precision():
    candidates, anchors = ensemble(8), ensemble(9)
    expected = expected_loss_reduction(candidates, anchors)
    batched = jax.jit(jax.vmap(expected_loss_reduction))(candidates[None], anchors[None])
    np.testing.assert_allclose(batched[0], expected, rtol=1e-6)
    low = expected_loss_reduction(candidates.astype(jnp.bfloat16), anchors.astype(jnp.bfloat16))
    assert low.dtype == jnp.float32
    np.testing.assert_allclose(low, expected, atol=5e-3)
    total = lambda candidates: expected_loss_reduction(candidates, anchors).sum()
    direction = np.random.default_rng(0).normal(size=candidates.shape).astype(np.float32)
    direction *= candidates * (1 - candidates)
    slope = np.vdot(jax.jit(jax.grad(total))(candidates), direction)
    shifted = [
        slow_gain(candidates + step * direction, anchors, BetaRule()) for step in (1e-3, -1e-3)
    ]
    np.testing.assert_allclose(slope, (shifted[0] - shifted[1]).sum() / 2e-3, rtol=1e-3)


def test_one_compilation_for_any_number_of_candidates():
    anchors, compiled = ensemble(9, labels=2), []

    def record(event: str, duration_secs: float, **_: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration_secs)

    expected_loss_reduction(ensemble(8, labels=2), anchors, chunk_size=7)
    jax.monitoring.register_event_duration_secs_listener(record)
    try:
        for seed, documents in ((1, 3), (2, 7), (3, 30)):
            probs = ensemble(seed, documents=documents, labels=2)
            assert expected_loss_reduction(probs, anchors, chunk_size=7).shape == (documents, 12)
    finally:
        jax.monitoring.unregister_event_duration_listener(record)
    assert not compiled


GOOD = ensemble(0)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        (r"candidates: expected shape \[E, X, K\], found \(12, 3\)", (GOOD[0], GOOD)),
        (r"anchors: expected shape \[E, P, K\], found \(12, 3\)", (GOOD, GOOD[0])),
        (r"anchors: expected E = 5 as in candidates, found 4", (GOOD, GOOD[:4])),
        (r"anchors: expected K = 3 as in candidates, found 2", (GOOD, GOOD[..., :2])),
        (r"candidates: expected at least one entry .* \(5, 0, 3\)", (GOOD[:, :0], GOOD)),
        (r"anchors: expected at least one entry .* \(5, 0, 3\)", (GOOD, GOOD[:, :0])),
        (r"candidates: expected probabilities .* found 1.5.* \(0, 0, 0\)", (GOOD * 0 + 1.5, GOOD)),
        (r"anchors: expected probabilities .* found nan at", (GOOD, GOOD * np.nan)),
        (
            r"label_weights: expected K = 3 as in candidates, found 2",
            (GOOD, GOOD, BetaRule(), [1, 2]),
        ),
        (r"chunk_size: expected at least 1, found 0", (GOOD, GOOD, BetaRule(), None, 0)),
    ],
)
def test_bad_input(message, arguments):
    with pytest.raises(ValueError, match=message):
        expected_loss_reduction(*arguments)
