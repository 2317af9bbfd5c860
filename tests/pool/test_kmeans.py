from typing import Any, cast

import numpy as np
import pytest
from sklearn.cluster import KMeans, kmeans_plusplus

from crabjax.pool.kmeans import kmeans_picks, starting_rows


def blobs(clusters: int, each: int, seed: int = 0) -> np.ndarray:
    """[clusters * each, 5], tight and far apart."""
    generator = np.random.default_rng(seed)
    centres = 10.0 * generator.normal(size=(clusters, 1, 5))
    rows = centres + 0.1 * generator.normal(size=(clusters, each, 5))
    return rows.reshape(-1, 5).astype(np.float32)


def picks(rows: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    return kmeans_picks(rows, count, np.random.default_rng(seed))


def test_each_blob_gives_the_document_nearest_its_mean():
    rows = blobs(4, 20)
    means = rows.reshape(4, 20, 5).mean(axis=1)
    distances = np.linalg.norm(rows[None] - means[:, None], axis=2)
    np.testing.assert_array_equal(np.sort(picks(rows, 4)), np.sort(distances.argmin(axis=1)))


@pytest.mark.parametrize("count", [1, 5, 29, 30, 31, 100])
def test_distinct_and_as_many_as_there_are(count):
    rows = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)
    found = picks(rows, count)
    assert len(set(found.tolist())) == len(found) == min(count, 30)
    assert found.min() >= 0
    assert found.max() < 30


@pytest.mark.parametrize("rows", [np.zeros((30, 4)), np.ones((30, 4)), np.eye(30)[:, :2]])
@pytest.mark.parametrize("count", [0, 1, 7, 29, 30])
def test_equal_and_zero_rows_without_a_warning(rows, count):
    assert len(np.unique(picks(rows.astype(np.float32), count))) == count


def test_same_seed_same_picks_and_the_rows_are_left_alone():
    rows = np.random.default_rng(2).normal(size=(80, 6)).astype(np.float32)
    before = rows.copy()
    np.testing.assert_array_equal(picks(rows, 9, seed=4), picks(rows, 9, seed=4))
    np.testing.assert_array_equal(rows, before)


def test_starting_rows_find_every_blob():
    rows = blobs(8, 15)
    for seed in range(5):
        starts = starting_rows(rows, 8, np.random.default_rng(seed))
        assert len(set((starts // 15).tolist())) == 8


def test_the_start_is_as_good_as_that_of_scikit_learn():
    rows = np.random.default_rng(3).random((300, 6)).astype(np.float32)

    def inertia(start: Any, seed: int) -> float:
        return cast(float, KMeans(20, init=start, random_state=seed).fit(rows).inertia_)

    seeds = range(8)
    starts = [rows[starting_rows(rows, 20, np.random.default_rng(seed))] for seed in seeds]
    ours = [inertia(start, 0) for start in starts]
    theirs = [inertia("k-means++", seed) for seed in seeds]
    assert np.mean(ours) < 1.03 * np.mean(theirs)


def test_the_last_row_can_start_as_well():
    rows = np.zeros((20, 3), np.float32)
    rows[-1] = 5.0
    for seed in range(5):
        assert 19 in starting_rows(rows, 2, np.random.default_rng(seed))


def test_each_start_is_the_best_of_a_few_draws():
    """What is left of the distances to the starts, on average, against one draw a start."""
    rows = np.random.default_rng(3).random((300, 6)).astype(np.float32)
    left = lambda starts: ((rows[:, None] - rows[starts]) ** 2).sum(axis=2).min(axis=1).sum()
    ours = [left(starting_rows(rows, 20, np.random.default_rng(seed))) for seed in range(20)]
    single = lambda seed: kmeans_plusplus(rows, 20, random_state=seed, n_local_trials=1)[1]
    assert np.mean(ours) < 0.95 * np.mean([left(single(seed)) for seed in range(20)])
