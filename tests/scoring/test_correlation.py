"""Label correlations against counting, pair by pair and document by document."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from crabjax.scoring import (
    attention_label_weights,
    correlation_attention,
    drop_implied_labels,
    expected_loss_reduction,
    has_exclusive_pair,
    has_no_label,
    label_correlation,
    pseudo_labels,
    update,
)

LABELS = hnp.arrays(bool, (9, 4))


def counted_correlation(labels):
    """A and NegA by counting documents."""
    size = labels.shape[1]
    positive, negative = np.zeros((size, size)), np.zeros((size, size))
    for m in range(size):
        for n in range(size):
            carriers = [row for row in labels if row[n]]
            if m == n:
                positive[m, n] = 1
            elif carriers:
                positive[m, n] = sum(row[m] for row in carriers) / len(carriers)
                negative[m, n] = sum(not row[m] for row in carriers) / len(carriers)
    return positive, negative


@settings(max_examples=50, deadline=None, derandomize=True)
@given(LABELS)
def test_correlation_equals_counting(labels):
    found = label_correlation(labels, min_support=0)
    positive, negative = counted_correlation(labels)
    np.testing.assert_allclose(found.positive, positive, rtol=1e-6)
    np.testing.assert_allclose(found.negative, negative, rtol=1e-6)
    np.testing.assert_array_equal(np.diagonal(found.counts), labels.sum(axis=0))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(LABELS, st.integers(1, 9))
def test_rare_labels_give_no_evidence(labels, min_support):
    found = label_correlation(labels, min_support)
    rare = np.flatnonzero(labels.sum(axis=0) < min_support)
    positive, negative = counted_correlation(labels)
    for matrix in (positive, negative):
        diagonal = matrix.diagonal().copy()
        matrix[rare, :] = matrix[:, rare] = 0
        np.fill_diagonal(matrix, diagonal)
    np.testing.assert_allclose(found.positive, positive, rtol=1e-6)
    np.testing.assert_allclose(found.negative, negative, rtol=1e-6)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(LABELS, LABELS)
def test_update_equals_a_rebuild_exactly(first, second):
    for support in (0, 1, 5):
        updated = update(label_correlation(first, support), second, support)
        rebuilt = label_correlation(np.concatenate([first, second]), support)
        for one, other in zip(updated, rebuilt):
            np.testing.assert_array_equal(one, other)


def test_a_label_never_seen_has_no_evidence_unless_eq_9_is_read_to_the_letter():
    labels = np.array([[1, 0, 0], [1, 1, 0]], bool)
    expected = np.array([[0, 0, 0], [0.5, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(label_correlation(labels).negative, expected)
    expected[2, :2] = 1
    np.testing.assert_array_equal(label_correlation(labels, min_support=0).negative, expected)


def test_rows_of_zeros_and_dtypes_do_not_matter():
    labels = np.random.default_rng(0).random((9, 4)) < 0.4
    expected = label_correlation(labels)
    padded = np.concatenate([labels, np.zeros_like(labels)])
    for same in (padded, labels.astype(np.int32), labels.astype(np.float32), jnp.asarray(labels)):
        for one, other in zip(label_correlation(same), expected):
            np.testing.assert_array_equal(one, other)


def counted_attention(positive, gamma):
    """Eq. 13, entry by entry."""
    size = len(positive)
    attention = np.eye(size)
    for m in range(size):
        for n in range(size):
            largest = max(positive[other, n] for other in range(size) if other != n)
            if m != n and largest > 0:
                attention[m, n] = positive[m, n] / (gamma * largest)
    return attention


@settings(max_examples=30, deadline=None, derandomize=True)
@given(LABELS, st.sampled_from([1.0, 2.0]))
def test_attention_equals_eq_13(labels, gamma):
    positive = label_correlation(labels).positive
    found = correlation_attention(positive, gamma)
    np.testing.assert_allclose(found, counted_attention(np.asarray(positive), gamma), rtol=1e-6)
    assert np.isfinite(found).all()


def test_attention_by_row_sum():
    positive = np.array([[1, 0.5, 0.2], [0.1, 1, 0.4], [0.3, 0.1, 1]], np.float32)
    expected = np.where(np.eye(3, dtype=bool), 1, positive / (2 * 0.7))
    found = correlation_attention(positive, norm="row_sum")
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(correlation_attention(jnp.eye(3), norm="row_sum"), np.eye(3))


def test_attention_to_the_letter_is_a_over_gamma():
    positive = np.array([[1, 0.5, 0], [0.1, 1, 0], [0.3, 0.1, 1]], np.float32)
    expected = np.where(np.eye(3, dtype=bool), 1, positive / 3)
    found = correlation_attention(positive, 3.0, norm="literal")
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_label_weights_equal_the_double_sum():
    """Eq. 11: attending label by label, then summing, is one weight per label."""
    random = np.random.default_rng(1)
    candidates, anchors = random.random((2, 3, 5, 4), np.float32)
    attention = correlation_attention(label_correlation(random.random((9, 4)) < 0.5).positive)
    gains = [
        expected_loss_reduction(candidates[..., [m]], anchors[..., [m]], chunk_size=5)
        for m in range(4)
    ]
    double_sum = sum(attention[m, n] * gains[m] for n in range(4) for m in range(4))
    weights = attention_label_weights(attention)
    found = expected_loss_reduction(candidates, anchors, label_weights=weights, chunk_size=5)
    np.testing.assert_allclose(found, double_sum, rtol=1e-5)


def test_pseudo_labels():
    found = pseudo_labels(np.array([[0.2, 0.5, 0.51]], np.float32))
    np.testing.assert_array_equal(found, [[False, False, True]])
    np.testing.assert_array_equal(has_no_label(found[:, :2]), [True])


@settings(max_examples=50, deadline=None, derandomize=True)
@given(LABELS, LABELS, st.sampled_from([0.5, 0.6827, 1.0]))
def test_refinement_rules_pair_by_pair(labels, pseudo, sigma):
    correlation = label_correlation(labels)
    positive, negative = np.asarray(correlation.positive), np.asarray(correlation.negative)
    kept, exclusive = pseudo.copy(), np.zeros(len(pseudo), bool)
    for i, row in enumerate(pseudo):
        for m in range(4):
            for n in range(4):
                both = row[m] and row[n]
                if both and positive[n, m] > sigma >= positive[m, n]:
                    kept[i, n] = False
                if both and negative[m, n] > sigma:
                    exclusive[i] = True
    np.testing.assert_array_equal(drop_implied_labels(pseudo, positive, sigma), kept)
    np.testing.assert_array_equal(has_exclusive_pair(pseudo, negative, sigma), exclusive)
    np.testing.assert_array_equal(has_no_label(pseudo), ~pseudo.any(axis=1))


def test_labels_that_imply_each_other_both_stay():
    positive = np.array([[1, 0.99, 0.7], [0.98, 1, 0.2], [0.3, 0.4, 1]], np.float32)
    kept = drop_implied_labels(np.ones((1, 3), bool), positive, 0.6827)
    np.testing.assert_array_equal(kept, [[False, True, True]])  # 2 implies 0, one way only


@pytest.mark.parametrize("form", [np.int32, np.float32, list])
def test_pseudo_labels_may_be_numbers_or_lists(form):
    positive = np.array([[1, 0.9, 0.1], [0.2, 1, 0.1], [0.1, 0.1, 1]], np.float32)
    pseudo = np.array([[1, 1, 0], [1, 0, 1]], bool)
    given = pseudo.tolist() if form is list else pseudo.astype(form)
    kept = drop_implied_labels(given, positive, 0.6827)
    np.testing.assert_array_equal(kept, [[False, True, False], [True, False, True]])
    negative = positive - np.eye(3, dtype=np.float32)
    np.testing.assert_array_equal(has_exclusive_pair(given, negative, 0.6827), [True, False])


def test_everything_works_under_jit():
    labels = np.random.default_rng(2).random((9, 4)) < 0.4

    def refine(labels):
        correlation = update(label_correlation(labels), labels)
        kept = drop_implied_labels(labels, correlation.positive, 0.6)
        weights = attention_label_weights(correlation_attention(correlation.positive))
        return kept, has_exclusive_pair(kept, correlation.negative, 0.9), weights

    for eager, compiled in zip(refine(labels), jax.jit(refine)(labels)):
        np.testing.assert_allclose(eager, compiled, rtol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda pseudo, matrix: label_correlation(pseudo),
        lambda pseudo, matrix: update(label_correlation(pseudo), pseudo).positive,
        lambda pseudo, matrix: correlation_attention(matrix),
        lambda pseudo, matrix: attention_label_weights(matrix),
        lambda pseudo, matrix: pseudo_labels(matrix),
        lambda pseudo, matrix: drop_implied_labels(pseudo, matrix, 0.6),
        lambda pseudo, matrix: has_exclusive_pair(pseudo, matrix, 0.9),
        lambda pseudo, matrix: has_no_label(pseudo),
    ],
)
def test_every_function_is_one_compiled_program(function):
    pseudo, matrix = np.ones((5, 4), bool), np.full((4, 4), 0.5, np.float32)
    steps = jax.make_jaxpr(function)(pseudo, matrix).eqns
    assert {step.primitive.name for step in steps} == {"jit"}


SQUARE = np.eye(3, dtype=np.float32)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (r"labels: expected shape \[n, K\]", lambda: label_correlation(SQUARE[0])),
        (r"labels: expected at least one entry", lambda: label_correlation(SQUARE[:0])),
        (r"labels: expected labels 0 or 1, found 2.0 at", lambda: label_correlation(2 * SQUARE)),
        (r"labels: expected labels 0 or 1, found nan", lambda: label_correlation(SQUARE * np.nan)),
        (r"new_labels: expected labels 0 or 1", lambda: update(label_correlation(SQUARE), -SQUARE)),
        (r"K = 3 .* found 2", lambda: update(label_correlation(SQUARE), SQUARE[:, :2])),
        (r"positive: expected K = 3", lambda: correlation_attention(SQUARE[:, :2])),
        (r"min_support: expected at least 0", lambda: label_correlation(SQUARE, -1)),
        (
            r"norm: expected one of column_max, literal, row_sum, found 'no'",
            lambda: correlation_attention(SQUARE, 2.0, "no"),  # type: ignore
        ),
        (r"gamma: expected a number > 0", lambda: correlation_attention(SQUARE, 0.0)),
        (r"attention: expected shape \[K, K\]", lambda: attention_label_weights(SQUARE[0])),
        (r"probs: expected probabilities", lambda: pseudo_labels(2 * SQUARE)),
        (r"positive: expected K = 3", lambda: drop_implied_labels(SQUARE, SQUARE[:2, :2], 0.5)),
        (r"negative: expected K = 3", lambda: has_exclusive_pair(SQUARE, SQUARE[:2], 0.5)),
        (r"negative: expected K = 3", lambda: has_exclusive_pair(SQUARE, SQUARE[:, :2], 0.5)),
    ],
)
def test_bad_input(message, call):
    with pytest.raises(ValueError, match=message):
        call()
