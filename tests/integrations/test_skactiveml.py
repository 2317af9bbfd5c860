"""The real scikit-activeml."""

import warnings
from typing import Any

import jax
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from crabjax.config import StrategyConfig
from crabjax.integrations.skactiveml import query_strategy, register_skactiveml
from crabjax.strategies import Pool, base

pytestmark = pytest.mark.slow


@pytest.fixture
def skactiveml():
    pytest.importorskip("skactiveml.pool", reason="scikit-activeml is not installed")
    import skactiveml

    return skactiveml


@pytest.fixture
def y(problem):
    labels = np.full(problem[1].shape, np.nan)
    labels[:20] = problem[1][:20]
    return labels


def forests():
    return [RandomForestClassifier(5, random_state=seed) for seed in range(3)]


@pytest.mark.parametrize("name", ["crab", "besra", "coreset", "cmal"])
def test_a_loop(skactiveml, problem, y, name):
    strategy = query_strategy(name, random_state=0)
    assert isinstance(strategy, skactiveml.base.PoolQueryStrategy)
    for labelled in (20, 27):
        rows, utilities = strategy.query(
            problem[0], y, forests(), batch_size=7, return_utilities=True
        )
        assert np.isnan(y[rows]).all()
        assert utilities.shape == (7, 120)
        np.testing.assert_array_equal(np.nanargmax(utilities, axis=1), rows)
        # what is labelled, or taken at an earlier step, has no utility
        np.testing.assert_array_equal(np.isnan(utilities).sum(axis=1), labelled + np.arange(7))
        y[rows] = problem[1][rows]


def test_the_random_state_decides_and_clones_are_equal(skactiveml, problem, y):
    strategy = query_strategy("random", random_state=1)
    rows = strategy.query(problem[0], y, forests(), batch_size=7)
    copied: Any = clone(strategy)
    np.testing.assert_array_equal(rows, copied.query(problem[0], y, forests(), batch_size=7))
    other = query_strategy("random", random_state=2)
    assert set(rows) != set(other.query(problem[0], y, forests(), batch_size=7))


def test_candidates_sparse_inputs_and_fitted_members(skactiveml, problem, y):
    inputs, labels = problem
    parts = np.arange(12), np.arange(8, 20)
    members = [
        OneVsRestClassifier(LogisticRegression()).fit(inputs[rows], labels[rows]) for rows in parts
    ]
    candidates = np.arange(30, 40)
    strategy = query_strategy("crab", random_state=0)
    ask = {"fit_ensemble": False, "candidates": candidates}
    rows = strategy.query(csr_matrix(inputs), y, members, batch_size=4, **ask)
    assert np.isin(rows, candidates).all()
    with pytest.warns(UserWarning, match="batch_size: 11 of 10"):
        rows = strategy.query(inputs, y, members, batch_size=11, **ask)
    assert sorted(rows) == list(candidates)


def test_members_from_a_function_and_labels_in_part(skactiveml, problem, y):
    y[0, 1] = np.nan  # labelled in part is not labelled
    given = np.random.default_rng(0).random((4, 120, 3))
    rows = query_strategy("bald").query(problem[0], y, lambda X: given, batch_size=101)
    assert 0 in rows


def test_what_does_not_fit_is_named(skactiveml, problem, y):
    with pytest.raises(ValueError, match=r"y: expected shape \[N, K\]"):
        query_strategy("crab").query(problem[0], y[:, 0], forests())
    with pytest.raises(ValueError, match="candidates: expected row numbers"):
        query_strategy("crab").query(problem[0], y, forests(), candidates=problem[0][:3])


@pytest.mark.parametrize("theirs", ["CoreSet", "TypiClust", "RandomSampling"])
def test_theirs_in_ours(skactiveml, problem, monkeypatch, theirs):
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    inputs, labels = problem
    strategy = register_skactiveml("theirs", getattr(skactiveml.pool, theirs)())
    members = np.random.default_rng(0).random((3, 120, 3))
    given = {"labels": labels[:20], "labelled": np.arange(20), "features": inputs}
    pool = Pool.of(probabilities=members, **given)
    rows = strategy(jax.random.key(0), pool, 6, StrategyConfig()).indices
    assert len(np.unique(rows)) == 6
    assert (rows >= 20).all()
    again = strategy(jax.random.key(0), pool, 6, StrategyConfig()).indices
    np.testing.assert_array_equal(rows, again)


@pytest.mark.parametrize("theirs", ["CoreSet", "TypiClust"])
def test_theirs_read_no_rows_but_the_labelled_and_those_to_choose_from(
    skactiveml, monkeypatch, theirs
):
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    random = np.random.default_rng(0)
    vectors = (random.normal(size=(12, 8))[random.integers(12, size=400)] * 2).astype(np.float32)
    vectors += random.normal(size=vectors.shape).astype(np.float32)
    strategy = register_skactiveml("theirs", getattr(skactiveml.pool, theirs)())
    given = {"labels": np.zeros((60, 2)), "labelled": np.arange(60)}
    alone = Pool.of(probabilities=np.full((2, 250, 2), 0.5), features=vectors[:250], **given)
    expected = strategy(jax.random.key(1), alone, 50, StrategyConfig()).indices
    vectors[250:] = 0  # held out
    among = Pool.of(
        probabilities=np.full((2, 400, 2), 0.5),
        unlabelled=np.arange(60, 250),
        features=vectors,
        **given,
    )
    found = strategy(jax.random.key(1), among, 50, StrategyConfig()).indices
    np.testing.assert_array_equal(found, expected)


def test_equal_vectors_give_a_full_query(skactiveml, monkeypatch):
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    strategy = register_skactiveml("theirs", skactiveml.pool.TypiClust())
    vectors = np.repeat(np.eye(4, dtype=np.float32), 20, axis=0)  # fewer clusters than the query
    given = {"labels": np.zeros((2, 2)), "labelled": np.arange(2), "features": vectors}
    pool = Pool.of(probabilities=np.full((2, 80, 2), 0.5), **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, of the equal vectors
        rows = strategy(jax.random.key(0), pool, 30, StrategyConfig()).indices
    assert {0, 1, 2, 3} == set(rows // 20)
