import numpy as np
import pytest

from crabjax.pool.select import largest, normalised, select_diverse, select_representative


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
    picks = select_diverse(gains, 5, 0.5, generator())
    assert len(set(picks.tolist())) == 5
    assert ((picks >= 10) & (picks < 30)).all()


def test_up_to_twice_the_query_every_candidate_is_looked_at():
    gains = np.zeros((8, 2), dtype=np.float32)
    gains[:, 0], gains[7] = 10.0, [0.0, 0.1]  # the smallest sum, and a direction of its own
    assert 7 in select_diverse(gains, 4, 0.5, generator())


def test_one_pick_for_each_direction():
    directions = np.repeat(np.eye(4), 10, axis=0) * generator().uniform(1, 2, (40, 1))
    picks = select_diverse(directions.astype(np.float32), 4, 1.0, generator())
    assert sorted((picks // 10).tolist()) == [0, 1, 2, 3]


def test_representatives_come_from_where_the_gains_are():
    """Two directions, the second with gains a thousand times as large: it gets most picks."""
    features = np.repeat(np.eye(2), 50, axis=0) + generator().normal(0, 0.05, (100, 2))
    gains = np.repeat([[1e-6], [1.0]], 50, axis=0) * np.ones((1, 3))
    picks = select_representative(gains, features, 10, generator())
    assert len(set(picks)) == 10
    assert (picks >= 50).sum() >= 7


@pytest.mark.parametrize("gain", [0.0, 1e-30, 1.0])
def test_representatives_without_a_difference_in_gains_cover_all(gain):
    features = np.repeat(np.eye(5), 4, axis=0)
    picks = select_representative(np.full((20, 3), gain), features, 5, generator())
    assert sorted(picks // 4) == [0, 1, 2, 3, 4]


def test_a_small_share_still_fills_the_query():
    picks = select_diverse(generator().random((50, 3)).astype(np.float32), 10, 0.01, generator())
    assert len(set(picks.tolist())) == 10


def test_equal_gains_pick_anywhere():
    seen = {
        int(pick)
        for seed in range(10)
        for pick in select_diverse(np.zeros((50, 3), np.float32), 10, 0.5, generator(seed))
    }
    assert len(seen) > 30
