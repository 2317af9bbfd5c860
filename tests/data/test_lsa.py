"""Latent semantic analysis against tf-idf in plain Python and an exact decomposition."""

import math

import numpy as np
import pytest

from crabjax.data import lsa as module
from crabjax.data.lsa import latent_words

GENERATOR = np.random.default_rng(0)


def make_tokens(documents=60, words=30, length=9):
    """Documents of three topics, with padding, a marker that all have, and words of their own."""
    topic = GENERATOR.integers(0, 3, documents)
    tokens = 2 + 10 * topic[:, None] + GENERATOR.integers(0, words // 3, (documents, length))
    tokens[:, 0] = 1
    tokens[np.arange(length) >= GENERATOR.integers(4, length + 1, documents)[:, None]] = 0
    tokens[5, 1] = 95  # nobody else has it
    return tokens.astype(np.int32)


def plain_weights(tokens):
    having = {}
    for document in tokens:
        for word in set(document.tolist()) - {0}:
            having[word] = having.get(word, 0) + 1
    known = {word: many for word, many in having.items() if many > 1}
    return {word: math.log((1 + len(tokens)) / (1 + many)) for word, many in known.items()}


def plain_tf_idf(tokens, weights, size):
    """[n, V], one number at a time."""
    rows = np.zeros((len(tokens), size))
    for row, document in enumerate(tokens.tolist()):
        for word in set(document) & weights.keys():
            rows[row, word] = (1 + math.log(document.count(word))) * weights[word]
        if (length := math.sqrt(sum(rows[row] ** 2))) > 0:
            rows[row] /= length
    return rows


def unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


TOKENS, NEW = make_tokens(), make_tokens(8)


@pytest.mark.parametrize("width", [3, 31])  # topics, and words that count
def test_documents_are_the_projections_of_their_tf_idf(width):
    weights = plain_weights(TOKENS)
    exact = np.linalg.svd(plain_tf_idf(TOKENS, weights, 96))[2][:width].T  # [V, L]
    found = latent_words(TOKENS, width)
    for word in range(96):
        assert found.weights[word] == pytest.approx(weights.get(word, 0), abs=1e-6)
    for tokens in (TOKENS, NEW):
        expected = unit(plain_tf_idf(tokens, weights, 96) @ exact)
        own = found.of(tokens)
        assert (own.dtype, own.shape) == (np.float32, (len(tokens), width))
        # Directions may be turned round; what documents have to do with each other may not.
        np.testing.assert_allclose(own @ own.T, expected @ expected.T, atol=2e-3)


def test_as_many_directions_as_words_keep_every_angle():
    exact = plain_tf_idf(TOKENS, plain_weights(TOKENS), 96)
    own = latent_words(TOKENS, 60).of(TOKENS)
    np.testing.assert_allclose(own @ own.T, exact @ exact.T, atol=1e-5)


def test_marker_padding_and_order_do_not_matter():
    words = latent_words(TOKENS, 8)
    padded = np.pad(TOKENS, ((0, 0), (0, 5)))
    np.testing.assert_allclose(latent_words(padded, 8).of(padded), words.of(TOKENS), atol=1e-6)
    np.testing.assert_allclose(words.of(TOKENS[:, ::-1]), words.of(TOKENS), atol=1e-6)
    without_marker = np.where(TOKENS == 1, 0, TOKENS)
    np.testing.assert_allclose(words.of(without_marker), words.of(TOKENS), atol=1e-6)


def test_the_same_documents_give_the_same_numbers():
    first, again = latent_words(TOKENS, 8), latent_words(TOKENS, 8)
    np.testing.assert_array_equal(first.directions, again.directions)


def test_words_that_nobody_had_say_nothing():
    words = latent_words(TOKENS, 8)
    unknown = np.array([[1, 50, 0], [1, 500, 1000], [1, 95, 95], [0, 0, 0]], np.int32)
    np.testing.assert_array_equal(words.of(unknown), np.zeros((4, 8)))
    np.testing.assert_allclose(
        words.of(np.array([[4, 500, 0]])), words.of(np.array([[4, 0, 0]])), atol=1e-6
    )


@pytest.mark.parametrize(
    "tokens", [np.zeros((3, 4)), np.ones((5, 2)), np.full((1, 3), 7), np.zeros((0, 3))]
)
def test_documents_that_are_empty_or_all_alike_say_nothing(tokens):
    words = latent_words(tokens.astype(np.int32), 6)
    assert words.directions.shape[1] == 6
    np.testing.assert_array_equal(words.of(np.array([[1, 7, 0]], np.int32)), np.zeros((1, 6)))


def test_long_documents_do_not_decide_the_directions():
    short = GENERATOR.integers(2, 6, (30, 2))
    long = GENERATOR.integers(20, 34, (8, 12))
    tokens = np.vstack([np.pad(short, ((0, 0), (0, 10))), long]).astype(np.int32)
    exact = np.linalg.svd(plain_tf_idf(tokens, plain_weights(tokens), 34))[2][0]
    found = latent_words(tokens, 1).directions[:, 0]
    assert abs(found @ exact[: len(found)]) > 0.999


def test_words_that_nearly_all_have_make_rows_of_length_one_too():
    tokens = GENERATOR.integers(1, 4, (50, 4)).astype(np.int32)  # weights are below one
    words = latent_words(tokens, 2)
    assert words.weights.max() < 0.5
    exact = plain_tf_idf(tokens, plain_weights(tokens), 4)
    found = module._weighted(module._counts(tokens, 4), words.weights).toarray()
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_copies_leave_no_arbitrary_directions():
    """Rank 5: what goes beyond would be noise in new documents."""
    copies = np.repeat(TOKENS[[0, 9, 17, 30, 44]], 4, axis=0)
    words = latent_words(copies, 12)
    strong = np.abs(words.of(copies)).max(axis=0) > 0
    assert 0 < strong.sum() <= 5
    np.testing.assert_array_equal(words.of(TOKENS)[:, ~strong], 0)


def test_words_beside_all_directions_are_not_blown_up():
    many = np.repeat(np.array([[2, 3, 0], [2, 4, 0]], np.int32), 20, axis=0)
    few = np.array([[5, 6, 7], [5, 6, 7]], np.int32)
    words = latent_words(np.vstack([many, few]), 1)
    np.testing.assert_array_equal(words.of(few), np.zeros((2, 1)))
    assert np.abs(words.of(many)).min() > 0.99


def test_fewer_documents_than_directions():
    few = TOKENS[:4]
    own = latent_words(few, 20).of(few)
    assert own.shape == (4, 20)
    exact = plain_tf_idf(few, plain_weights(few), 96)
    np.testing.assert_allclose(own @ own.T, exact @ exact.T, atol=1e-5)


def test_of_many_documents_a_sample_is_read_evenly_spaced(monkeypatch):
    monkeypatch.setattr(module, "_SAMPLE", 15)
    sampled = latent_words(TOKENS, 6)
    monkeypatch.undo()
    np.testing.assert_array_equal(sampled.weights, latent_words(TOKENS[::4], 6).weights)
    np.testing.assert_array_equal(sampled.directions, latent_words(TOKENS[::4], 6).directions)
