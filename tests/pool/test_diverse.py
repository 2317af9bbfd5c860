"""The cold start covers the pool."""

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from crabjax.keys import draw_up_to, host_generator, run_key
from crabjax.pool.diverse import diverse_picks, first_batch
from crabjax.pool.kmeans import starting_rows
from crabjax.pool.look import AllBut


def topics(documents=200, length=20):
    """Documents of four topics, each with words of its own; the last topic is rare."""
    generator = np.random.default_rng(0)
    topic = np.repeat(np.arange(4), [90, 60, 44, 6])[:documents]
    words = 2 + topic[:, None] * 20 + generator.integers(0, 20, (documents, length))
    return topic, words.astype(np.int32)


def test_a_rare_topic_is_picked_as_well():
    topic, tokens = topics()
    for seed in range(5):
        picks = diverse_picks(tokens, 12, np.random.default_rng(seed))
        assert set(topic[picks]) == {0, 1, 2, 3}  # of 12 random picks, 3 in 10 have no rare one


def test_picks_are_distinct_and_follow_the_seed():
    _, tokens = topics()
    picks = diverse_picks(tokens, 50, np.random.default_rng(3))
    assert len(set(picks)) == 50
    np.testing.assert_array_equal(picks, diverse_picks(tokens, 50, np.random.default_rng(3)))


def test_vectors_are_taken_as_they_are():
    generator = np.random.default_rng(0)
    vectors = np.repeat(np.eye(3, 8, dtype=np.float32), 10, axis=0)
    picks = diverse_picks(vectors + 1e-3 * generator.random((30, 8), np.float32), 3, generator)
    assert sorted(picks // 10) == [0, 1, 2]


def test_more_picks_than_documents_and_documents_all_alike():
    _, tokens = topics(5)
    assert sorted(diverse_picks(tokens, 9, np.random.default_rng(0))) == [0, 1, 2, 3, 4]
    alike = np.ones((6, 3), np.int32)
    assert len(set(diverse_picks(alike, 4, np.random.default_rng(0)))) == 4


def test_documents_without_any_word_are_all_alike():
    picks = diverse_picks(np.zeros((6, 4), np.int32), 3, np.random.default_rng(0))
    assert len(set(picks.tolist())) == 3


def plain_first_batch(vectors, key, rows, count, covered=3000):
    """Drawn rows, and the nearest rows left to the centres that scikit-learn ends at."""
    order = host_generator(key).permutation(len(rows))
    drawn = [rows[place] for place in order[: count // 2]]
    rest = sorted(rows[place] for place in order[count // 2 :][:covered])
    unit = {row: vectors[row] / np.linalg.norm(vectors[row]) for row in rest}
    matrix = np.stack([unit[row] for row in rest])
    start = matrix[starting_rows(matrix, count - count // 2, host_generator(key, "cluster"))]
    start_at: Any = start  # scikit-learn states a string
    centres = KMeans(len(start), init=start_at, random_state=0).fit(matrix).cluster_centers_
    covering = []
    for centre in centres:
        left = [row for row in rest if row not in covering]
        covering.append(min(left, key=lambda row: np.linalg.norm(unit[row] - centre)))
    return covering, drawn


@pytest.mark.parametrize("count", [2, 7, 20])
def test_the_first_batch_equals_the_plain_one(count):
    vectors = np.random.default_rng(0).normal(size=(90, 6)).astype(np.float32)
    pool = AllBut(90, np.array([3, 4, 50]))
    key = run_key(5, "initial")
    covering, drawn = first_batch(key, vectors, pool, count)
    expected = plain_first_batch(vectors, key, pool[np.arange(87)].tolist(), count)
    assert covering.tolist() == expected[0]
    assert drawn.tolist() == expected[1]


def test_the_random_half_begins_the_order_of_a_random_batch():
    vectors = np.random.default_rng(0).normal(size=(90, 6)).astype(np.float32)
    key = run_key(2, "initial")
    alone = draw_up_to(host_generator(key), np.arange(90), 20)
    covering, drawn = first_batch(key, vectors, np.arange(90), 20)
    assert drawn.tolist() == alone[:10].tolist()
    assert len({*drawn.tolist(), *covering.tolist()}) == 20
    again = first_batch(key, vectors, np.arange(90), 20)
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate([covering, drawn]))
    other = first_batch(run_key(3, "initial"), vectors, np.arange(90), 20)
    assert set(other.covering.tolist()) != set(covering.tolist())


def test_of_many_documents_a_sample_is_read(monkeypatch):
    monkeypatch.setattr("crabjax.pool.diverse._COVERED", 40)
    read = []

    class Noted(np.ndarray):
        def __getitem__(self, rows):
            read.append(len(rows))
            return np.asarray(self)[rows]

    for documents in (400, 4000):
        vectors = np.random.default_rng(0).normal(size=(documents, 6)).astype(np.float32)
        first = first_batch(run_key(0, "initial"), vectors.view(Noted), np.arange(documents), 20)
        assert len(set(np.concatenate(first).tolist())) == 20
    assert read == [40, 40]


@pytest.mark.parametrize(("documents", "count"), [(1, 4), (3, 4), (4, 4), (5, 1)])
def test_a_first_batch_of_few_documents(documents, count):
    vectors = np.random.default_rng(0).normal(size=(documents, 6)).astype(np.float32)
    first = first_batch(run_key(0, "initial"), vectors, np.arange(documents), count)
    assert len(set(np.concatenate(first).tolist())) == min(documents, count)
    assert len(first.covering) >= 1
