"""Pools from what other loops have at hand."""

import jax
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from crabjax.config import StrategyConfig
from crabjax.strategies import Pool, PoolError, get_strategy

RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.normal(size=(3, 10, 2)).astype(np.float32)
LABELS = RANDOM.random((10, 2)) < 0.5
KNOWN = [7, 2, 4]


def same(found, expected):
    np.testing.assert_allclose(found.logits, expected.logits, atol=1e-5)
    for one, other in zip(found[1:5], expected[1:5]):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "given",
    [
        {"logits": LOGITS, "labels": LABELS, "labelled": np.array(KNOWN)},
        {"probabilities": expit(LOGITS), "labels": LABELS[KNOWN], "labelled": KNOWN},
        {
            "probabilities": expit(LOGITS),
            "labels": sparse.csr_matrix(LABELS[KNOWN].astype(int)),
            "labelled": KNOWN,
            "unlabelled": [9, 0, 1, 8, 3, 5, 6],
        },
        {
            "logits": LOGITS,
            "labels": LABELS.astype(float),
            "labelled": np.isin(np.arange(10), KNOWN),
        },
    ],
)
def test_every_way_to_say_it_gives_the_same_pool(given):
    revealed = LABELS & np.isin(np.arange(10), KNOWN)[:, None]
    rest = np.array([0, 1, 3, 5, 6, 8, 9])
    same(Pool.of(**given), Pool(LOGITS, revealed, np.array([2, 4, 7]), rest))


def test_a_single_member_and_certain_forecasts():
    pool = Pool.of(probabilities=[[0.0, 1.0], [0.5, 0.5]], labels=[[1, 0]], labelled=[1])
    assert pool.logits.shape == (1, 2, 2)
    assert np.isfinite(pool.logits).all()
    assert pool.logits[0, 0, 0] < -15
    assert pool.logits[0, 0, 1] > 15


GOOD = {"logits": LOGITS, "labels": LABELS, "labelled": KNOWN}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probabilities": expit(LOGITS)}, "expected either these or logits"),
        ({"logits": None}, "expected either these or logits"),
        ({"logits": LOGITS[0, 0]}, r"logits: expected \[E, N, K\]"),
        ({"logits": LOGITS * np.inf}, "logits: expected finite"),
        ({"logits": None, "probabilities": LOGITS}, r"probabilities in \[0, 1\], found"),
        ({"labelled": [1, 10]}, "labelled: expected rows 0 to 9, found 1 to 10"),
        ({"labelled": [1, 1]}, "labelled: expected distinct rows"),
        ({"labelled": [0.5]}, "labelled: expected row numbers"),
        ({"unlabelled": [7, 8]}, "unlabelled: row 7 is in labelled"),
        ({"labels": LABELS[:4]}, r"labels: expected \[10, 2\] or \[3, 2\], found \(4, 2\)"),
        ({"labels": LABELS * 2}, "labels: expected labels 0 or 1, found 2"),
        ({"features": np.zeros((3, 2))}, r"features: expected \[10, D\], found \(3, 2\)"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(PoolError, match=message):
        Pool.of(**GOOD | change)


def test_a_pool_by_hand_must_be_sorted():
    pool = Pool.of(**GOOD)._replace(unlabelled=np.array([3, 0, 1]))
    with pytest.raises(PoolError, match=r"sorted, distinct rows; Pool\.of sorts them"):
        get_strategy("random")(jax.random.key(0), pool, 1, StrategyConfig())


def test_probabilities_are_the_mean_of_the_members_by_rows_of_the_training_set():
    pool = Pool.of(**GOOD)
    expected = [np.mean([1 / (1 + np.exp(-one[row])) for one in LOGITS], axis=0) for row in (8, 3)]
    np.testing.assert_allclose(pool.probabilities(np.array([8, 3])), expected, rtol=1e-6)
    part = pool._replace(rows=np.arange(20, 120, 10))  # document 100 is in the ninth row
    np.testing.assert_allclose(part.probabilities(np.array([100, 50])), expected, rtol=1e-6)
