"""Training and prediction of ensembles against a plain loop over epochs, batches and members."""

import dataclasses
from contextlib import contextmanager
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from crabjax.config import DevicesConfig, EnsembleConfig, ModelConfig
from crabjax.ensemble import (
    EnsembleError,
    MemberKeys,
    fit,
    fit_ensemble,
    member_keys,
    predict,
    predict_features,
    predict_logits,
    predict_proba,
    word_rows,
)
from crabjax.ensemble.optimizer import learning_rate
from crabjax.models import Model, build_model
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier

SLOW = pytest.mark.slow

MEMBERS, DOCUMENTS, TOKENS, LABELS = 3, 90, 6, 2
VOCABULARY = 1064  # most words occur in no training document
CNN = ModelConfig(name="text_cnn", embedding=4, kernels=3, widths=(1, 2), dropout=0.2)
CONFIG = EnsembleConfig(batch_size=16, epochs=20, patience=6, learning_rate=0.1, weight_decay=0.1)
DEVICES = DevicesConfig(predict_batch=8)  # several chunks of validation documents


class Setting(NamedTuple):
    model: Model
    keys: MemberKeys
    inputs: np.ndarray
    labels: np.ndarray
    train_rows: np.ndarray
    train_counts: np.ndarray
    validation_rows: np.ndarray

    def fit(self, config=CONFIG, devices=DEVICES):
        return fit_ensemble(self.model, config, *self[1:], devices)


def make_setting(model_config=CNN) -> Setting:
    """Documents labelled by marker words; the members' training sets differ in size."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(10, VOCABULARY, (DOCUMENTS, TOKENS)).astype(np.int32)
    labels = generator.random((DOCUMENTS, LABELS)) < 0.5
    for label in range(LABELS):
        tokens[labels[:, label], label] = 2 + label
    lengths = generator.integers(LABELS, TOKENS + 1, DOCUMENTS)
    tokens[np.arange(TOKENS)[None, :] >= lengths[:, None]] = 0
    model = build_model(model_config, VOCABULARY, LABELS)
    keys = member_keys(jax.vmap(jax.random.key)(jnp.arange(1)), MEMBERS, "independent")
    train_rows = np.stack([generator.permutation(60)[:48] for _ in range(MEMBERS)])
    validation_rows = np.stack([60 + generator.permutation(30)[:20] for _ in range(MEMBERS)])
    counts = np.array([40, 33, 20])  # of 16: a last batch of one document as well
    return Setting(model, keys, tokens, labels, train_rows, counts, validation_rows)


@pytest.fixture(scope="module", autouse=True)
def small_word_tables():
    """Tables in training have 256 rows, not all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_rows, "SMALLEST", 16)
        yield


@pytest.fixture(scope="module")
def setting():
    return make_setting()


@pytest.fixture(scope="module")
def fitted(setting):
    return setting.fit()


def micro_f1(logits, truth):
    predicted = np.asarray(logits) > 0
    hits = np.sum(predicted & truth)
    return 2 * hits / max(np.sum(predicted) + np.sum(truth), 1)


def shuffled(key, rows):
    """Live rows in the order of one random number each."""
    shuffle_key = jax.random.fold_in(key, 2**31 - 1)
    numbers = [int(jax.random.bits(jax.random.fold_in(shuffle_key, i))) for i in range(len(rows))]
    return rows[np.argsort(numbers)]


def plain_fit(setting: Setting, config: EnsembleConfig, member: int, rate=None):
    """One member, epoch by epoch and batch by batch, with optax on whole parameters."""
    model = setting.model
    optimizer = optax.adamw(rate or config.learning_rate, weight_decay=config.weight_decay)

    @jax.jit
    def step(params, state, inputs, labels, weights, key):
        def loss(params):
            logits = model.apply(params, inputs, key)
            rows = jnp.mean(optax.sigmoid_binary_cross_entropy(logits, labels), axis=1)
            return jnp.sum(rows * weights) / jnp.sum(weights)

        value, gradients = jax.value_and_grad(loss)(params)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    apply = jax.jit(model.apply)
    params = model.init(setting.keys.init[member])
    state = optimizer.init(params)
    rows = setting.train_rows[member, : setting.train_counts[member]]
    valid = setting.validation_rows[member]
    best, best_f1, best_epoch, losses, scores = params, -1.0, -1, [], []
    for epoch in range(config.epochs):
        key = jax.random.fold_in(setting.keys.train[member], epoch)
        order, total = shuffled(key, rows), 0.0
        for batch, start in enumerate(range(0, len(order), config.batch_size)):
            chosen = order[start : start + config.batch_size]
            filled = np.resize(chosen, config.batch_size)
            params, state, value = step(
                params,
                state,
                setting.inputs[filled],
                setting.labels[filled].astype(np.float32),
                (np.arange(config.batch_size) < len(chosen)).astype(np.float32),
                jax.random.fold_in(key, batch),
            )
            total += float(value) * len(chosen)
        losses.append(total / len(order))
        f1 = 0.0
        if len(valid):
            f1 = micro_f1(apply(params, setting.inputs[valid]), setting.labels[valid])
        scores.append(f1)
        if scores[-1] > best_f1 or len(valid) == 0:
            best, best_f1, best_epoch = params, scores[-1], epoch
        if epoch - best_epoch >= config.patience:
            break
    return best, best_epoch, losses, scores


def assert_same_params(found, expected, tolerance=2e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance), found, expected)


def of_member(params, member: int):
    return jax.tree.map(lambda leaf: leaf[member], params)


@pytest.mark.parametrize("member", range(MEMBERS))
def test_equals_a_plain_loop(setting, fitted, member):
    params, info = fitted
    best, best_epoch, losses, scores = plain_fit(setting, CONFIG, member)
    assert info.best_epoch[member] == best_epoch
    assert info.epochs_run[member] == len(scores)
    np.testing.assert_allclose(info.loss[member, : len(losses)], losses, rtol=1e-4)
    np.testing.assert_allclose(info.validation_f1[member, : len(scores)], scores, rtol=1e-6)
    assert np.isnan(info.loss[member, len(scores) :]).all()
    assert np.isnan(info.validation_f1[member, len(scores) :]).all()
    assert_same_params(of_member(params, member), best)


def test_without_validation_documents_the_last_epoch_is_kept(setting):
    config = dataclasses.replace(CONFIG, epochs=4, patience=1)
    setting = setting._replace(validation_rows=np.zeros((MEMBERS, 0), int))
    params, info = setting.fit(config)
    assert info.best_epoch.tolist() == [3] * MEMBERS
    assert info.epochs_run.tolist() == [4] * MEMBERS
    last, epoch, losses, _ = plain_fit(setting, config, 1)
    assert epoch == 3
    np.testing.assert_allclose(info.loss[1], losses, rtol=1e-4)
    assert_same_params(of_member(params, 1), last)


def test_members_stop_on_their_own(fitted):
    _, info = fitted
    assert len(set(info.epochs_run)) > 1
    assert info.epochs_run.min() < CONFIG.epochs
    assert (info.failed_epoch == -1).all()


@pytest.mark.parametrize(
    "name", ["frozen", *(pytest.param(one, marks=SLOW) for one in ("text_rnn", "distilbert"))]
)
def test_other_models_equal_a_plain_loop(name):
    setting = make_setting(ModelConfig(name="text_rnn", embedding=4, hidden=3, attention=2))
    if name == "frozen":
        inputs = np.random.default_rng(1).normal(size=(DOCUMENTS, 4)).astype(np.float32)
        model = build_model(ModelConfig(name="frozen", hidden=3), 4, LABELS)
        setting = setting._replace(inputs=inputs, model=model)
    if name == "distilbert":
        encoder = Architecture(name, VOCABULARY, TOKENS, width=4, inner=6, heads=2, layers=1)
        setting = setting._replace(model=transformer_classifier(encoder, LABELS))
    config = dataclasses.replace(CONFIG, epochs=3)
    params, info = setting.fit(config)
    best, best_epoch, losses, _ = plain_fit(setting, config, 2)
    assert info.best_epoch[2] == best_epoch
    np.testing.assert_allclose(info.loss[2], losses, rtol=1e-4)
    assert_same_params(of_member(params, 2), best)


def test_warmup_schedule_equals_a_plain_loop(setting):
    config = dataclasses.replace(CONFIG, epochs=4, schedule="warmup_linear", warmup_fraction=0.25)
    steps = 4 * 3  # epochs x batches of 40 documents
    rate = optax.join_schedules(
        [optax.linear_schedule(0, 0.1, 3), optax.linear_schedule(0.1, 0, steps - 3)], [3]
    )
    params, info = setting.fit(config)
    best, _, losses, _ = plain_fit(setting, config, 0, rate)
    np.testing.assert_allclose(info.loss[0], losses, rtol=1e-4)
    assert_same_params(of_member(params, 0), best)


def test_without_warmup_the_first_step_counts():
    config = EnsembleConfig(learning_rate=0.1, schedule="warmup_linear", warmup_fraction=0.0)
    rates = [float(learning_rate(config, jnp.int32(step), jnp.int32(4))) for step in range(5)]
    np.testing.assert_allclose(rates, [0.1, 0.075, 0.05, 0.025, 0.0], rtol=1e-6)


def test_other_members_do_not_matter(setting, fitted):
    two = [1, 2]
    keys = MemberKeys(setting.keys.init[np.array(two)], setting.keys.train[np.array(two)])
    rows = {name: getattr(setting, name)[two] for name in setting._fields[4:]}
    params, info = setting._replace(keys=keys, **rows).fit()
    for place, member in enumerate(two):
        assert_same_params(of_member(params, place), of_member(fitted[0], member))
        np.testing.assert_allclose(info.loss[place], fitted[1].loss[member], rtol=1e-5)


def test_capacity_does_not_matter(setting, fitted):
    wider = np.pad(setting.train_rows, ((0, 0), (0, 16)))
    params, info = setting._replace(train_rows=wider).fit()
    assert_same_params(params, fitted[0], tolerance=1e-6)
    np.testing.assert_allclose(info.loss, fitted[1].loss, rtol=1e-6)


@pytest.mark.parametrize("members_at_once", [2, 100])
def test_members_under_vmap_are_what_they_are_alone(setting, fitted, members_at_once, monkeypatch):
    monkeypatch.setattr(fit, "on_cores", lambda mesh: False)
    params, info = setting.fit(
        devices=dataclasses.replace(DEVICES, members_at_once=members_at_once)
    )
    assert_same_params(params, fitted[0])
    np.testing.assert_array_equal(info.best_epoch, fitted[1].best_epoch)
    np.testing.assert_array_equal(info.epochs_run, fitted[1].epochs_run)
    np.testing.assert_allclose(info.loss, fitted[1].loss, rtol=1e-4)  # NaN after the last epoch
    np.testing.assert_allclose(info.validation_f1, fitted[1].validation_f1, rtol=1e-6)


def test_a_learnable_set_is_learnt(setting, fitted):
    params, info = fitted
    assert np.nanmax(info.validation_f1, axis=1)[:2].min() > 0.85
    probabilities = predict_proba(setting.model, params, setting.inputs[60:], 8)
    truth = setting.labels[60:]
    assert np.mean((probabilities.mean(axis=0) > 0.5) == truth) > 0.85


def test_prediction_in_batches_equals_one_call(setting, fitted):
    model, params = setting.model, fitted[0]
    expected = jax.jit(jax.vmap(model.apply, in_axes=(0, None)))(params, setting.inputs[:20])
    for inputs in (setting.inputs[:20], jnp.asarray(setting.inputs[:20])):
        logits = predict_logits(model, params, inputs, 8)
        assert isinstance(logits, np.ndarray)
        assert logits.dtype == np.float32
        np.testing.assert_allclose(logits, expected, atol=1e-5)
    probabilities = predict_proba(model, params, setting.inputs[:20], 8)
    np.testing.assert_allclose(probabilities, jax.nn.sigmoid(expected), atol=1e-6)
    own = of_member(params, 1)
    np.testing.assert_allclose(
        predict_features(model, own, setting.inputs[:20], 8),
        jax.jit(model.features)(own, setting.inputs[:20]),
        atol=1e-6,
    )


def test_members_that_fill_a_tpu_are_predicted_one_after_another(setting, fitted, monkeypatch):
    model, params = setting.model, fitted[0]
    expected = predict_logits(model, params, setting.inputs[:20], 8)
    monkeypatch.setattr(predict, "predicted_at_once", lambda *arguments: 1)
    found = predict_logits(model, params, setting.inputs[:20], 8)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_prediction_never_returns_nan(setting, fitted):
    params = {**fitted[0], "bias": fitted[0]["bias"].at[1].set(jnp.nan)}
    with pytest.raises(EnsembleError, match="member 1: the logits of document 0"):
        predict_proba(setting.model, params, setting.inputs[:8], 8)
    with pytest.raises(EnsembleError, match="the features of document 0 are not finite"):
        predict_features(setting.model, of_member(params, 1), setting.inputs[:8], 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.zeros((5, 2), bool)}, "labels: expected N = 90 as in inputs, found 5"),
        ({"train_counts": np.array([1, 2])}, "train_counts: expected M = 3 .* found 2"),
        ({"train_counts": np.array([0, 2, 2])}, "train_counts: expected 1 to 48"),
        ({"validation_rows": np.full((3, 2), 90)}, "validation_rows: expected rows 0 to 89"),
        ({"train_rows": np.full((3, 48), -1)}, "train_rows: expected rows 0 to 89"),
        ({"train_rows": np.zeros(3, int)}, r"train_rows: expected shape \[M, C\]"),
    ],
)
def test_arguments_are_checked(setting, changes, message):
    with pytest.raises(ValueError, match=message):
        setting._replace(**changes).fit()


def test_word_ids_beyond_the_table_are_named():
    setting = make_setting()
    tokens = setting.inputs.copy()
    tokens[3, 0] = VOCABULARY
    with pytest.raises(ValueError, match=rf"inputs: expected word ids below {VOCABULARY}, found"):
        setting._replace(inputs=tokens).fit()


@pytest.mark.parametrize(("a_core", "steps"), [(1, [1, 1, 1]), (2, [2, 1]), (5, [3])])
def test_members_that_are_trained_are_counted(setting, fitted, a_core, steps, monkeypatch):
    counted = []

    @contextmanager
    def counting(text, total):
        counted.append((text, total))
        yield counted.append

    monkeypatch.setattr(fit, "counting", counting)
    monkeypatch.setattr(fit, "members_a_core", lambda *_: a_core)
    params, _ = setting.fit()
    assert counted == [("training members", MEMBERS), *steps]
    assert_same_params(params, fitted[0])
