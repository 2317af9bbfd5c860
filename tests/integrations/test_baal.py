"""The real baal."""

import numpy as np
import pytest
from scipy.special import logit, xlogy

from crabjax.integrations.baal import heuristic
from crabjax.scoring import BetaRule, expected_loss_reduction

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PREDICTIONS = np.random.default_rng(0).random((50, 3, 6)).astype(np.float32)  # [n, K, iterations]
MEMBERS = np.moveaxis(PREDICTIONS, 2, 0)


@pytest.fixture(autouse=True)
def heuristics():
    return pytest.importorskip("baal.active.heuristics", reason="baal is not installed")


def entropy(p):
    return -xlogy(p, p) - xlogy(1 - p, 1 - p)


def test_entropy_and_bald_are_sums_and_means_of_binary_labels():
    mean = MEMBERS.mean(axis=0)
    _, scores = heuristic("entropy").get_ranks(PREDICTIONS)
    np.testing.assert_allclose(scores, entropy(mean).sum(axis=1), rtol=1e-5)
    _, scores = heuristic("bald").get_ranks(PREDICTIONS)
    expected = (entropy(mean) - entropy(MEMBERS).mean(axis=0)).mean(axis=1)
    np.testing.assert_allclose(scores, expected, rtol=1e-4)


def test_bald_of_binary_classes_is_that_of_baal(heuristics):
    theirs = heuristics.BALD(reduction="mean")
    binary = np.stack([1 - PREDICTIONS, PREDICTIONS], axis=1)  # [n, 2, K, iterations]
    np.testing.assert_array_equal(heuristic("bald")(PREDICTIONS), theirs(binary))


def test_the_expected_loss_reduction_on_all_and_on_some_anchors():
    gains = np.asarray(expected_loss_reduction(MEMBERS, MEMBERS, BetaRule()))
    ranks, scores = heuristic("elr", anchor_fraction=1.0).get_ranks(PREDICTIONS)
    np.testing.assert_allclose(scores, gains.mean(axis=1), rtol=1e-4)
    np.testing.assert_array_equal(ranks, np.argsort(scores)[::-1])
    for seed in (0, 1):
        _, some = heuristic("elr", anchor_fraction=0.1, seed=seed).get_ranks(PREDICTIONS)
        drawn = np.random.default_rng(seed).choice(50, 5, replace=False)
        np.testing.assert_allclose(some, gains[:, drawn].mean(axis=1), rtol=1e-4)


def test_target_predictions_are_the_anchors():
    _, scores = heuristic("elr").get_ranks(PREDICTIONS, PREDICTIONS[:9])
    gains = np.asarray(expected_loss_reduction(MEMBERS, MEMBERS[:, :9], BetaRule()))
    np.testing.assert_allclose(scores, gains.mean(axis=1), rtol=1e-4)


@pytest.mark.parametrize("score", ["elr", "bald", "entropy"])
def test_logits_say_the_same(score):
    _, expected = heuristic(score).get_ranks(PREDICTIONS)
    _, found = heuristic(score, logits=True).get_ranks(logit(PREDICTIONS))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="score: expected elr, bald or entropy, found 'epig'"):
        heuristic("epig")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"predictions: expected shape \[n, K, E\]"):
        heuristic().get_ranks(PREDICTIONS[0])
    with pytest.raises(ValueError, match=r"predictions: expected probabilities in \[0, 1\]"):
        heuristic().get_ranks(PREDICTIONS * 9)
