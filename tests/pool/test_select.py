import dataclasses

import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.pool.select import kept_count, largest, normalised, select_diverse


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_largest_are_the_largest_best_first():
    scores = np.array([0.1, 5.0, -2.0, 3.0, 4.0])
    np.testing.assert_array_equal(largest(scores, 3, generator()), [1, 4, 3])


def test_largest_breaks_ties_by_the_next_column():
    scores = np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 9.0], [1.0, 1.0]])
    np.testing.assert_array_equal(largest(scores, 4, generator()), [1, 3, 0, 2])


def test_largest_breaks_remaining_ties_by_chance():
    first = {int(largest(np.zeros(10), 1, generator(seed))[0]) for seed in range(40)}
    assert len(first) > 5


def test_normalised_rows_have_length_one_however_small_and_zero_rows_stay():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [3e-30, 4e-30]], dtype=np.float32)
    expected = [[0.6, 0.8], [0.0, 0.0], [0.6, 0.8]]
    np.testing.assert_allclose(normalised(rows), expected, rtol=1e-6)


def test_only_the_best_half_is_looked_at():
    gains = generator().random((40, 6)).astype(np.float32)
    gains[10:30] *= 100
    picks = select_diverse(gains.sum(axis=1), gains, 5, 20, generator())
    assert len(set(picks.tolist())) == 5
    assert ((picks >= 10) & (picks < 30)).all()


@pytest.mark.parametrize(
    ("candidates", "labelled", "kept"),
    [
        (8, 900, 8),  # up to twice the query: all
        (9, 100, 5),  # one more: the share, rounded up
        (7, 100, 7),
        (400, 0, 200),
        (400, 50, 200),
        (400, 100, 200),
        (400, 101, 199),  # 200 / 1.01 = 198.02
        (400, 400, 50),
        (400, 20_000, 40),  # no less than a tenth
        (60, 20_000, 8),  # never fewer than twice the query
        (12, 20_000, 6),  # unless the share itself is fewer
    ],
)
def test_the_share_that_is_kept_falls_as_labelled_documents_grow(candidates, labelled, kept):
    config = StrategyConfig(keep_fraction=0.5, keep_least=0.1)
    assert kept_count(candidates, 4, labelled, config) == kept
    unchanging = dataclasses.replace(config, keep_least=None)
    assert kept_count(candidates, 4, labelled, unchanging) == kept_count(candidates, 4, 1, config)


def test_a_small_share_still_fills_the_query():
    for least in (None, 0.01):
        config = StrategyConfig(keep_fraction=0.01, keep_least=least)
        assert kept_count(50, 10, 500, config) == 10


def test_one_pick_for_each_direction():
    directions = np.repeat(np.eye(4), 10, axis=0) * generator().uniform(1, 2, (40, 1))
    for gains in (directions, np.ones((40, 3))):  # of the vectors, whatever the gains
        picks = select_diverse(gains.sum(axis=1), directions, 4, 40, generator())
        assert sorted((picks // 10).tolist()) == [0, 1, 2, 3]


def test_equal_gains_pick_anywhere():
    gains = np.zeros((50, 3), np.float32)
    seen = {
        int(pick)
        for seed in range(10)
        for pick in select_diverse(gains.sum(axis=1), gains, 10, 25, generator(seed))
    }
    assert len(seen) > 30
