"""A run whose second members learn from what the first are sure of, on vectors of its own."""

import json

import jax
import numpy as np
import pytest
from scipy.special import expit

from crabjax.config import from_dict
from crabjax.config.build import merge
from crabjax.ensemble import predict_logits
from crabjax.ensemble.plan import plan_fit
from crabjax.experiments import loop, seen
from crabjax.experiments.layout import layout
from crabjax.experiments.problem import prepare
from crabjax.experiments.seen import guessed, of_seed, pools, predict_test
from crabjax.experiments.state import State, first_state
from crabjax.thresholds import ensemble_threshold

MEMBERS, DOCUMENTS, GUESSES = 2, 80, 12
SEEDS = (0, 1)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    for name, size in {"train": DOCUMENTS, "test": 30}.items():
        labels = generator.random((size, 3)) < 0.4
        vectors = generator.normal(size=(size, 5)) + labels @ generator.normal(size=(3, 5))
        np.save(f"{name}.npy", vectors.astype(np.float32))
        names = [[f"label{k}" for k in np.flatnonzero(own)] for own in labels]
        lines = [json.dumps({"text": f"{name} {n}", "labels": own}) for n, own in enumerate(names)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    return {
        "data": {
            **{name: f"{name}.jsonl" for name in ("train", "test")},
            **{"vectors": "train.npy", "test_vectors": "test.npy"},
        },
        "model": {"name": "frozen", "hidden": 4},
        "devices": {"cache": False, "predict_batch": 64},
        "ensemble": {"members": MEMBERS, "epochs": 20, "batch_size": 10, "guesses": GUESSES},
        "loop": {"initial_size": 10, "query_size": 5, "rounds": 2, "seeds": list(SEEDS)},
    }


def state_of(config):
    problem = prepare(config)
    return problem, first_state(problem)


def test_queries_are_those_of_members_without_guesses(tree, tmp_path):
    """And only the labels of documents that were queried are read."""
    with_them = loop.run(from_dict(tree), tmp_path / "with")
    plain = from_dict(merge(tree, {"ensemble": {"guesses": 0}}))
    without = loop.run(plain, tmp_path / "without")
    assert [one["selected"] for one in with_them] == [one["selected"] for one in without]
    for one, other in zip(with_them, without):
        spread = other["query"].get("score_spread", 0)
        assert one["query"].get("score_spread", 0) == pytest.approx(spread, rel=1e-3)
        assert len(one["members"]["micro_f1"]) == len(one["epochs_run"]) == 2 * MEMBERS
        own = one["members"]["mean_average_precision"][:MEMBERS]
        assert own == pytest.approx(other["members"]["mean_average_precision"], abs=1e-5)
        assert one["mean_average_precision"] != other["mean_average_precision"]


def test_first_members_are_those_without_guesses_and_the_second_have_learnt_from_them(tree):
    config = from_dict(tree)
    problem, state = state_of(config)
    both, info = loop.fit(config, problem, state)
    plain = from_dict(merge(tree, {"ensemble": {"guesses": 0}}))
    alone, _ = loop.fit(plain, problem, state)
    for seed in range(len(SEEDS)):
        own, expected = of_seed(config, both, seed), of_seed(plain, alone, seed)
        assert len(jax.tree.leaves(own)[0]) == 2 * MEMBERS
        for found, wanted in zip(jax.tree.leaves(own), jax.tree.leaves(expected)):
            np.testing.assert_allclose(found[:MEMBERS], wanted, atol=1e-5)
            assert np.abs(found[MEMBERS:] - wanted).max() > 1e-3
    assert len(info.best_epoch) == len(SEEDS) * 2 * MEMBERS
    # What is guessed is learnt: on those documents the second are surer than the first.
    guesses = guessed(config, problem, alone, state)
    assert guesses.documents.shape == (len(SEEDS), 10)  # no more than are labelled
    for seed, documents in enumerate(guesses.documents):
        logits = predict_logits(
            problem.model, of_seed(config, both, seed), problem.inputs[documents], 64
        )
        signs = np.where(guesses.labels[seed], 1, -1)
        first, second = (np.mean(half * signs) for half in np.split(logits, 2))
        assert second > first


def test_guesses_are_of_unlabelled_documents_and_no_label_of_theirs_is_read(tree):
    config = from_dict(tree)
    problem, state = state_of(config)
    held_out = np.array([[60, 61], [62, 63]])
    problem = problem._replace(held_out=held_out)
    params, _ = loop.fit(config, problem, state)
    first = jax.tree.map(lambda leaf: leaf.reshape(len(SEEDS), 4, *leaf.shape[1:])[:, :2], params)
    first = jax.tree.map(lambda leaf: leaf.reshape(4, *leaf.shape[2:]), first)
    guesses = guessed(config, problem, first, state)
    for seed, documents in enumerate(guesses.documents):
        assert len(set(documents)) == len(documents) == 10
        assert not set(documents) & {*state.labelled[seed], *held_out[seed]}
    hidden = problem.labels.copy()
    rest = np.setdiff1d(np.arange(DOCUMENTS), np.ravel(state.labelled))
    hidden[rest] = ~hidden[rest]
    again, _ = loop.fit(config, problem._replace(labels=hidden), state)
    for found, expected in zip(jax.tree.leaves(again), jax.tree.leaves(params)):
        np.testing.assert_array_equal(found, expected)


def test_all_members_decide(tree):
    config = from_dict(tree)
    problem, state = state_of(config)
    params, _ = loop.fit(config, problem, state)
    progress = loop.Progress("test", problem.rounds)
    with progress.round(0):
        after, info = loop.step(config, problem, state, progress)
    looked = pools(config, problem, params, state, loop.look(config, problem, state))
    logits = predict_test(config, problem, params)
    assert logits.shape[:2] == (len(SEEDS), 2 * MEMBERS)
    for seed, pool in enumerate(looked):
        threshold = ensemble_threshold(pool.logits, pool.unlabelled)
        assert info.thresholds[seed] == pytest.approx(threshold, abs=1e-6)
        predicted = expit(logits[seed]).mean(axis=0) > threshold
        truth = problem.test_labels
        f1 = 2 * (predicted & truth).sum() / (predicted.sum() + truth.sum())
        assert float(info.decided.micro_f1[seed]) == pytest.approx(f1, abs=1e-5)
        chosen = info.selections[seed].indices
        mean = pool.probabilities(chosen)
        assert after.picked[seed, 1].sum() == pytest.approx(mean.sum(), rel=1e-5)


def test_a_used_up_pool_leaves_nothing_to_guess(tree):
    config = from_dict(tree)
    problem, state = state_of(config)
    everything = np.tile(np.arange(DOCUMENTS), (len(SEEDS), 1))
    problem = problem._replace(capacity=DOCUMENTS)
    for labelled, count in ((everything, 0), (everything[:, 1:], 0), (everything[:, 3:], 1)):
        last = State(2, labelled, state.picked)
        params, _ = loop.fit(config, problem, last)
        for leaf in jax.tree.leaves(of_seed(config, params, 0)):
            assert len(leaf) == 2 * MEMBERS
            assert len(np.unique(leaf.reshape(2 * MEMBERS, -1), axis=0)) == 2 * MEMBERS  # own keys
        own = jax.tree.map(lambda leaf: leaf[: len(SEEDS) * MEMBERS], params)
        assert guessed(config, problem, own, last).documents.shape == (len(SEEDS), count)


def test_all_processes_take_the_guesses_of_the_first(tree, monkeypatch):
    config = from_dict(tree)
    problem, state = state_of(config)
    params, _ = loop.fit(from_dict(merge(tree, {"ensemble": {"guesses": 0}})), problem, state)
    own = guessed(config, problem, params, state)
    monkeypatch.setattr("crabjax.experiments.seen.array_of_first", lambda array: array[:, ::-1])
    for found, expected in zip(guessed(config, problem, params, state), own):
        np.testing.assert_array_equal(found, expected[:, ::-1])


def test_every_seed_guesses_by_its_own_members(tree, monkeypatch):
    config, given = from_dict(tree), []
    problem, state = state_of(config)
    params, _ = loop.fit(from_dict(merge(tree, {"ensemble": {"guesses": 0}})), problem, state)

    def noted(model, own, *rest):
        given.append(own)
        return guess_some(model, own, *rest)

    guess_some = seen.guess_some
    monkeypatch.setattr(seen, "guess_some", noted)
    guessed(config, problem, params, state)
    for seed, own in enumerate(given):
        expected = of_seed(config, params, seed)
        assert jax.tree.all(jax.tree.map(np.array_equal, own, expected))
    assert len(given) == len(SEEDS)


def test_a_draw_of_its_own_in_every_round(tree):
    config = from_dict(tree)
    problem, state = state_of(config)
    params, _ = loop.fit(from_dict(merge(tree, {"ensemble": {"guesses": 0}})), problem, state)
    drawn = [guessed(config, problem, params, state._replace(round=n)).documents for n in (0, 1)]
    assert set(drawn[0][0]) != set(drawn[1][0])


def test_the_layout_knows_the_shapes_of_a_fit_with_guesses(tree, monkeypatch):
    config = from_dict(tree)
    problem, state = state_of(config)
    planned, given = [], []
    monkeypatch.setattr(
        "crabjax.experiments.layout.plan_fit",
        lambda recipe, devices, most, shapes, device: (
            planned.append((shapes.inputs.shape, shapes.labels.shape, shapes.rows[0].shape))
            or plan_fit(recipe, devices, most, shapes, device)
        ),
    )
    layout(config)
    real = loop.fit_ensemble

    def caught(model, settings, keys, inputs, labels, rows, *rest, **devices):
        given.append((inputs.shape, labels.shape, rows.shape))
        return real(model, settings, keys, inputs, labels, rows, *rest, **devices)

    monkeypatch.setattr(loop, "fit_ensemble", caught)
    loop.fit(config, problem, state)
    assert given == planned * 2
