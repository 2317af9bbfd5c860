"""Resampling reaches the MeanIR and size asked for, or says what can be had."""

import pytest

from crabjax.config import SyntheticConfig
from crabjax.data.resample import frequent_labels, resample
from crabjax.data.statistics import describe
from crabjax.data.synthetic import make_synthetic
from crabjax.files import DataError


@pytest.fixture(scope="module")
def corpus():
    settings = SyntheticConfig(documents=3000, test_documents=10, length=3, mean_ir=6.0)
    return make_synthetic(settings)[0]


@pytest.mark.parametrize("target", [3.0, 6.0, 20.0])
def test_target_and_size_are_reached(corpus, target):
    names = frequent_labels(corpus, 8)
    part = resample(corpus, names, 400, target, seed=0)
    found = describe(part.corpus)
    assert found.documents == 400
    assert found.mean_ir == pytest.approx(target, rel=0.02)
    assert part.mean_ir == pytest.approx(found.mean_ir)
    assert part.corpus.label_names == names
    assert found.without_labels == 0
    assert min(found.label_counts.values()) >= 3


def test_frequent_labels_are_the_most_frequent(corpus):
    counts = describe(corpus).label_counts
    assert set(frequent_labels(corpus, 5)) == set(list(counts)[:5])
    with pytest.raises(DataError, match="13 labels asked for, found 12"):
        frequent_labels(corpus, 13)


def test_documents_are_distinct_and_depend_on_the_seed(corpus):
    names = frequent_labels(corpus, 8)
    first, again, other = (resample(corpus, names, 300, 6.0, seed).corpus for seed in (0, 0, 1))
    assert first == again
    assert first.documents != other.documents
    assert len(set(first.documents)) > 290


def test_impossible_targets_say_what_is_possible(corpus):
    names = frequent_labels(corpus, 8)
    with pytest.raises(DataError, match=r"cannot have MeanIR 1; the nearest found is \d"):
        resample(corpus, names, 2500, 1.0, seed=0)
    with pytest.raises(DataError, match=r"cannot have MeanIR 5000; the nearest found is \d+"):
        resample(corpus, names, 400, 5000.0, seed=0)
    for target in (float("nan"), 0.0, -3.0, float("inf")):
        with pytest.raises(DataError, match="expected a MeanIR of at least 1, found"):
            resample(corpus, names, 400, target, seed=0)
    with pytest.raises(DataError, match="4000 documents asked for, found"):
        resample(corpus, names, 4000, 6.0, seed=0)
