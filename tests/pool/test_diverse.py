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


def tf_idf(tokens):
    """Rows of (1 + log count) * (log((1 + documents) / (1 + carriers)) + 1), of length one."""
    words = [word for word in np.unique(tokens) if word != 0]
    counts = np.array([[np.sum(document == word) for word in words] for document in tokens])
    carriers = (counts > 0).sum(axis=0)
    weights = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0)
    weights = weights * (np.log((1 + len(tokens)) / (1 + carriers)) + 1)
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)


def test_up_to_64_words_give_their_tf_idf():
    generator = np.random.default_rng(0)
    tokens = np.concatenate([generator.integers(1, 65, (90, 6)), np.arange(1, 67).reshape(11, 6)])
    tokens[tokens > 64] = 0
    assert topic_vectors(tokens).shape == (101, 64)
    np.testing.assert_allclose(topic_vectors(tokens), tf_idf(tokens), atol=1e-6)
    few = generator.integers(0, 4, (90, 9)) * 7
    few[:, 0] = 7
    np.testing.assert_allclose(topic_vectors(few), tf_idf(few), atol=1e-6)


def test_more_words_are_reduced_to_64_dimensions_that_keep_most_of_the_distances():
    tokens = np.random.default_rng(0).integers(1, 67, (150, 8))
    found, exact = topic_vectors(tokens), tf_idf(tokens)
    assert found.shape == (150, 64)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found @ found.T, exact @ exact.T, atol=0.1)


def test_documents_without_any_word_are_all_alike():
    picks = diverse_picks(np.zeros((6, 4), np.int32), 3, np.random.default_rng(0))
    assert len(set(picks.tolist())) == 3
