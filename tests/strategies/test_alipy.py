"""MMC and ADAPTIVE against ALiPy 1.2.5, where that is installed."""

import jax
import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from crabjax.config import StrategyConfig
from crabjax.strategies import Pool, get_strategy
from crabjax.strategies.adaptive import approximate_errors, fit_head, margin_uncertainty

oracle = pytest.importorskip("alipy.query_strategy.multi_label", exc_type=ImportError)

LABELLED, UNLABELLED = np.arange(40), np.arange(40, 150)


class RidgeHead(LogisticRegression):
    """The linear head of ADAPTIVE in the one class that ALiPy takes decision values from."""

    def fit(self, X, y, sample_weight=None):
        rows = self._with_constant(X)
        gram = rows.T @ rows + np.eye(rows.shape[1])
        self.weights_ = np.linalg.solve(gram, rows.T @ np.where(y > 0, 1.0, -1.0))
        return self

    def decision_function(self, X):
        return self._with_constant(X) @ self.weights_

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)

    def _with_constant(self, X):
        return np.concatenate([np.asarray(X, np.float64), np.ones((len(X), 1))], axis=1)


@pytest.fixture(params=range(6))
def data(request):
    """Features [150, 6] and labels [150, 4] that depend on them."""
    generator = np.random.default_rng(request.param)
    features = generator.normal(size=(150, 6)).astype(np.float32)
    noise = generator.normal(size=(150, 4))
    return features, (features @ generator.normal(size=(6, 4)) + noise > 0.5).astype(int)


def fitted(classifier, features, labels):
    relevance = oracle._BinaryRelevance(classifier)
    return relevance.train(features[LABELLED], labels[LABELLED])


def test_mmc_asks_for_the_same_document(data):
    features, labels = data
    query = oracle.QueryMultiLabelMMC(
        features,
        labels,
        base_clf=LogisticRegression(),
        logreg_param={"solver": "newton-cg"},
        random_state=1,
    )
    probabilities = fitted(LogisticRegression(), features, labels).predict_proba(features)
    logits = logit(probabilities)[None].astype(np.float32)
    pool = Pool(logits, labels > 0, LABELLED, UNLABELLED)
    found = get_strategy("mmc")(jax.random.key(0), pool, 1, StrategyConfig())
    assert found.indices[0] == query.sequential_select(list(LABELLED), list(UNLABELLED))


def test_adaptive_finds_the_same_document_of_the_same_candidates(data):
    """ALiPy takes every document that ties for the largest score as a candidate.

    It also counts a side whose outputs all exceed the margin 1 as 0, where the method counts it as
    negative: features are scaled down until the ridge penalty keeps outputs within the margin.
    """
    features, labels = data
    features = features / 10
    query = oracle.QueryMultiLabelAdaptive(features, labels, RidgeHead(), random_state=1)
    decisions = fitted(RidgeHead(), features, labels).predict_real(features)
    assert np.abs(decisions).max() < 1
    uncertainty = margin_uncertainty(decisions[UNLABELLED])
    cardinality = (decisions[UNLABELLED] > 0).sum(axis=1)
    inconsistency = np.abs(cardinality - labels[LABELLED].sum(axis=1).mean())
    scores = [uncertainty**b * inconsistency ** (1 - b) for b in np.linspace(0, 1, 11)]
    tied = np.any([score == score.max() for score in scores], axis=0)
    documents = UNLABELLED[tied]
    head = fit_head(features, LABELLED, labels[LABELLED] > 0)
    errors = approximate_errors(head, documents, decisions[documents] > 0, UNLABELLED)
    expected = query.sequential_select(list(LABELLED), list(UNLABELLED))
    assert documents[np.argmin(errors)] == expected
