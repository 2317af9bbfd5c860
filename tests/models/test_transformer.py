"""The encoder against values computed by PyTorch (tests/fixtures/make_fixtures.py)."""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.encoder import Embeddings, Encoder
from crabjax.models.pretrained import load_parameters, read_architecture
from crabjax.models.transformer import (
    build_distilbert,
    parameter_shapes,
    transformer_classifier,
)

SLOW = pytest.mark.slow

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
FAMILIES = ("distilbert", "bert")
LABELS = 5


def build(family="distilbert", **settings):
    folder = str(FIXTURES / f"tiny_{family}")
    config = ModelConfig(name="distilbert", pretrained=folder, **settings)
    return build_distilbert(config.on("cpu"), LABELS)


def load(family, layers=None):
    """The first layers of an encoder as a module, its parameters and the expected values."""
    folder = FIXTURES / f"tiny_{family}"
    architecture = read_architecture(folder)
    params = load_parameters(folder, family, parameter_shapes(architecture))["encoder"]
    if layers is not None:
        architecture = dataclasses.replace(architecture, layers=layers)
        params["layers"] = jax.tree.map(lambda leaf: leaf[:layers], params["layers"])
    encoder = nnx.eval_shape(
        lambda: Encoder(architecture, jnp.dtype("float32"), "nothing", rngs=nnx.Rngs(0))
    )
    with np.load(folder / "expected.npz") as file:
        return nnx.graphdef(encoder), jax.tree.map(jnp.asarray, params), dict(file)


@pytest.fixture(scope="module")
def tokens():
    with np.load(FIXTURES / "tiny_distilbert" / "expected.npz") as file:
        return jnp.asarray(file["tokens"])


@pytest.fixture(scope="module")
def model():
    return build()


@pytest.fixture(scope="module")
def params(model):
    return model.init(jax.random.key(0))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [1, 2])
def test_states_after_every_layer_equal_pytorch(family, layers):
    definition, params, expected = load(family, layers)
    states = nnx.merge(definition, params)(jnp.asarray(expected["tokens"]))
    np.testing.assert_allclose(states, expected["hidden_states"][layers], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "family", [pytest.param(one, marks=SLOW if one == "distilbert" else ()) for one in FAMILIES]
)
@pytest.mark.parametrize("key", [None, 3])
def test_states_that_nobody_reads_are_left_out(family, key):
    definition, params, expected = load(family)
    tokens, key = jnp.asarray(expected["tokens"]), key and jax.random.key(key)

    def loss(params, **settings):
        states = nnx.merge(definition, params)(tokens, key, **settings)[:, :1]
        return jnp.sum(states**3), states

    run = lambda **settings: jax.jit(jax.value_and_grad(partial(loss, **settings), has_aux=True))
    ((_, found), gradient), ((_, all_of_them), expected_gradient) = (
        run(read=1)(params),
        run()(params),
    )
    assert found.shape == (4, 1, 32)
    np.testing.assert_allclose(found, all_of_them, atol=1e-5, rtol=0)
    close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-4)
    jax.tree.map(close, gradient, expected_gradient)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_equal_pytorch(family):
    definition, params, expected = load(family)
    tokens = jnp.asarray(expected["tokens"])

    @jax.jit
    @jax.grad
    def gradient(params):
        return (nnx.merge(definition, params)(tokens)[:, 0] ** 3).mean()

    found = gradient(params)
    words = found["embeddings"]["words"]["embedding"]
    query = found["layers"]["attention"]["query"]["kernel"][0].T
    np.testing.assert_allclose(words, expected["words_gradient"], atol=1e-5, rtol=0)
    np.testing.assert_allclose(query, expected["query_gradient"], atol=1e-5, rtol=0)


def test_logits_equal_pytorch(model, params):
    with np.load(FIXTURES / "tiny_distilbert" / "expected.npz") as expected:
        logits = model.apply(params, jnp.asarray(expected["tokens"]))
        np.testing.assert_allclose(logits, expected["logits"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_changes_nothing(family, tokens):
    model = build(family)
    params = model.init(jax.random.key(0))
    longer = jnp.pad(tokens, ((0, 0), (0, 40 - tokens.shape[1])))
    np.testing.assert_allclose(
        model.apply(params, longer), model.apply(params, tokens), atol=5e-6, rtol=0
    )


def test_a_row_of_padding_gives_numbers(model, params, tokens):
    def loss(params):
        return model.apply(params, jnp.zeros_like(tokens)).sum()

    value, gradient = jax.jit(jax.value_and_grad(loss))(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((value, gradient)))


def test_more_tokens_than_positions_is_an_error(model, params):
    with pytest.raises(ValueError, match=r"at most 40 a document.*found 41"):
        model.apply(params, jnp.ones((1, 41), jnp.int32))


def test_features_are_what_the_last_layer_reads(model, params, tokens):
    features = model.features(params, tokens)
    output = params["head"]["output"]
    logits = features @ output["kernel"] + output["bias"][None]
    assert features.shape == (4, 32)
    np.testing.assert_allclose(logits, model.apply(params, tokens), atol=1e-6, rtol=0)


def test_init_keeps_the_head_of_the_files(model):
    first, second = (model.init(jax.random.key(seed)) for seed in (0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, second)


def test_init_draws_a_head_where_the_files_have_none():
    model = build("bert")
    keys = jax.random.split(jax.random.key(0), 2)
    members = jax.vmap(model.init)(keys)
    alone = model.init(keys[1])
    jax.tree.map(lambda all, one: np.testing.assert_array_equal(all[1], one), members, alone)
    words = members["encoder"]["embeddings"]["words"]["embedding"]
    dense = members["head"]["dense"]["kernel"]
    np.testing.assert_array_equal(words[0], words[1])
    assert np.abs(dense[0] - dense[1]).max() > 0.01
    assert 0.017 < np.std(dense) < 0.023


def test_init_without_files_draws_everything(tokens):
    architecture = read_architecture(FIXTURES / "tiny_bert")
    model = transformer_classifier(architecture, LABELS)
    params = model.init(jax.random.key(0))
    shapes = jax.tree.map(jnp.shape, params)
    assert shapes == jax.tree.map(jnp.shape, parameter_shapes(architecture, LABELS))
    assert model.apply(params, tokens).shape == (4, LABELS)


def small(family, rates, layers=1):
    """A random classifier, quick to compile, without dropout but for ``rates``."""
    architecture = read_architecture(FIXTURES / f"tiny_{family}")
    none = {"dropout": 0.0, "attention_dropout": 0.0, "head_dropout": 0.0}
    few = dataclasses.replace(architecture, layers=layers, initial_scale=0.2, **(none | rates))
    return transformer_classifier(few, LABELS)


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "head_dropout"])
def test_every_dropout_follows_the_key(rate, tokens):
    model = small("bert", {rate: 0.5})
    params = model.init(jax.random.key(0))
    apply = jax.jit(model.apply)
    first, again, other = (apply(params, tokens, jax.random.key(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3
    assert np.abs(first - model.apply(params, tokens)).max() > 1e-3


def test_without_rates_a_key_changes_nothing(tokens):
    model = small("distilbert", {})
    params = model.init(jax.random.key(0))
    with_key = model.apply(params, tokens, jax.random.key(1))
    np.testing.assert_array_equal(with_key, model.apply(params, tokens))


def recomputing(model, what):
    assert model.recomputing is not None
    return model.recomputing(what)


def gradient(model, tokens):
    def loss(params):
        return (model.apply(params, tokens, jax.random.key(2)) ** 2).mean()

    return jax.jit(jax.value_and_grad(loss))(model.init(jax.random.key(0)))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["cheap", "layers"])
def test_computing_again_changes_nothing(what, tokens):
    model = small("bert", {"dropout": 0.3, "attention_dropout": 0.3}, layers=2)
    assert recomputing(model, "nothing") is model
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5),
        gradient(model, tokens),
        gradient(recomputing(model, what), tokens),
    )


def test_more_is_kept_the_less_is_computed_again(model, params, tokens):
    """Bytes that the forward pass leaves for the backward pass, under vmap as without."""

    def kept(what, members=2):
        def loss(params, key):
            return (recomputing(model, what).apply(params, tokens, key) ** 2).sum()

        keys = jax.random.split(jax.random.key(0), members)
        many = jax.tree.map(lambda a: jnp.stack([a] * members), params)
        _, backward = jax.eval_shape(lambda p: jax.vjp(jax.vmap(loss), p, keys), many)
        return sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(backward))

    layers, cheap, everything = map(kept, ("layers", "cheap", "nothing"))
    assert layers < cheap < everything / 2


def test_bfloat16_computes_in_half_and_keeps_float32_outside(model, params, tokens):
    half = build(precision="bfloat16")
    gradient = jax.jit(jax.grad(lambda params: (half.apply(params, tokens) ** 2).sum()))(params)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(gradient))
    logits = half.apply(params, tokens)
    assert logits.dtype == jnp.float32
    assert 1e-5 < np.abs(logits - model.apply(params, tokens)).max() < 0.1


def test_embeddings_in_bfloat16_are_those_of_float32(tokens):
    architecture = read_architecture(FIXTURES / "tiny_bert")
    found = []
    for precision in ("float32", "bfloat16"):
        own = Embeddings(architecture, jnp.dtype(precision), rngs=nnx.Rngs(0))
        found.append(np.asarray(own(tokens, None), np.float32))
    assert 1e-4 < np.sqrt(np.mean((found[1] - found[0]) ** 2)) < 0.004


@pytest.mark.parametrize(("platform", "precision"), [("cuda", "bfloat16"), ("tpu", "float32")])
def test_a_training_step_of_members_lowers(platform, precision, tokens):
    model = recomputing(build(precision=precision), "cheap")
    keys = jax.random.split(jax.random.key(0), 2)

    def loss(params, key):
        return (model.apply(params, tokens, key) ** 2).sum()

    step = jax.jit(jax.vmap(jax.value_and_grad(loss)))
    params = jax.eval_shape(jax.vmap(model.init), keys)
    lowered = step.trace(params, keys).lower(lowering_platforms=(platform,))
    assert "dot_general" in lowered.as_text()
