"""Training and prediction lower for accelerators from any machine."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.ensemble import _ensemble_logits
from crabjax.models import build_model
from crabjax.training import TrainingData, train

MODELS = {
    "text_cnn": ModelConfig(name="text_cnn", embedding=4, kernels=3),
    "text_rnn": ModelConfig(name="text_rnn", embedding=4, hidden=3, attention=2),
    "frozen": ModelConfig(name="frozen", hidden=3),
}


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("name", MODELS)
def test_fit_and_predict_lower(name, platform):
    model = build_model(MODELS[name], 16, 3)
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
    )
    fit = train.trace(model, EnsembleConfig(batch_size=4), params, data)
    predict = _ensemble_logits.trace(model, params, inputs)
    for traced in (fit, predict):
        assert traced.lower(lowering_platforms=(platform,)).as_text()
