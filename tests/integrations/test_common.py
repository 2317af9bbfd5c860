"""Asking a strategy by name, and what is said where something is missing."""

import subprocess
import sys

import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.integrations import (
    FeaturesNeededError,
    MembersNeededError,
    MissingExtraError,
    ask,
    baal,
    modal,
    skactiveml,
    small_text,
)
from crabjax.integrations.common import dense_features, members_of
from crabjax.strategies import PoolError, Selection, base, register, strategy_names

RANDOM = np.random.default_rng(0)
MEMBERS = RANDOM.random((3, 40, 4)).astype(np.float32)
LABELS = RANDOM.random((10, 4)) < 0.4
LABELLED = RANDOM.permutation(40)[:10]
FEATURES = RANDOM.normal(size=(40, 5))
NEED_FEATURES = ("adaptive", "audi", "coreset")


@pytest.mark.parametrize("name", strategy_names())
def test_every_strategy_answers(name):
    asked = lambda: ask(name, MEMBERS, LABELS, LABELLED, 5, features=FEATURES)
    rows = asked().indices
    assert len(np.unique(rows)) == 5
    assert not np.isin(rows, LABELLED).any()
    np.testing.assert_array_equal(rows, asked().indices)


@pytest.mark.parametrize("name", [one for one in strategy_names() if one not in NEED_FEATURES])
def test_most_answer_without_features_from_the_rows_they_may(name):
    allowed = np.setdiff1d(np.arange(40), LABELLED)[:8]
    rows = ask(name, MEMBERS, LABELS, LABELLED, 5, unlabelled=allowed).indices
    assert np.isin(rows, allowed).all()


def test_draws_depend_on_the_seed():
    first, other = (ask("random", MEMBERS, LABELS, LABELLED, 9, seed=s).indices for s in (0, 1))
    assert set(first) != set(other)


@pytest.mark.parametrize("name", NEED_FEATURES)
def test_features_that_are_missing_are_named(name):
    with pytest.raises(FeaturesNeededError, match=rf"{name}: expected features of shape \[N, D\]"):
        ask(name, MEMBERS, LABELS, LABELLED, 5)


def test_settings_that_ask_for_features_are_not_changed():
    with pytest.raises(FeaturesNeededError, match=r"crab: .* or strategy\.cluster: gains"):
        ask("crab", MEMBERS, LABELS, LABELLED, 5, config=StrategyConfig())


def test_one_member_cannot_disagree():
    with pytest.raises(MembersNeededError, match="besra: expected at least 2 members, found 1"):
        ask("besra", MEMBERS[0], LABELS, LABELLED, 5)
    assert len(ask("entropy", MEMBERS[0], LABELS, LABELLED, 5).indices) == 5


def test_one_member_cannot_disagree_for_a_strategy_of_ones_own(monkeypatch):
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    take = lambda key, pool, n, config: Selection(pool.unlabelled[:n], {})
    register("mine", needs_disagreement=True)(take)
    with pytest.raises(MembersNeededError, match="mine: expected at least 2 members, found 1"):
        ask("mine", MEMBERS[0], LABELS, LABELLED, 5)


def test_what_makes_no_pool_is_named():
    with pytest.raises(PoolError, match="labels: expected"):
        ask("random", MEMBERS, LABELS[:3], LABELLED, 5)


class Pairs:
    """A classifier of the other form; label 1 was never present, label 2 always."""

    classes_ = (np.array([0, 1]), np.array([0]), np.array([1]))

    def predict_proba(self, inputs):
        rows = len(inputs)
        return [np.tile([0.3, 0.7], (rows, 1)), np.ones((rows, 1)), np.ones((rows, 1))]


class Columns:
    def predict_proba(self, inputs):
        return np.full((len(inputs), 3), 0.5)


def test_both_forms_of_predictions_are_read():
    found = members_of([Pairs(), Columns()], np.zeros((2, 1)))
    np.testing.assert_array_equal(found, [[[0.7, 0, 1]] * 2, [[0.5] * 3] * 2])


def test_only_a_dense_matrix_of_numbers_is_document_vectors():
    assert dense_features(FEATURES) is FEATURES
    assert dense_features(["a text"]) is None
    assert dense_features(np.array([["a text"]])) is None


@pytest.mark.parametrize(
    ("call", "package", "extra"),
    [
        (small_text.query_strategy, "small_text", "small-text"),
        (lambda: small_text.ensemble_factory(None), "small_text", "small-text"),
        (lambda: small_text.register_small_text("theirs", None), "small_text", "small-text"),
        (skactiveml.query_strategy, "skactiveml", "skactiveml"),
        (lambda: skactiveml.register_skactiveml("theirs", None), "skactiveml", "skactiveml"),
        (modal.query_strategy, "modAL", "modal"),
        (baal.heuristic, "baal", "baal"),
    ],
)
def test_a_package_that_is_missing_is_one_line_that_names_the_extra(
    call, package, extra, monkeypatch
):
    for name in [one for one in sys.modules if one.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as error:
        call()
    assert f"pip install 'crabjax[{extra}]'" in str(error.value)
    assert "\n" not in str(error.value)
    assert "theirs" not in strategy_names()


def test_importing_the_integrations_imports_none_of_the_packages():
    code = (
        "import sys, crabjax.integrations.small_text, crabjax.integrations.skactiveml\n"
        "import crabjax.integrations.modal, crabjax.integrations.baal\n"
        "print([m for m in ('small_text', 'skactiveml', 'modAL', 'baal', 'torch')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
