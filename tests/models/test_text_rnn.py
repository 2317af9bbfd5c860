"""TextRNN against a plain NumPy forward pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.config import ModelConfig
from crabjax.models import build_model

CONFIG = ModelConfig(name="text_rnn", embedding=6, hidden=5, attention=4, dropout=0.5)
VOCABULARY, LABELS = 30, 3


@pytest.fixture(scope="module")
def setting():
    model = build_model(CONFIG, VOCABULARY, LABELS)
    model = model._replace(
        init=jax.jit(model.init), apply=jax.jit(model.apply), features=jax.jit(model.features)
    )
    params = model.init(jax.random.key(0))
    tokens = np.random.default_rng(0).integers(1, VOCABULARY, (5, 64)).astype(np.int32)
    tokens[np.arange(64)[None, :] >= np.array([1, 7, 33, 64, 20])[:, None]] = 0
    return model, params, tokens


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain_direction(params, direction: int, words):
    """States of one direction after each word, in the order they were read."""
    state, states = np.zeros(CONFIG.hidden), []
    for word in words:
        from_input, from_state = (
            [
                value @ params[f"{kind}_kernel"][gate, direction]
                + params[f"{kind}_bias"][gate, direction]
                for gate in range(3)
            ]
            for kind, value in (("input", word), ("state", state))
        )
        reset = sigmoid(from_input[0] + from_state[0])
        update = sigmoid(from_input[1] + from_state[1])
        candidate = np.tanh(from_input[2] + reset * from_state[2])
        state = (1 - update) * candidate + update * state
        states.append(state)
    return states


def plain_forward(params, tokens):
    params = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    vectors = []
    for document in tokens:
        words = params["embedding"][document[document != 0]]
        forward = plain_direction(params, 0, words)
        backward = plain_direction(params, 1, words[::-1])[::-1]
        states = np.concatenate([forward, backward], axis=1)
        attention = params["attention"]
        scores = np.tanh(states @ attention["kernel"] + attention["bias"]) @ params["query"]
        weights = np.exp(scores) / np.exp(scores).sum()
        vectors.append(weights @ states)
    vectors = np.array(vectors)
    return vectors, vectors @ params["output"]["kernel"] + params["output"]["bias"]


def test_equals_plain_forward(setting):
    model, params, tokens = setting
    vectors, logits = plain_forward(params, tokens)
    np.testing.assert_allclose(model.features(params, tokens), vectors, atol=1e-5)
    np.testing.assert_allclose(model.apply(params, tokens), logits, atol=1e-5)


@pytest.mark.slow
def test_many_groups_equal_plain_forward_and_its_differences():
    """More than two groups are taken one at a time."""
    model = build_model(CONFIG, VOCABULARY, LABELS)
    generator = np.random.default_rng(1)
    tokens = generator.integers(1, VOCABULARY, (2, 60, 40)).astype(np.int32)
    lengths = generator.integers(1, 6, (2, 60))
    lengths[:, ::20] = 40  # more than a chunk of steps
    tokens[np.arange(40)[None, None, :] >= lengths[..., None]] = 0
    params = jax.vmap(model.init)(jax.random.split(jax.random.key(2), 2))
    weights = generator.normal(size=(60, LABELS)).astype(np.float32)

    def loss(params, tokens):
        logits = model.apply(params, tokens)
        return jnp.sum(logits * weights), logits

    gradients, logits = jax.jit(jax.vmap(jax.grad(loss, has_aux=True)))(params, tokens)
    own, found = of_member(params, 1), jax.tree.leaves(of_member(gradients, 1))
    np.testing.assert_allclose(logits[1], plain_forward(own, tokens[1])[1], atol=1e-5)
    for name, way in directions(own, generator):
        ends = jax.tree.map(np.add, own, way), jax.tree.map(np.subtract, own, way)
        up, down = (np.sum(plain_forward(end, tokens[1])[1] * weights) for end in ends)
        slope = sum(map(np.vdot, found, jax.tree.leaves(way)))
        np.testing.assert_allclose(slope, (up - down) / 2, rtol=2e-4, err_msg=name)


def of_member(tree, member: int):
    return jax.tree.map(lambda leaf: np.asarray(leaf[member], np.float64), tree)


def directions(params, generator):
    """For each parameter, a small random change of it alone; padding's row stays as it is."""
    for name in params:
        change = jax.tree.map(np.zeros_like, params)
        draw = lambda value: 1e-5 * generator.normal(size=value.shape)
        change[name] = jax.tree.map(draw, params[name])
        if name == "embedding":
            change[name][0] = 0
        yield name, change


def test_padding_changes_nothing(setting):
    model, params, tokens = setting
    longer = np.pad(tokens, ((0, 0), (0, 256 - 64)))
    np.testing.assert_allclose(
        model.apply(params, longer), model.apply(params, tokens), rtol=1e-6, atol=1e-6
    )


def test_document_without_words_is_finite(setting):
    model, params, tokens = setting
    empty = np.zeros_like(tokens)
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(model.apply(p, empty))))(params)
    assert np.isfinite(model.apply(params, empty)).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_padding_row_gets_no_gradient(setting):
    model, params, tokens = setting
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(model.apply(p, tokens) ** 2)))(params)
    assert not np.any(gradient["embedding"][0])
    assert np.any(gradient["embedding"])


def test_dropout_needs_a_key(setting):
    model, params, tokens = setting
    first, second = (model.apply(params, tokens, jax.random.key(seed)) for seed in (0, 1))
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(model.apply(params, tokens), model.apply(params, tokens))
