"""TextCNN against a plain NumPy forward pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.config import ModelConfig
from crabjax.models import build_model

CONFIG = ModelConfig(name="text_cnn", embedding=6, kernels=4, dropout=0.5)
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


def plain_forward(params, tokens):
    """Document vectors and logits, one document and one window at a time."""
    params = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    vectors = []
    for document in tokens:
        words = params["embedding"][document[document != 0]]
        vector, first = [], 0
        for width in CONFIG.widths:
            border = np.zeros((width - 1, words.shape[1]))
            padded = np.concatenate([border, words, border])
            kernel = params["kernel"][first : first + width]
            windows = [padded[i : i + width] for i in range(len(padded) - width + 1)]
            vector.append(np.max([np.einsum("wd,wdf->f", w, kernel) for w in windows], axis=0))
            first += width
        vectors.append(np.maximum(np.concatenate(vector) + params["bias"], 0))
    vectors = np.array(vectors)
    return vectors, vectors @ params["output"]["kernel"] + params["output"]["bias"]


def test_equals_plain_forward(setting):
    model, params, tokens = setting
    vectors, logits = plain_forward(params, tokens)
    np.testing.assert_allclose(model.features(params, tokens), vectors, atol=1e-5)
    np.testing.assert_allclose(model.apply(params, tokens), logits, atol=1e-5)


def test_padding_changes_nothing(setting):
    model, params, tokens = setting
    longer = np.pad(tokens, ((0, 0), (0, 256 - 64)))
    np.testing.assert_allclose(
        model.apply(params, longer), model.apply(params, tokens), rtol=1e-6, atol=1e-6
    )


def test_document_without_words_is_finite(setting):
    model, params, tokens = setting
    empty = np.zeros_like(tokens)
    assert np.isfinite(model.apply(params, empty)).all()
    assert not np.any(model.features(params, empty))


def test_dropout_acts_on_the_document_vector(setting):
    model, params, tokens = setting
    keys = jax.random.split(jax.random.key(1), 4000)
    dropped = jax.jit(jax.vmap(lambda key: model.apply(params, tokens[:1], key)))(keys)[:, 0]
    certain = model.apply(params, tokens[:1])[0]
    np.testing.assert_allclose(jnp.mean(dropped, axis=0), certain, atol=0.05)
    assert np.all(np.std(dropped, axis=0) > 0.01)


def test_initial_parameters(setting):
    model, params, _ = setting
    assert not np.any(params["embedding"][0])
    assert 0.2 < np.max(np.abs(params["embedding"])) <= 0.25
    assert params["kernel"].shape == (sum(CONFIG.widths), 6, 4)
    other = model.init(jax.random.key(1))
    assert not np.allclose(other["embedding"], params["embedding"])


def test_padding_row_gets_no_gradient(setting):
    model, params, tokens = setting
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(model.apply(p, tokens) ** 2)))(params)
    assert not np.any(gradient["embedding"][0])
    assert np.any(gradient["embedding"])


def test_equal_settings_give_the_same_model():
    assert build_model(CONFIG, VOCABULARY, LABELS) is build_model(CONFIG, VOCABULARY, LABELS)
