"""The head on precomputed features."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.config import ModelConfig, from_dict
from crabjax.ensemble import fit_ensemble, member_keys
from crabjax.models import build_model

CONFIG = ModelConfig(name="frozen", hidden=40, dropout=0.5)


def test_equals_plain_forward():
    model = build_model(CONFIG, 4, 3)
    params = model.init(jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (5, 4))
    scaled = inputs / np.sqrt((np.asarray(inputs) ** 2).mean(axis=1, keepdims=True))
    hidden = scaled @ params["hidden"]["kernel"] + np.asarray(params["hidden"]["bias"])[None]
    vectors = np.maximum(hidden, 0)
    logits = vectors @ params["output"]["kernel"] + np.asarray(params["output"]["bias"])[None]
    np.testing.assert_allclose(model.features(params, inputs), scaled, atol=1e-6)
    np.testing.assert_allclose(model.apply(params, inputs), logits, atol=1e-6)


def test_dropout_needs_a_key():
    model = build_model(CONFIG, 4, 3)
    params = model.init(jax.random.key(0))
    inputs = jnp.ones((5, 4))
    assert not np.allclose(
        model.apply(params, inputs, jax.random.key(0)),
        model.apply(params, inputs, jax.random.key(3)),
    )


def test_length_of_the_features_does_not_matter():
    model = build_model(CONFIG, 4, 3)
    params = model.init(jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (5, 4))
    logits = model.apply(params, inputs)
    np.testing.assert_allclose(model.apply(params, 1e-3 * inputs), logits, rtol=1e-4, atol=1e-5)
    assert np.isfinite(model.apply(params, jnp.zeros((1, 4)))).all()


def test_a_share_of_the_input_is_hidden_in_training_alone():
    config = ModelConfig(name="frozen", hidden=400, dropout=0.0, input_dropout=0.5)
    model = build_model(config, 6, 3)
    params = model.init(jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (5, 6))
    plain = build_model(ModelConfig(name="frozen", hidden=400, dropout=0.0), 6, 3)
    np.testing.assert_array_equal(model.apply(params, inputs), plain.apply(params, inputs))
    # With one feature left of a document at most, hidden units see it doubled, or nothing.
    single = jnp.eye(6)[:5]
    hidden_out = plain.apply(params, jnp.zeros((5, 6)))
    trained = model.apply(params, single, jax.random.key(2))
    silent = np.isclose(trained, hidden_out, atol=1e-5).all(axis=1)
    assert 0 < silent.sum() < 5


def trained_weights(documents, **ensemble):
    """The mean size of a hidden weight after training on labels that no feature explains."""
    config = from_dict({"model": {"name": "frozen"}, "ensemble": {"members": 1, **ensemble}})
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(documents, 384)).astype(np.float32)
    params, _ = fit_ensemble(
        build_model(config.model, 384, 4),
        config.ensemble,
        member_keys(jax.random.key(0)[None], 1, "independent"),
        inputs,
        generator.random((documents, 4)) < 0.3,
        np.arange(documents)[None],
        np.array([documents]),
        np.zeros((1, 0), np.int32),
    )
    return float(np.abs(params["hidden"]["kernel"]).mean())


@pytest.mark.slow
def test_more_documents_do_not_make_larger_weights():
    """Large weights turn hidden features into noise: heads became worse with more labels."""
    few, many = trained_weights(60), trained_weights(900)
    assert many < 1.3 * few
    assert trained_weights(900, weight_decay=0.01) > 1.6 * many
