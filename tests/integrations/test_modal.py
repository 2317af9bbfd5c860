"""The real modAL."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from crabjax.integrations import ask
from crabjax.integrations.modal import query_strategy

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def models():
    return pytest.importorskip("modAL.models", reason="modAL is not installed")


def committee_of(models, inputs, labels, name, estimator):
    learners = [
        models.ActiveLearner(estimator(seed), X_training=inputs, y_training=labels)
        for seed in range(3)
    ]
    return models.Committee(learners, query_strategy=query_strategy(name))


def forest(seed):
    return RandomForestClassifier(5, random_state=seed)


@pytest.mark.parametrize("name", ["crab", "besra", "coreset", "random"])
@pytest.mark.parametrize("count", [2, 7])  # modAL unpacks an array of two in its own way
def test_a_committee(models, problem, name, count):
    inputs, labels = problem
    known, rest = np.arange(20), np.arange(20, 120)
    for _ in range(2):
        committee = committee_of(models, inputs[known], labels[known], name, forest)
        rows, chosen = committee.query(inputs[rest], n_instances=count)
        np.testing.assert_array_equal(chosen, inputs[rest[rows]])
        known, rest = np.append(known, rest[rows]), np.delete(rest, rows)
    assert len(np.unique(known)) == 20 + 2 * count


def test_scores_are_the_metrics_and_the_answer_is_that_of_ask(models, problem):
    inputs, labels = problem
    committee = committee_of(models, inputs[:20], labels[:20], "besra", forest)
    rows, _, scores = committee.query(inputs[20:], n_instances=5, return_metrics=True)
    forests = [learner.estimator for learner in committee.learner_list]
    members = [np.stack(one.predict_proba(inputs), axis=1)[:, :, 1] for one in forests]
    order = np.append(np.arange(20, 120), np.arange(20))
    members = np.stack(members)[:, order]
    expected = ask("besra", members, labels[:20], np.arange(100, 120), 5, features=inputs[order])
    np.testing.assert_array_equal(rows, expected.indices)
    np.testing.assert_array_equal(scores, expected.scores)


def test_sparse_inputs_of_a_single_learner_with_members_from_a_function(models, problem):
    inputs, labels = csr_matrix(problem[0]), problem[1]
    given = np.random.default_rng(0).random((4, 120, 3))
    learner = models.ActiveLearner(
        OneVsRestClassifier(LogisticRegression()),
        query_strategy=query_strategy("crab", lambda X: given[:, : X.shape[0]]),
        X_training=inputs[:20],
        y_training=labels[:20],
    )
    rows, _ = learner.query(inputs[20:], n_instances=5)
    assert len(np.unique(rows)) == 5
    assert (rows < 100).all()


def test_a_learner_without_training_data_is_named(models, problem):
    learner = models.ActiveLearner(forest(0), query_strategy=query_strategy("random"))
    with pytest.raises(ValueError, match="learner: expected one with training data"):
        learner.query(problem[0], n_instances=3)
