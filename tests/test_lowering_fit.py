"""Training and prediction lower for accelerators from any machine."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.ensemble.optimizer import start_training
from crabjax.ensemble.step import Batch, Recipe, training_step, validation_counts
from crabjax.ensemble.train import TrainingData, trace_training
from crabjax.models import build_model
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier

ENCODER = Architecture("distilbert", 16, positions=16, width=4, inner=6, heads=2, layers=1)
MODELS = {
    "text_cnn": build_model(ModelConfig(name="text_cnn", embedding=4, kernels=3), 16, 3),
    "text_rnn": build_model(
        ModelConfig(name="text_rnn", embedding=4, hidden=3, attention=2), 16, 3
    ),
    "frozen": build_model(ModelConfig(name="frozen", hidden=3), 16, 3),
    "distilbert": transformer_classifier(ENCODER, 3),
}


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("name", MODELS)
def test_fit_and_predict_lower(name, platform):
    model = MODELS[name]
    keys: Any = jax.ShapeDtypeStruct((2,), jax.random.key(0).dtype)
    params = jax.eval_shape(jax.vmap(model.init), keys)
    shape: Any = jax.ShapeDtypeStruct
    inputs = shape((20, 16), jnp.float32 if name == "frozen" else jnp.int32)
    data = TrainingData(
        inputs,
        shape((20, 3), jnp.float32),
        keys,
        shape((2, 8), jnp.int32),
        shape((2,), jnp.int32),
        shape((2, 5), jnp.int32),
        shape((2, 12), jnp.int32) if model.table else None,
    )
    fit = trace_training(Recipe(model, EnsembleConfig(batch_size=4), 8), params, data)
    predict = jax.jit(jax.vmap(model.apply, in_axes=(0, None))).trace(params, inputs)
    for traced in (fit, predict):
        assert traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize(("name", "loops"), [("text_cnn", 0), ("text_rnn", 1)])
def test_accelerators_get_no_loop_over_members_or_documents(name, loops, platform):
    """The only loop of a forward pass, and of a backward pass, is TextRNN's over time."""
    model, recipe = MODELS[name], Recipe(MODELS[name], EnsembleConfig(batch_size=4), 8)
    shape: Any = jax.ShapeDtypeStruct
    keys = shape((3,), jax.random.key(0).dtype)
    params = jax.eval_shape(jax.vmap(model.init), keys)
    trained = jax.eval_shape(lambda params: start_training(recipe.config, params), params)
    inputs, labels = shape((3, 4, 16), jnp.int32), shape((3, 4, 3), jnp.float32)
    batch = Batch(inputs, labels, shape((3, 4), jnp.bool_), keys)
    counts, training = shape((3,), jnp.int32), shape((3,), jnp.bool_)
    step = jax.jit(training_step, static_argnums=0).trace(recipe, trained, batch, counts, training)
    validation = jax.jit(validation_counts, static_argnums=0).trace(
        model, params, inputs, labels, shape((4,), jnp.bool_)
    )
    for traced, passes in ((step, 2), (validation, 1)):
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        assert text.count("stablehlo.while") == passes * loops
