"""Paired comparisons against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from crabjax.comparison import areas, labels_needed, paired_difference


def run(curves_by_seed, labelled=(10, 20, 30)):
    return [
        {"seed": seed, "round": r, "labelled": labelled[r], "micro_f1": value}
        for r in range(len(labelled))
        for seed, value in ((s, curve[r]) for s, curve in curves_by_seed.items())
    ]


OWN = run({3: [0.1, 0.5, 0.6], 1: [0.2, 0.5, 0.8], 2: [0.3, 0.6, 0.7]})
OTHER = run({1: [0.1, 0.4, 0.6], 2: [0.3, 0.4, 0.5], 9: [0.9, 0.9, 0.9], 3: [0.2, 0.3, 0.5]})


def test_areas_belong_to_their_seed():
    assert areas(OWN, "micro_f1") == pytest.approx({3: 0.425, 1: 0.5, 2: 0.55})


def test_difference_is_paired_by_seed_and_agrees_with_scipy():
    own, other = areas(OWN, "micro_f1"), areas(OTHER, "micro_f1")
    expected = stats.ttest_rel([own[s] for s in (1, 2, 3)], [other[s] for s in (1, 2, 3)])
    found = paired_difference(OWN, OTHER, "micro_f1")
    interval = expected.confidence_interval()
    np.testing.assert_allclose(found.p_value, expected.pvalue)
    np.testing.assert_allclose((found.low, found.high), (interval.low, interval.high))


def test_equal_runs_differ_by_nothing_and_one_seed_says_nothing():
    assert paired_difference(OWN, OWN, "micro_f1").p_value == 1
    assert paired_difference(OWN, run({3: [0, 0, 0]}), "micro_f1") is None


def test_labels_needed_by_hand():
    reference = run({0: [0.1, 0.2, 0.4]})
    assert labels_needed(run({0: [0.2, 0.3, 0.5]}), reference) == pytest.approx(25)
    assert labels_needed(run({0: [0.4, 0.5, 0.6]}), reference) == 10
    assert labels_needed(run({0: [0.1, 0.2, 0.3]}), reference) is None
