"""Measures against scikit-learn's."""

import numpy as np
import pytest
from sklearn import metrics as oracle

from crabjax.metrics import evaluate


@pytest.fixture(scope="module")
def predictions():
    rng = np.random.default_rng(0)
    probs = rng.random((3, 60, 5)).astype(np.float32).round(1)  # many ties
    labels = rng.random((60, 5)) < [0.5, 0.2, 0.1, 0.02, 0.0]
    probs[1] = 0.1  # predicts nothing
    probs[2] = np.where(labels, 0.9, 0.1)
    return probs, labels


def test_agrees_with_scikit_learn(predictions):
    probs, labels = predictions
    scores = evaluate(probs, labels)
    for model, one in enumerate(probs):
        said = one > 0.5
        common = {"y_true": labels, "y_pred": said, "zero_division": 0}
        expected = {
            "micro_f1": oracle.f1_score(average="micro", **common),
            "macro_f1": oracle.f1_score(average="macro", **common),
            "precision": oracle.precision_score(average="micro", **common),
            "recall": oracle.recall_score(average="micro", **common),
            "mean_average_precision": np.mean(
                [
                    oracle.average_precision_score(labels[:, k], one[:, k])
                    for k in range(5)
                    if labels[:, k].any()
                ]
            ),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(scores, name)[model], value, atol=1e-6)


def test_a_perfect_model_scores_one(predictions):
    probs, labels = predictions
    scores = evaluate(probs[2:], labels)
    assert scores.micro_f1[0] == 1.0
    assert scores.mean_average_precision[0] == 1.0


def test_shapes_are_checked(predictions):
    probs, labels = predictions
    with pytest.raises(ValueError, match=r"labels: expected K = 5 as in probs, found 4"):
        evaluate(probs, labels[:, :4])
    with pytest.raises(ValueError, match=r"probs: expected shape \[M, X, K\]"):
        evaluate(probs[0], labels)
