"""A run compiles each program once, whatever the round."""

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.ensemble import (
    fit_ensemble,
    member_keys,
    predict_features,
    predict_logits,
    predict_proba,
)
from crabjax.models import Model, build_model
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier

COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"
_compiled: list[str] = []


def _count(event: str, duration_secs: float, **kwargs) -> None:
    if event == COMPILE_EVENT:
        _compiled.append(event)


jax.monitoring.register_event_duration_secs_listener(_count)


TEXT_RNN, DISTILBERT = (
    pytest.param(one, marks=pytest.mark.slow) for one in ("text_rnn", "distilbert")
)


def small_model(name: str) -> Model:
    """A classifier of 16 word ids, or of 16 features, and 2 labels."""
    if name == "distilbert":
        return transformer_classifier(
            Architecture(name, 16, positions=16, width=4, inner=6, heads=2, layers=1), 2
        )
    config = ModelConfig(name=name, embedding=4, kernels=3, hidden=3, attention=2)  # type: ignore
    return build_model(config, 16, 2)


@pytest.mark.parametrize("name", ["text_cnn", TEXT_RNN, DISTILBERT, "frozen"])
def test_growing_training_sets_compile_once(name):
    generator = np.random.default_rng(0)
    tokens = generator.integers(1, 16, (40, 16)).astype(np.int32)
    inputs = tokens.astype(np.float32) if name == "frozen" else tokens
    labels = generator.random((40, 2)) < 0.5
    model = small_model(name)
    config = EnsembleConfig(epochs=2, batch_size=4)
    rows = np.tile(np.arange(24), (2, 1))
    valid = np.tile(np.arange(30, 40), (2, 1))
    compiled = []
    for round, count in enumerate((6, 15, 24)):
        before = len(_compiled)
        seeds = jax.vmap(jax.random.key)(jnp.arange(1) + round)
        keys = member_keys(seeds, 2, "same")
        params, _ = fit_ensemble(
            model, config, keys, inputs, labels, rows, np.full(2, count), valid
        )
        predict_proba(model, params, inputs[count:], 8)
        predict_features(model, jax.tree.map(lambda leaf: leaf[0], params), inputs[count:], 8)
        compiled.append(len(_compiled) - before)
    assert compiled[0] > 0
    assert compiled[1:] == [0, 0]


def test_little_is_compiled_before_the_training():
    model = build_model(ModelConfig(name="frozen", hidden=3), 7, 2)
    inputs, rows = np.ones((13, 7), np.float32), np.arange(9)[None]
    seeds = jax.random.key(0)[None]
    before = len(_compiled)
    keys = member_keys(seeds, 1, "same")
    fit_ensemble(model, EnsembleConfig(epochs=1), keys, inputs, inputs[:, :2] > 0, rows, [9], rows)
    assert len(_compiled) - before == 5  # keys, rows of a group, first parameters, start, training


def test_the_number_of_documents_on_the_device_does_not_matter():
    model = build_model(ModelConfig(name="frozen", hidden=3), 4, 2)
    params = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 2))
    documents = [jax.device_put(np.ones((count, 4), np.float32)) for count in (5, 6, 11)]
    predict_proba(model, params, documents[0], 4)
    before = len(_compiled)
    for inputs in documents[1:]:
        predict_proba(model, params, inputs, 4)
    assert len(_compiled) == before


@pytest.mark.parametrize("name", ["text_cnn", TEXT_RNN, "distilbert"])
def test_each_width_of_documents_compiles_once(name):
    model = small_model(name)._replace(streaming=False)  # as on an accelerator
    params = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 2))
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 17, 80)
    tokens = generator.integers(1, 16, (80, 16)) * (np.arange(16) < lengths[:, None])
    tokens = tokens.astype(np.int32)
    before = len(_compiled)
    found = predict_logits(model, params, tokens, 10)  # 8 batches of 4 widths
    assert 1 < len(_compiled) - before <= 4
    before = len(_compiled)
    again = predict_logits(model, params, tokens[::-1], 10)[:, ::-1]
    assert len(_compiled) == before
    plain = jax.vmap(model.apply, in_axes=(0, None))(params, jnp.asarray(tokens))
    np.testing.assert_allclose(found, plain, atol=1e-5)
    np.testing.assert_allclose(again, plain, atol=1e-5)
