import numpy as np
import pytest

from crabjax.strategies.mmc import _sorted_shares, loss_reduction, predict_counts


def test_loss_reduction_by_hand():
    probabilities = np.array([[0.9, 0.2, 0.6], [0.1, 0.3, 0.2]])
    # marks 0.9 and 0.6; marks 0.3, against the model's belief
    expected = [0.1 + 0.2 + 0.4, 0.1 + 0.7 + 0.2]
    np.testing.assert_allclose(loss_reduction(probabilities, np.array([2, 1])), expected)


@pytest.mark.parametrize("count", [0, 3])
def test_no_label_and_every_label(count):
    probabilities = np.array([[0.9, 0.2, 0.6]])
    certain = probabilities if count == 0 else 1 - probabilities
    found = loss_reduction(probabilities, np.array([count]))
    np.testing.assert_allclose(found, certain.sum(axis=1))


def test_a_constant_count_is_predicted_as_it_is():
    labels = np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)
    probabilities = np.random.default_rng(0).random((5, 3))
    counts = predict_counts(probabilities[:2], labels, probabilities)
    np.testing.assert_array_equal(counts, [2, 2, 2, 2, 2])


def test_counts_follow_the_shape_of_the_probabilities():
    generator = np.random.default_rng(0)
    counts = generator.integers(1, 4, size=200)
    carried = np.argsort(generator.random((200, 5)), axis=1) < counts[:, None]
    probabilities = np.where(carried, 0.9, 0.05)
    found = predict_counts(probabilities[:150], carried[:150], probabilities[150:])
    np.testing.assert_array_equal(found, counts[150:])


def test_counts_are_read_from_shares_in_descending_order():
    found = _sorted_shares(np.array([[0.1, 0.4, 0.3], [0.9, 0.3, 0.8], [0.0, 0.0, 0.0]]))
    expected = [[0.5, 0.375, 0.125], [0.45, 0.4, 0.15], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(found, expected)


def test_each_document_ranks_its_own_labels():
    probabilities = np.array([[0.3, 0.6], [0.9, 0.2], [0.4, 0.8]])
    found = loss_reduction(probabilities, np.ones(3, int))  # marks 0.6, 0.9, 0.8
    np.testing.assert_allclose(found, [0.4 + 0.3, 0.1 + 0.2, 0.2 + 0.4])


def test_counts_that_differ_are_not_a_constant():
    labels = np.array([[1, 0, 0], [1, 1, 0]] * 10, dtype=bool)
    probabilities = np.where(labels, 0.9, 0.05)
    found = predict_counts(probabilities, labels, probabilities[:2])
    np.testing.assert_array_equal(found, [1, 2])
