"""The cold start covers the pool."""

import numpy as np

from crabjax.pool.diverse import diverse_picks, topic_vectors


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


def test_padding_does_not_matter():
    _, tokens = topics()
    np.testing.assert_allclose(
        topic_vectors(tokens), topic_vectors(np.pad(tokens, ((0, 0), (0, 5)))), atol=1e-5
    )
