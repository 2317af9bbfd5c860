"""Paired comparisons against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from crabjax.report.comparison import areas, labels_needed, labels_needed_range, paired_difference


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


def test_a_run_that_stopped_early_is_compared_where_both_were_tested():
    shorter = [record for record in OWN if record["labelled"] < 30]
    found = paired_difference(shorter, OTHER, "micro_f1")
    by_hand = [(-0.1 + 0.2) / 2, (0.1 + 0.1) / 2, (0.0 + 0.2) / 2]  # seeds 3, 1, 2
    np.testing.assert_allclose(found.mean, np.mean(by_hand))
    other_way = paired_difference(OTHER, shorter, "micro_f1")
    np.testing.assert_allclose((other_way.low, other_way.high), (-found.high, -found.low))
    elsewhere = run({1: [0.5], 2: [0.5]}, labelled=(15,))
    assert paired_difference(OWN, elsewhere, "micro_f1") is None


def test_the_range_of_labels_needed_is_that_of_resampled_seeds():
    own = run({0: [0.2, 0.4, 0.6], 1: [0.1, 0.2, 0.3]})
    reference = run({1: [0.0, 0.1, 0.2], 0: [0.0, 0.2, 0.5], 2: [9.0, 9.0, 9.0]})
    # Seed 0 twice reaches .5 at 25, seed 1 twice .2 at 20, one of each .35 between .3 and .45.
    assert labels_needed_range(own, reference) == pytest.approx((20, 25))
    assert labels_needed_range(own, run({0: [1, 1, 0.5], 1: [1, 1, 0.9]})) == (25, np.inf)
    assert labels_needed_range(own, run({0: [0, 0, 0]})) is None


def test_labels_needed_by_hand():
    reference = run({0: [0.1, 0.2, 0.4]})
    assert labels_needed(run({0: [0.2, 0.3, 0.5]}), reference, "micro_f1") == pytest.approx(25)
    assert labels_needed(run({0: [0.4, 0.5, 0.6]}), reference, "micro_f1") == 10
    assert labels_needed(run({0: [0.1, 0.2, 0.3]}), reference, "micro_f1") == np.inf
