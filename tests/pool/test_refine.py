import dataclasses
from math import sqrt
from statistics import variance

import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.pool.refine import SOURCES, Candidates, pool_traits, refine_pool
from crabjax.scoring.correlation import label_correlation

# Label 1 is a leaf of root 0; labels 0 and 2 never meet; label 3 is never seen.
LABELLED = np.array([[1, 1, 0, 0]] * 4 + [[1, 0, 0, 0]] * 6 + [[0, 0, 1, 0]] * 5, dtype=np.int8)
PSEUDO = {
    "root": [1, 0, 0, 0],
    "root and leaf": [1, 1, 0, 0],
    "exclusive": [1, 0, 1, 0],
    "nothing": [0, 0, 0, 0],
    "unseen": [0, 0, 0, 1],
}
CONFIG = StrategyConfig(per_label=3)


def pool_of(**documents: int) -> np.ndarray:
    """Mean probabilities [N, K]: so many documents of each kind, named with underscores."""
    rows = [[PSEUDO[kind.replace("_", " ")]] * count for kind, count in documents.items()]
    return 0.1 + 0.8 * np.concatenate(rows).astype(np.float32)


def traits_of(probabilities: np.ndarray, config: StrategyConfig = CONFIG):
    everything = np.arange(len(probabilities))
    return pool_traits(probabilities, label_correlation(LABELLED), everything, config)


def refine(probabilities, query_size=4, hard_size=2, config=CONFIG, seed=0):
    generator = np.random.default_rng(seed)
    draw = lambda documents, count, source, label=0: generator.permutation(documents)[:count]
    documents = np.arange(len(probabilities))
    traits = traits_of(probabilities, config)
    return refine_pool(traits, documents, query_size, hard_size, config, draw, draw)


def test_traits_of_each_kind():
    traits = traits_of(pool_of(root=1, root_and_leaf=1, exclusive=1, nothing=1, unseen=1))
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(traits.carries, np.array(expected, bool))
    np.testing.assert_array_equal(traits.negative, [False, False, True, False, False])
    np.testing.assert_array_equal(traits.hard, [False, False, False, True, False])


def test_an_implied_label_still_excludes_another():
    # Leaf 1 implies root 0 and may meet label 2, which root 0 never does.
    labels = [[1, 1, 0]] * 3 + [[0, 1, 1]] + [[1, 0, 0]] * 6 + [[0, 0, 1]] * 4
    correlation = label_correlation(np.array(labels, dtype=np.int8))
    traits = pool_traits(np.full((1, 3), 0.9, np.float32), correlation, np.arange(1), CONFIG)
    np.testing.assert_array_equal(traits.carries, [[False, True, True]])
    np.testing.assert_array_equal(traits.negative, [True])


def test_traits_are_those_of_the_unlabelled_documents():
    probabilities = pool_of(nothing=2, exclusive=3, root=1)
    traits = pool_traits(probabilities, label_correlation(LABELLED), np.array([1, 2, 5]), CONFIG)
    assert traits.left(len(traits.hard)) == {"hard_left": 1, "negative_left": 1}
    np.testing.assert_array_equal(traits.hard, [True, False, False])


def test_without_asymmetric_removal_the_root_stays():
    config = StrategyConfig(asymmetric_removal=False)
    traits = traits_of(pool_of(root_and_leaf=1), config)
    np.testing.assert_array_equal(traits.carries, [[True, True, False, False]])


def test_counts_per_source_and_their_limits():
    refined = refine(pool_of(root=10, root_and_leaf=10, exclusive=10, nothing=10))
    counts = refined.per_source()
    assert tuple(counts) == SOURCES
    # 3 each for root, leaf and the third label; up to 4 negative, some drawn label-wise before
    assert 7 <= counts["label_wise"] <= 9
    assert 1 <= counts["negative"] <= 4
    assert counts["hard"] == 2
    assert counts["fill"] == 0
    assert sum(counts.values()) == len(refined.documents) == len(np.unique(refined.documents))


def test_a_document_belongs_to_its_first_source():
    # per_label covers every document, so all the negative ones are drawn label-wise as well
    refined = refine(pool_of(exclusive=3), query_size=3)
    assert refined.per_source() == {"label_wise": 3, "negative": 0, "hard": 0, "fill": 0}


@pytest.mark.parametrize(
    ("switch", "source"), [("negative_sampling", "negative"), ("hard_sampling", "hard")]
)
def test_switches_leave_a_source_out(switch, source):
    probabilities = pool_of(root=30, exclusive=30, nothing=30)
    on = refine(probabilities).per_source()
    off = refine(probabilities, config=dataclasses.replace(CONFIG, **{switch: False}))
    assert on[source] > 0
    assert off.per_source()[source] == 0


def test_a_small_refined_pool_is_filled_up_and_recorded():
    refined = refine(pool_of(nothing=20), query_size=12, hard_size=5)
    assert refined.per_source() == {"label_wise": 0, "negative": 0, "hard": 5, "fill": 7}
    assert len(np.unique(refined.documents)) == 12


def test_the_whole_pool_if_the_query_asks_for_it():
    probabilities = pool_of(root=5, nothing=5)
    refined = refine(probabilities, query_size=10, hard_size=0)
    np.testing.assert_array_equal(refined.documents, np.arange(10))


def test_indices_are_those_of_the_training_set():
    probabilities = pool_of(root=4, nothing=4)
    unlabelled = np.array([1, 3, 6, 7])
    traits = pool_traits(probabilities, label_correlation(LABELLED), unlabelled, CONFIG)
    keep = lambda documents, count, source, label=0: documents[:count]
    refined = refine_pool(traits, unlabelled, 4, 2, CONFIG, keep, keep)
    np.testing.assert_array_equal(refined.documents, unlabelled)
    assert refined.sources.tolist() == [0, 0, 2, 2]


def test_at_most_so_many_candidates_with_their_sources():
    every = Candidates(np.arange(10, 20), np.repeat([0, 2], 5))
    fewer = every.at_most(4, np.random.default_rng(0))
    assert len(set(fewer.documents)) == 4
    np.testing.assert_array_equal(fewer.documents, np.sort(fewer.documents))
    np.testing.assert_array_equal(fewer.sources, np.where(fewer.documents < 15, 0, 2))
    for limit in (None, 10, 11):  # nothing to draw
        assert every.at_most(limit, np.random.default_rng(0)) is every


def test_what_a_sample_says_of_all_documents():
    """Many samples of a known pool: right on average, and as far off as their errors say."""
    probabilities = pool_of(root=700, exclusive=100, nothing=200)
    traits, generator = traits_of(probabilities), np.random.default_rng(0)
    assert traits.left(1000) == {"hard_left": 200, "negative_left": 100}
    drawn = [traits.at(generator.choice(1000, 250, replace=False)).left(1000) for _ in range(2000)]
    for name, truth in (("hard_left", 200), ("negative_left", 100)):
        found = np.array([one[f"estimated_{name}"] for one in drawn])
        errors = np.array([one[f"{name}_standard_error"] for one in drawn])
        assert found.mean() == pytest.approx(truth, rel=0.01)
        assert found.std() == pytest.approx(errors.mean(), rel=0.05)


def test_a_sample_of_one_has_no_error_that_could_be_told():
    traits = traits_of(pool_of(nothing=3))
    assert traits.at(np.array([1])).left(3)["hard_left_standard_error"] == 0


@pytest.mark.parametrize("sample", [[1, 4], [1, 4, 5]])
def test_the_standard_error_of_a_small_sample_by_the_textbook(sample):
    """``sqrt(s^2 / n)`` with s^2 of n - 1 degrees of freedom, less the share that was seen."""
    traits = traits_of(pool_of(nothing=3, root=7))
    found = traits.at(np.array(sample)).left(10)["hard_left_standard_error"]
    hard = [float(place < 3) for place in sample]
    unseen = 1 - len(sample) / 10
    assert found == pytest.approx(10 * sqrt(variance(hard) / len(sample) * unseen))
