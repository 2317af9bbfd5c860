"""Thresholds against slow oracles, and against labels drawn from the probabilities."""

import numpy as np
import pytest
from scipy.special import expit

from crabjax.metrics import evaluate
from crabjax.thresholds import (
    BINS,
    Unchosen,
    _times_odds,
    ensemble_threshold,
    expected_f1_threshold,
    in_bins,
    mean_threshold,
    odds_factor,
)

GENERATOR = np.random.default_rng(0)


def slow_best(probabilities):
    """The highest expected F1 of all sets of decisions that a threshold can make."""
    flat, best = np.ravel(probabilities).astype(float), 0.0
    for threshold in [-1.0, *flat]:
        chosen = flat > threshold
        if chosen.any():
            best = max(best, 2 * flat[chosen].sum() / (chosen.sum() + flat.sum()))
    return best


def expected_f1(probabilities, threshold):
    flat = np.ravel(probabilities).astype(float)
    chosen = flat > threshold
    return 2 * flat[chosen].sum() / (chosen.sum() + flat.sum())


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (40, 5)])
@pytest.mark.parametrize("digits", [1, 8])  # rounded to one digit most probabilities are equal
def test_the_threshold_is_the_best_of_all(shape, digits):
    for _ in range(20):
        probabilities = np.round(GENERATOR.beta(0.5, 2, shape), digits) + 0.01
        probabilities = np.minimum(probabilities, 1)
        found = expected_f1_threshold(probabilities)
        assert found.expected_f1 == pytest.approx(slow_best(probabilities))
        assert expected_f1(probabilities, found.value) == pytest.approx(found.expected_f1)


def test_expected_f1_is_what_labels_drawn_from_the_probabilities_give():
    probabilities = GENERATOR.beta(0.3, 1.5, (4000, 6))
    labels = GENERATOR.random(probabilities.shape) < probabilities
    value, expected = expected_f1_threshold(probabilities)
    reached = float(evaluate(probabilities[None], labels, value).micro_f1[0])
    assert reached == pytest.approx(expected, abs=0.02)
    # Half of the F1 it reaches (Lipton et al. 2014), and better than 0.5.
    assert value == pytest.approx(reached / 2, abs=0.02)
    assert reached > float(evaluate(probabilities[None], labels).micro_f1[0]) + 0.02


def test_nothing_is_learnt_from_probabilities_of_zero():
    assert expected_f1_threshold(np.zeros((3, 2))) == (0.5, 0.0)
    with pytest.raises(ValueError, match="probabilities"):
        expected_f1_threshold(np.array([0.2, 1.1]))
    with pytest.raises(ValueError, match="probabilities: expected at least one entry"):
        expected_f1_threshold(np.zeros((0, 2)))


def test_an_ensemble_is_judged_by_its_mean_on_the_given_rows():
    logits = GENERATOR.normal(-1, 2, (3, 50, 4)).astype(np.float32)
    rows = np.arange(7, 40, 3)
    mean = np.mean([expit(member[rows]) for member in logits], axis=0)
    assert ensemble_threshold(logits, rows) == expected_f1_threshold(mean).value
    assert ensemble_threshold(logits, rows[:0]) == 0.5


def test_of_many_documents_some_are_looked_at():
    logits = np.repeat(GENERATOR.normal(-1, 2, (1, 30_000, 1)), 3, axis=2).astype(np.float32)
    wanted = expected_f1_threshold(expit(logits)).value
    assert ensemble_threshold(logits, np.arange(30_000)) == pytest.approx(wanted, abs=0.01)


def test_weights_are_repetitions():
    probabilities = np.round(GENERATOR.beta(0.5, 2, (30, 4)), 2)
    weights = GENERATOR.integers(1, 5, probabilities.shape)
    repeated = np.repeat(probabilities.ravel(), weights.ravel())
    assert expected_f1_threshold(probabilities, weights) == pytest.approx(
        expected_f1_threshold(repeated)
    )


def test_bins_hold_every_probability_once():
    probabilities = np.array([[0.0, 0.004, 0.01], [0.995, 1.0, 0.5]])
    counts, sums = in_bins(probabilities)
    assert len(counts) == BINS
    assert {place: counts[place] for place in np.flatnonzero(counts)} == {0: 2, 1: 1, 50: 1, 99: 2}
    np.testing.assert_allclose(sums[[0, 1, 50, 99]], [0.004, 0.01, 0.5, 1.995])


@pytest.mark.parametrize("sample", [1, 4])
def test_what_a_strategy_took_counts_as_before(sample):
    """The doubtful ones are taken: what is left alone would ask for a far higher threshold."""
    logits = np.repeat(GENERATOR.normal(-2, 2, (1, 4000, 2)), 3, axis=0).astype(np.float32)
    doubt = np.abs(expit(logits[0]) - 0.5).min(axis=1)
    taken, left = np.split(np.argsort(doubt), [1500])
    everything = ensemble_threshold(logits, np.arange(4000))
    picked, seen = in_bins(expit(logits[0, taken])), np.sort(left[::sample])
    assert ensemble_threshold(logits, seen) > everything + 0.05
    found = ensemble_threshold(logits, seen, picked, len(left))
    assert found == pytest.approx(everything, abs=0.02)
    mean = expit(logits).mean(axis=0)
    assert mean_threshold(mean, seen, picked, len(left)) == pytest.approx(found, abs=1e-6)
    alone = ensemble_threshold(logits, left[:0], picked)
    assert alone == pytest.approx(expected_f1_threshold(mean[taken]).value, abs=0.02)


def test_a_single_document_that_is_left_counts_like_those_that_were_taken():
    for left in GENERATOR.uniform(0.02, 0.9, (40, 1, 3)):
        taken = np.round(GENERATOR.uniform(0, 0.9, (1, 3)), 2) + 0.005
        expected = expected_f1_threshold(np.concatenate([left, taken])).value
        picked, logits = in_bins(taken), np.log(left / (1 - left))[None]
        assert mean_threshold(left, np.array([0]), picked) == pytest.approx(expected)
        assert ensemble_threshold(logits, np.array([0]), picked) == pytest.approx(expected)


def unchosen(mean, documents=100, classes=5, labelled=None):
    """Labelled documents with so many labels; a strategy chose the rest of the labelled ones."""
    labels = np.arange(documents * classes).reshape(documents, classes) < mean * documents * classes
    return Unchosen(labels, labelled or documents)


@pytest.mark.parametrize("factor", [0.5, 1.7, 3.0])
def test_labelled_documents_say_how_many_labels_there_are(factor):
    """Members who take all odds for so many times smaller decide like those who are right."""
    true, rows = GENERATOR.beta(0.4, 2, (3000, 5)), np.arange(3000)
    odds = true / (1 - true) / factor
    said, known = odds / (1 + odds), unchosen(true.mean(), 3000)
    assert odds_factor(in_bins(said), known) == pytest.approx(factor, rel=0.03)
    wanted = true > expected_f1_threshold(true).value
    wrong = lambda threshold: np.mean((said > threshold) != wanted)
    assert wrong(mean_threshold(said, rows, known=known)) < 0.003
    assert wrong(mean_threshold(said, rows)) > 0.01


def slow_factor(probabilities, weights, known):
    """The factor that makes both means equal, of a hundred thousand that are tried."""
    tried = np.exp(np.linspace(-np.log(4), np.log(4), 100_001))
    total = np.zeros_like(tried)
    for p, weight in zip(probabilities, weights):
        odds = tried * p / (1 - p)
        total += weight * odds / (1 + odds)
    best = tried[np.argmin(np.abs(total / np.sum(weights) - np.mean(known.labels)))]
    given = np.sum(known.labels)
    return best ** (given / (given + 10) * len(known.labels) / known.labelled)


@pytest.mark.parametrize("labelled", [1, 3, 10])
@pytest.mark.parametrize("documents", [3, 40, 250])
def test_few_labels_say_little_and_members_who_know_more_are_corrected_less(documents, labelled):
    said = np.floor(100 * GENERATOR.beta(0.5, 3, 30)) / 100 + 0.005  # in the middle of a bin
    picked, known = np.array([0.015, 0.985, 0.515]), unchosen(0.4, documents, 4, None)
    known = known._replace(labelled=documents * labelled)
    wanted = slow_factor([*said, *picked], [1] * 30 + [2] * 3, known)
    found = odds_factor(in_bins(said) + 2 * in_bins(picked), known)
    assert found == pytest.approx(wanted, rel=1e-3) != 1


def test_a_correction_has_bounds():
    fifth, sure = in_bins(np.full(9, 0.2)), in_bins(np.array([0.0, 1.0, 1.0, 0.0]))
    certain = lambda mean: unchosen(mean, 100_000)
    assert odds_factor(fifth, unchosen(0)) == odds_factor(fifth, unchosen(0, 0, 5, 7)) == 1
    assert odds_factor(in_bins(np.zeros(4)), certain(0.5)) == 1
    assert odds_factor(np.zeros((2, BINS)), certain(0.5)) == 1
    assert odds_factor(sure, certain(0.5)) == 1  # it could not be moved, nor need it be
    assert odds_factor(sure, certain(0.6)) == pytest.approx(4, rel=1e-3)
    assert odds_factor(sure, certain(0.4)) == pytest.approx(1 / 4, rel=1e-3)
    assert odds_factor(fifth, certain(0.9)) == pytest.approx(4, rel=1e-3)
    assert odds_factor(fifth, certain(0.01)) == pytest.approx(1 / 4, rel=1e-2)


def test_odds_stay_probabilities():
    edges = np.array([0, 1e-30, 0.3, 1 - 6e-8, 1], np.float32)
    for factor in np.exp(np.linspace(-1.4, 1.4, 301)):
        found = _times_odds(edges, float(factor))
        assert found.dtype == np.float32
        assert (found[0], found[-1], found.max()) == (0, 1, 1)
        odds = 0.3 / 0.7 * factor
        assert found[2] == pytest.approx(odds / (1 + odds), rel=1e-6)


@pytest.mark.parametrize("sample", [1, 4])
def test_what_was_picked_is_corrected_as_well(sample):
    """As if it were among the documents that are left, as often as a sample stands for."""
    left, taken = GENERATOR.beta(0.4, 2, (2000, 2)), GENERATOR.uniform(0.3, 0.7, (400, 2))
    both, rows, known = np.concatenate([left, taken]), np.arange(0, 2000, sample), unchosen(0.4)
    wanted = mean_threshold(both, np.arange(len(both)), known=known)
    given = in_bins(taken), len(left)
    found = mean_threshold(left, rows, *given, known)
    assert found == pytest.approx(wanted, abs=0.01)
    assert abs(found - mean_threshold(left, rows, *given)) > 0.03
    logits = np.log(left / (1 - left))[None]
    assert ensemble_threshold(logits, rows, *given, known) == pytest.approx(found, abs=1e-6)


def test_the_share_of_a_sample_counts_in_the_correction():
    """A tenth is looked at: ten picked documents are as one beside it."""
    left, taken = np.full((10, 1), 0.105), np.full((100, 1), 0.505)
    whole = np.concatenate([np.repeat(left, 10, axis=0), taken])
    known = unchosen(0.5)
    found = mean_threshold(left, np.arange(10), in_bins(taken), 100, known)
    assert found == pytest.approx(mean_threshold(whole, np.arange(200), known=known))
    factor = odds_factor(in_bins(whole), known)
    assert odds_factor(in_bins(left) + in_bins(taken) / 10, known) == pytest.approx(factor)


def test_probabilities_that_are_none_are_named():
    with pytest.raises(ValueError, match=r"probabilities: expected .* nan"):
        mean_threshold(np.array([[0.2, np.nan]]), np.arange(1), known=unchosen(0.3))
