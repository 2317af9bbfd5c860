import jax
import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.strategies import Pool, get_strategy
from crabjax.strategies.adaptive import (
    _summed_errors,
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


def test_an_output_of_zero_is_not_positive():
    outputs = np.array([[0.0, 0.5], [0.0, -2.0], [9.0, 9.0]], np.float32)
    still = np.zeros((1, 3), np.float32), np.zeros((1, 2), np.float32)
    in_pool = np.array([1, 1, 0], np.float32)
    expected = (1 - 0.5) + (1 + 0.0) + 0 + (1 + 0.0)
    np.testing.assert_allclose(_summed_errors(outputs, *still, in_pool), [expected])


def test_shortlist_trades_off_in_tenths():
    """Twenty-one documents on a quarter circle, each the best of all for one b in twentieths."""
    b = np.linspace(0, 1, 21)
    uncertainty, inconsistency = np.exp(np.array([b, 1 - b]) / np.hypot(b, 1 - b))
    found = shortlist(uncertainty, inconsistency, 1, np.random.default_rng(0))
    np.testing.assert_array_equal(found, np.arange(0, 21, 2))


def test_takes_the_smallest_errors_of_the_shortlist(monkeypatch):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(40, 5)).astype(np.float32)
    logits = generator.normal(size=(2, 40, 3)).astype(np.float32)
    logits[:, [13, 16], 0] = [[0.5, 0.25], [-0.5, -0.25]]  # decisions of zero predict no label
    labels = generator.random((40, 3)) < 0.4
    labelled, unlabelled = np.arange(10), np.arange(12, 40)
    listed = np.array([1, 4, 7, 8, 20])
    asked = []

    def record(*arguments):
        asked.extend(arguments[:3])
        return listed

    monkeypatch.setattr("crabjax.strategies.adaptive.shortlist", record)
    pool = Pool(logits, labels, labelled, unlabelled, features)
    found = get_strategy("adaptive")(jax.random.key(0), pool, 3, StrategyConfig())

    decisions = logits.mean(axis=0)
    np.testing.assert_allclose(asked[0], margin_uncertainty(decisions[unlabelled]), rtol=1e-6)
    cardinality = (decisions[unlabelled] > 0).sum(axis=1)
    np.testing.assert_allclose(asked[1], abs(cardinality - labels[:10].sum() / 10), rtol=1e-6)
    assert asked[2] == 3
    documents = unlabelled[listed]
    errors = slow_errors(
        features, labelled, labels[:10], documents, decisions[documents] > 0, unlabelled
    )
    np.testing.assert_array_equal(found.indices, documents[np.argsort(errors)[:3]])


def test_a_decision_of_zero_is_on_neither_side():
    decisions = np.array([[0.0, 0.5, -0.25], [0.0, 0.5, 0.5], [0.0, -0.5, -0.5]])
    np.testing.assert_allclose(margin_uncertainty(decisions), [1 / (0.5 + 0.25), 0, 0])
