import numpy as np
import pytest

from crabjax.strategies.adaptive import (
    approximate_errors,
    fit_head,
    margin_uncertainty,
    shortlist,
)


def test_margin_uncertainty_by_hand():
    decisions = np.array([[2.0, 0.5, -1.5, -3.0], [1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, -4.0]])
    np.testing.assert_allclose(margin_uncertainty(decisions), [1 / (0.5 + 1.5), 0, 0])


def test_shortlist_joins_the_extremes_of_both_measures():
    uncertainty = np.array([9.0, 0.0, 1.0, 2.0, 0.1])
    inconsistency = np.array([0.0, 9.0, 1.0, 2.0, 0.1])
    found = shortlist(uncertainty, inconsistency, 1, np.random.default_rng(0))
    np.testing.assert_array_equal(found, [0, 1, 3])


def slow_errors(features, labelled, labels, documents, predicted, unlabelled):
    """Refits the ridge regression from the start for every candidate."""
    features = np.concatenate([features.astype(np.float64), np.ones((len(features), 1))], axis=1)
    errors = []
    for document, pseudo in zip(documents, predicted):
        rows = features[np.append(labelled, document)]
        targets = np.where(np.vstack([labels, pseudo]), 1.0, -1.0)
        weights = np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ targets)
        error = 0.0
        for outputs in features[unlabelled] @ weights:
            positive, negative = outputs[outputs > 0], outputs[outputs <= 0]
            error += max(1.0 - positive) if len(positive) else 0.0
            error += max(1.0 + negative) if len(negative) else 0.0
        errors.append(error)
    return errors


@pytest.mark.parametrize("count", [1, 30, 70])
def test_rank_one_changes_equal_refits(count):
    generator = np.random.default_rng(count)
    features = generator.normal(size=(120, 6)).astype(np.float32)
    labels = features[:, :3] + 0.3 * generator.normal(size=(120, 3)) > 0
    labelled, unlabelled = np.arange(20), np.arange(25, 120)
    documents = generator.choice(unlabelled, count, replace=False)
    head = fit_head(features, labelled, labels[labelled])
    found = approximate_errors(head, documents, ~labels[documents], unlabelled)
    expected = slow_errors(
        features, labelled, labels[labelled], documents, ~labels[documents], unlabelled
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.ptp(expected) > 0.1 or count == 1
