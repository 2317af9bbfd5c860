"""Training in one call, in calls of an epoch, and without the members that have stopped."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest

from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.ensemble import calls, fit, fit_ensemble, member_keys
from crabjax.ensemble.step import Recipe
from crabjax.ensemble.train import TrainingData, start, train
from crabjax.models import build_model

MEMBERS, DOCUMENTS, LABELS, WORDS = 9, 120, 3, 5000
CONFIG = EnsembleConfig(batch_size=8, epochs=40, patience=6, learning_rate=0.02)
MODELS = {
    "text_cnn": ModelConfig(name="text_cnn", embedding=4, kernels=3, widths=(1, 2)),
    "frozen": ModelConfig(name="frozen", hidden=4),
}


def arguments(name, compared=60) -> Any:
    """Labels that can be learnt in part, so that members stop at different epochs."""
    generator = np.random.default_rng(0)
    labels = generator.random((DOCUMENTS, LABELS)) < 0.4
    if name == "frozen":
        inputs = generator.normal(size=(DOCUMENTS, 6)).astype(np.float32)
        inputs[:, :LABELS] += 1.5 * labels
    else:
        inputs = generator.integers(10, WORDS, (DOCUMENTS, 6)).astype(np.int32)
        seen = labels ^ (generator.random(labels.shape) < 0.2)
        inputs[:, :LABELS] = np.where(seen, 2 + np.arange(LABELS), inputs[:, :LABELS])
    rows = np.stack([generator.permutation(60) for _ in range(MEMBERS)])
    validation = np.stack([60 + generator.permutation(60)[:compared] for _ in range(MEMBERS)])
    counts = np.full(MEMBERS, 40)
    keys = member_keys(jax.random.key(0)[None], MEMBERS, "independent")
    model = build_model(MODELS[name], WORDS if name == "text_cnn" else 6, LABELS)
    return model, CONFIG, keys, inputs, labels, rows, counts, validation


@pytest.fixture
def under_vmap(monkeypatch):
    """All members in one program, as an accelerator has them; the sizes of its calls."""
    sizes = []

    def train(recipe, fixed, training, *rest):
        sizes.append(len(training.going))
        return program(recipe, fixed, training, *rest)

    program = fit.train
    monkeypatch.setattr(fit, "train", train)
    monkeypatch.setattr(fit, "on_cores", lambda mesh: False)
    return sizes


@pytest.fixture
def said(monkeypatch):
    """What one hears of a training."""
    notes = []

    @contextmanager
    def counting(text, total):
        yield lambda more, note="": notes.append(note)

    monkeypatch.setattr(fit, "counting", counting)
    monkeypatch.setattr(fit, "heard", lambda: True)
    return notes


def assert_same(found, expected):
    (params, info), (known, other) = found, expected
    np.testing.assert_array_equal(info.epochs_run, other.epochs_run)
    np.testing.assert_array_equal(info.best_epoch, other.best_epoch)
    np.testing.assert_allclose(info.loss, other.loss, rtol=1e-4)
    np.testing.assert_allclose(info.validation_f1, other.validation_f1, rtol=1e-6)
    for one, two in zip(jax.tree.leaves(params), jax.tree.leaves(known), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "sizes"), [pytest.param("text_cnn", 2, marks=pytest.mark.slow), ("frozen", 3)]
)
def test_members_that_have_stopped_are_left_out(name, sizes, under_vmap, said, monkeypatch):
    packed = fit_ensemble(*arguments(name))
    ran, every = packed[1].epochs_run, CONFIG.epochs // calls.CALLS
    # Before each call: those that have not stopped, in the smallest size that takes them.
    going = [int(np.sum(ran > done)) for done in range(0, CONFIG.epochs, every)]
    expected = [min(size for size in (3, 5, 7, 9) if size >= one) for one in going if one]
    assert under_vmap == expected
    assert len(set(expected)) == sizes
    assert said[-2].startswith(f"epoch {max(ran)} of 40, 0 of 9 still training")
    assert said[-2].endswith(f"best validation F1 {np.nanmax(packed[1].validation_f1):.3f}")
    under_vmap.clear()
    monkeypatch.setattr(calls, "SHARES", (1.0,))
    assert_same(packed, fit_ensemble(*arguments(name)))
    assert set(under_vmap) == {MEMBERS}


def test_without_early_stopping_there_is_one_call(under_vmap):
    fit_ensemble(*arguments("frozen", compared=0))
    assert under_vmap == [MEMBERS]


def test_one_hears_of_epochs_and_nothing_changes(said, monkeypatch):
    monkeypatch.setattr(fit, "members_a_core", lambda *_: MEMBERS)
    monkeypatch.setattr(calls, "SECONDS", 0)  # an epoch a call
    heard = fit_ensemble(*arguments("frozen"))
    monkeypatch.setattr(fit, "heard", lambda: False)
    quiet = fit_ensemble(*arguments("frozen"))
    jax.tree.map(np.testing.assert_array_equal, heard, quiet)
    ran, f1 = heard[1].epochs_run, heard[1].validation_f1
    assert max(ran) < CONFIG.epochs  # all have stopped by themselves
    assert said[max(ran)] == ""  # of a group that is done there is no more to say
    for done, note in enumerate(said[: max(ran)], start=1):
        text = f"epoch {done} of {CONFIG.epochs}, {np.sum(ran > done)} of {MEMBERS} still training"
        assert note == f"{text}, best validation F1 {np.nanmax(f1[:, :done]):.3f}"


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 2), (8, 2)])
def test_light_members_keep_as_many_cores_busy_as_they_have_groups(cores, workers, monkeypatch):
    started = []

    class Threads(ThreadPoolExecutor):
        def __init__(self, number):
            started.append(number)
            super().__init__(number)

    monkeypatch.setattr(fit, "ThreadPoolExecutor", Threads)
    monkeypatch.setattr(fit, "usable_cores", lambda: cores)
    fit_ensemble(*arguments("frozen"))  # nine members, five to a core
    assert started == [workers]


def test_parameters_are_given_away():
    model, config, keys, inputs, labels, *rows = arguments("frozen")
    params = jax.vmap(model.init)(keys.init)
    documents: Any = inputs, labels.astype(np.float32), keys.train, *rows
    data = TrainingData(*documents)
    recipe = Recipe(model, config, 64)
    fixed, training = start(recipe, params, data)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(params))
    train(recipe, fixed, training, data, 0, 1)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(training))


def test_without_validation_one_hears_of_the_loss(monkeypatch):
    said = []
    monkeypatch.setattr(calls, "SECONDS", 0)
    bound = fit._fit_group
    monkeypatch.setattr(fit, "_fit_group", lambda *a, say: bound(*a, say=said.append))
    _, info = fit_ensemble(*arguments("frozen", compared=0))
    last = [note for note in said if note.startswith("epoch 40 of 40")]
    assert sum(f"{np.mean(info.loss[:5, -1]):.3f}" in note for note in last) == 1
