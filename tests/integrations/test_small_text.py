"""The real small-text."""

import jax
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from crabjax.config import StrategyConfig
from crabjax.integrations import MembersNeededError, ask
from crabjax.integrations.small_text import ensemble_factory, query_strategy, register_small_text
from crabjax.strategies import Pool, base

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Label not .* is present in all training examples"),
]


@pytest.fixture
def small_text():
    return pytest.importorskip("small_text", reason="small-text is not installed")


@pytest.fixture
def learner_of(small_text, problem):
    inputs, labels = problem
    dataset = small_text.SklearnDataset(
        csr_matrix(inputs), csr_matrix(labels), target_labels=np.arange(3)
    )
    factory = small_text.SklearnClassifierFactory(LogisticRegression(), 3, {"multi_label": True})

    def make(strategy, members=3, **initial):
        ensemble = ensemble_factory(factory, members) if members else factory
        learner = small_text.PoolBasedActiveLearner(ensemble, strategy, dataset)
        learner.initialize_data(np.arange(20), csr_matrix(labels[:20]), **initial)
        return learner

    return make


@pytest.mark.parametrize("name", ["crab", "besra", "coreset", "mmc"])
def test_a_loop(learner_of, problem, name):
    inputs, labels = problem
    learner = learner_of(query_strategy(name, features=inputs), indices_ignored=np.arange(20, 60))
    for _ in range(2):
        rows = learner.query(num_samples=7)
        assert (rows >= 60).all()
        learner.update(csr_matrix(labels[rows]))
    assert len(np.unique(learner.indices_labeled)) == 34
    predicted = learner.classifier.predict(learner.dataset)
    assert (predicted.toarray() == labels).mean() > 0.8


def test_the_answer_is_that_of_ask(learner_of, problem):
    labels = problem[1]
    learner = learner_of(query_strategy("besra", seed=3))
    members = learner.classifier.member_probabilities(learner.dataset)
    assert members.shape == (3, 120, 3)
    assert members.std(axis=0).max() > 0.01
    expected = ask("besra", members, labels[:20], np.arange(20), 5, seed=3).indices
    np.testing.assert_array_equal(learner.query(num_samples=5), expected)


def test_members_from_a_function(learner_of):
    given = np.random.default_rng(0).random((4, 120, 3))
    learner = learner_of(query_strategy("bald", lambda dataset: given[:, : len(dataset)]), 0)
    assert len(learner.query(num_samples=5)) == 5


def test_a_single_classifier_and_an_empty_pool_are_named_errors(learner_of, small_text):
    with pytest.raises(MembersNeededError):
        learner_of(query_strategy("crab"), 0).query(num_samples=5)
    with pytest.raises(small_text.PoolExhaustedException):
        learner_of(query_strategy("crab")).query(num_samples=101)


@pytest.mark.parametrize(
    ("theirs", "options"),
    [
        ("CategoryVectorInconsistencyAndRanking", {"pbar": None}),
        ("LeastConfidence", {}),
        ("BALD", {}),
        ("RandomSampling", {}),
        ("EmbeddingKMeans", {}),
    ],
)
def test_theirs_in_ours(small_text, problem, monkeypatch, theirs, options):
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    inputs, labels = problem
    members = np.random.default_rng(0).random((3, 120, 3))
    strategy = register_small_text(
        "theirs", getattr(small_text, theirs)(**options), needs_features="Embedding" in theirs
    )
    pool = Pool.of(
        probabilities=members, labels=labels[:20], labelled=np.arange(20), features=inputs
    )
    rows = strategy(jax.random.key(0), pool, 6, StrategyConfig()).indices
    assert len(np.unique(rows)) == 6
    assert (rows >= 20).all()
    if theirs != "EmbeddingKMeans":  # its k-means starts at random
        again = strategy(jax.random.key(0), pool, 6, StrategyConfig()).indices
        np.testing.assert_array_equal(rows, again)
    if theirs == "LeastConfidence":
        order = np.argsort(members.mean(axis=0).max(axis=1)[20:])
        assert set(rows) == set(20 + order[:6])
