"""Resampling reaches the MeanIR and size asked for, or says what can be had."""

import numpy as np
import pytest

from crabjax.config import SyntheticConfig
from crabjax.data import resample as module
from crabjax.data.corpus import Corpus
from crabjax.data.resample import frequent_labels, resample, target_counts
from crabjax.data.statistics import IMBALANCES, describe
from crabjax.data.synthetic import make_synthetic
from crabjax.files import DataError


@pytest.fixture(scope="module")
def corpus():
    settings = SyntheticConfig(documents=3000, test_documents=10, length=3, mean_ir=6.0)
    return make_synthetic(settings)[0]


MEAN_IR = IMBALANCES["mean_ir"]


@pytest.mark.parametrize("measure", IMBALANCES)
@pytest.mark.parametrize("target", [3.0, 6.0, 12.0])
def test_target_and_size_are_reached(corpus, target, measure):
    names = frequent_labels(corpus, 8)
    part = resample(corpus, names, 400, target, 0, measure)
    found = describe(part)
    assert found.documents == 400
    assert getattr(found, measure) == pytest.approx(target, rel=0.02)
    assert part.label_names == names
    assert found.without_labels == 0
    assert min(found.label_counts.values()) >= 3
    of_corpus = corpus.label_matrix(names).sum(axis=0)
    wanted = target_counts(of_corpus, 400, len(corpus), target, IMBALANCES[measure])
    reached = part.label_matrix(names).sum(axis=0)
    assert np.corrcoef(np.log(reached), np.log(wanted))[0, 1] > 0.9  # as frequent as before


def test_frequent_labels_are_the_most_frequent(corpus):
    counts = describe(corpus).label_counts
    assert set(frequent_labels(corpus, 5)) == set(list(counts)[:5])
    with pytest.raises(DataError, match="13 labels asked for, found 12"):
        frequent_labels(corpus, 13)


def test_documents_are_distinct_and_depend_on_the_seed(corpus):
    names = frequent_labels(corpus, 8)
    first, again, other = (resample(corpus, names, 300, 6.0, seed) for seed in (0, 0, 1))
    assert first == again
    assert first.documents != other.documents
    assert len(set(first.documents)) > 290


def test_impossible_targets_say_what_is_possible(corpus):
    names = frequent_labels(corpus, 8)
    with pytest.raises(DataError, match=r"cannot have mean_ir 1; the nearest found is \d"):
        resample(corpus, names, 2500, 1.0, 0, "mean_ir")
    with pytest.raises(DataError, match=r"cannot have mean_ir 5000; the nearest found is \d+"):
        resample(corpus, names, 400, 5000.0, 0, "mean_ir")
    for target in (float("nan"), 0.0, -3.0, float("inf")):
        with pytest.raises(DataError, match="expected an imbalance of at least 1, found"):
            resample(corpus, names, 400, target, 0, "mean_ir")
    with pytest.raises(DataError, match="4000 documents asked for, found"):
        resample(corpus, names, 4000, 6.0, 0, "mean_ir")


def mean_ir(counts):
    return np.mean(max(counts) / np.asarray(counts))


@pytest.mark.parametrize("rarest", [100, 1])
@pytest.mark.parametrize("target", [1.0, 1.3, 4.0, 20.0])
def test_wanted_counts_are_a_power_of_the_counts_with_the_target(target, rarest):
    counts = np.array([900, rarest, 400, 300])
    wanted = target_counts(counts, 5000, 10_000, target, MEAN_IR)
    assert mean_ir(wanted) == pytest.approx(target, rel=1e-9)
    assert wanted.sum() == pytest.approx(counts.sum() / 2)  # as many labels a document as before
    powers = np.log(wanted[0] / wanted[1:]) / np.log(counts[0] / counts[1:])
    np.testing.assert_allclose(powers, powers[0], atol=1e-9)


def test_wanted_counts_of_labels_that_are_equally_frequent():
    wanted = target_counts(np.array([50, 50, 50]), 1000, 1000, 1.5, MEAN_IR)
    np.testing.assert_allclose(wanted[0] / wanted, [1.0, 1.5, 2.0])  # mean 1.5
    assert wanted.sum() == pytest.approx(150)


def test_no_wanted_count_is_below_three():
    wanted = target_counts(np.array([1000, 10, 0]), 100, 1000, 500.0, MEAN_IR)
    assert wanted[0] > 90
    np.testing.assert_array_equal(wanted[1:], [3, 3])


def singles(**counts: int) -> Corpus:
    """So many documents with each label, and it alone."""
    labels = [(name,) for name, count in counts.items() for _ in range(count)]
    return Corpus([f"{i}" for i in range(len(labels))], labels, tokenised=False, split="train")


def test_all_documents_are_as_they_are():
    corpus = singles(a=6, b=3)
    assert resample(corpus, ("a", "b"), 9, 1.5, 0, "mean_ir") == corpus
    with pytest.raises(DataError, match=r"9 of 9 documents .* the nearest found is 1\.50"):
        resample(corpus, ("a", "b"), 9, 1.2, 0, "mean_ir")


def test_ties_between_frequent_labels_go_by_name():
    corpus = singles(d=2, c=2, b=5, a=2)
    assert frequent_labels(corpus, 4) == ("a", "b", "c", "d")
    assert frequent_labels(corpus, 2) == ("a", "b")


def test_every_label_keeps_three_documents_though_two_would_meet_the_target():
    corpus = singles(a=300, b=40)
    part = resample(corpus, ("a", "b"), 100, 16.9, 0, "mean_ir")  # (97 / 3 + 1) / 2 = 16.67
    assert part.label_matrix(("a", "b")).sum(axis=0).tolist() == [97, 3]
    for target in (25.0, 17.1):  # the mean of 98 / 2 and 1; 2.5% more than there is
        with pytest.raises(DataError, match=r"the nearest found is 16\.67"):
            resample(corpus, ("a", "b"), 100, target, 0, "mean_ir")


@pytest.mark.parametrize("seed", range(3))
def test_the_search_goes_on_after_steps_without_a_better_exchange(seed):
    rows = np.zeros((2000, 1), np.int64)
    rows[-1] = 1  # one document of 2000 is worth having: one step in four proposes it
    error = lambda counts: 1.0 - counts[..., 0]
    order = module._exchange(rows, np.arange(2000), 10, error, np.random.default_rng(seed))
    assert rows[order[:10]].sum() == 1
    np.testing.assert_array_equal(np.sort(order), np.arange(2000))


@pytest.mark.parametrize("better", [0, 1, 3])
def test_the_search_ends_after_its_patience_since_the_last_better_exchange(better):
    calls = []

    def error(counts):
        calls.append(counts.shape)
        return np.full(counts.shape[:-1], 9.0 - min(len(calls) - 1, better))

    module._exchange(np.eye(4, dtype=np.int64), np.arange(4), 2, error, np.random.default_rng(0))
    assert calls == [(4,), *[(module._PROPOSALS, 4)] * (better + module._PATIENCE)]
