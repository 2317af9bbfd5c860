"""Label names as a prior on a head's logits."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.ensemble import fit_ensemble, member_keys, predict_logits
from crabjax.models import build_model, with_name_prior

HEAD = build_model(ModelConfig(name="frozen", hidden=6, dropout=0.5), 5, 3)
NAMED = with_name_prior(HEAD, 5)
VECTORS = jax.random.normal(jax.random.key(1), (7, 5))
SIMILARITIES = jax.random.normal(jax.random.key(2), (7, 3))
BOTH = jnp.concatenate([VECTORS, SIMILARITIES], axis=1)


@pytest.mark.parametrize("key", [None, jax.random.key(4)])
@pytest.mark.parametrize("moved", [0.0, -0.8])
def test_logits_are_the_heads_plus_weighted_similarities(key, moved):
    params = HEAD.init(jax.random.key(0))
    own = NAMED.init(jax.random.key(0))
    assert own.keys() - params.keys() == {"name_weight"}
    own["name_weight"] += moved
    expected = HEAD.apply(params, VECTORS, key) + (0.5 + moved) * SIMILARITIES
    np.testing.assert_allclose(NAMED.apply(own, BOTH, key), expected, rtol=1e-6, atol=1e-6)


def test_document_vectors_know_no_similarity():
    params = NAMED.init(jax.random.key(0))
    expected = HEAD.features(HEAD.init(jax.random.key(0)), VECTORS)
    np.testing.assert_array_equal(NAMED.features(params, BOTH), expected)


def test_the_weight_has_the_gradient_of_the_loss():
    labels = jnp.arange(21).reshape(7, 3) % 2 == 0

    def loss(params):
        return optax.sigmoid_binary_cross_entropy(
            NAMED.apply(params, BOTH), labels.astype(jnp.float32)
        ).mean()

    params = NAMED.init(jax.random.key(0))
    errors = jax.nn.sigmoid(NAMED.apply(params, BOTH)) - labels.astype(jnp.float32)
    gradient = jax.grad(loss)(params)["name_weight"]
    np.testing.assert_allclose(gradient, (errors * SIMILARITIES).mean(), rtol=1e-5)
    assert abs(gradient) > 1e-3


def test_equal_heads_give_the_same_object():
    assert with_name_prior(HEAD, 5) is NAMED


def fitted(similarities, labels, decay=0.0):
    inputs = np.concatenate([np.zeros((60, 5), np.float32), similarities], axis=1)
    config = EnsembleConfig(
        members=2, epochs=60, batch_size=20, learning_rate=0.02, weight_decay=decay
    )
    keys = member_keys(jax.random.key(0)[None], 2, "independent")
    rows = np.tile(np.arange(60, dtype=np.int32), (2, 1))
    none = np.zeros((2, 0), np.int32)
    params, _ = fit_ensemble(
        NAMED, config, keys, inputs, labels, rows, np.full(2, 60, np.int32), none
    )
    return params, predict_logits(NAMED, params, inputs)


def test_names_that_say_it_gain_weight_and_others_lose_it():
    similarities = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    meant, _ = fitted(similarities, similarities > 0.5)
    against, _ = fitted(similarities, similarities < -0.5)
    assert (np.asarray(meant["name_weight"]) > 0.5).all()
    assert (0.5 + np.asarray(against["name_weight"]) < 0).all()


def test_weight_decay_leaves_the_prior():
    """Where similarities are 0 they have no gradient: nothing but decay acts on the weight."""
    nothing = np.zeros((60, 3), np.float32)
    params, _ = fitted(nothing, np.arange(180).reshape(60, 3) % 2 == 0, decay=1.0)
    np.testing.assert_array_equal(params["name_weight"], [0.0, 0.0])
    own = jax.tree.map(lambda leaf: leaf[0], params)
    ones = jnp.concatenate([jnp.zeros((1, 5)), jnp.ones((1, 3))], axis=1)
    added = NAMED.apply(own, ones) - NAMED.apply(own, ones.at[:, 5:].set(0))
    np.testing.assert_allclose(added, np.full((1, 3), 0.5), atol=1e-6)
