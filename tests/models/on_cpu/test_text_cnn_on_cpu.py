"""The convolution with maximum over time, dense and as a CPU gets it, against loops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.models import on_cpu, text_cnn
from crabjax.models.on_cpu.text_cnn import BLOCK, CHUNK, TILE

TOKENS = 70  # more than two blocks of windows


def make_batch(seed: int, widths, documents: int = 6, vocabulary: int = 40):
    """A table, kernels, and documents of all lengths: none, one, one block, many blocks."""
    generator = np.random.default_rng(seed)
    table = generator.normal(size=(vocabulary, 5)).astype(np.float32)
    table[0] = 0
    kernel = generator.normal(size=(sum(widths), 5, 3)).astype(np.float32)
    tokens = generator.integers(1, vocabulary, (documents, TOKENS)).astype(np.int32)
    lengths = np.resize([0, 1, 2, 29, 33, TOKENS], documents)
    tokens[np.arange(TOKENS)[None, :] >= lengths[:, None]] = 0
    return table, kernel, tokens


def by_loops(table, kernel, tokens, widths):
    """Every window of every document, one by one."""
    rows = []
    for document in tokens:
        words = [table[word].astype(np.float64) for word in document if word]
        row, first = [], 0
        for width in widths:
            slices = kernel[first : first + width].astype(np.float64)
            first += width
            padded = [np.zeros(5)] * (width - 1) + words + [np.zeros(5)] * (width - 1)
            windows = [
                sum(padded[start + j] @ slices[j] for j in range(width))
                for start in range(len(words) + width - 1 if words else 0)
            ]
            row.append(np.max(windows, axis=0) if windows else np.full(3, -np.inf))
        rows.append(np.concatenate(row))
    return np.array(rows)


@pytest.mark.parametrize("function", [text_cnn.max_convolution, on_cpu.max_convolution])
@pytest.mark.parametrize("widths", [(2, 3, 4), (1,), (5, 2)])
def test_equals_loops_over_windows(function, widths):
    table, kernel, tokens = make_batch(0, widths)
    found = jax.jit(function, static_argnums=0)(widths, table, kernel, tokens)
    np.testing.assert_allclose(found, by_loops(table, kernel, tokens, widths), rtol=2e-5)


@pytest.mark.parametrize("function", [text_cnn.max_convolution, on_cpu.max_convolution])
def test_padding_row_is_read_as_zero(function):
    table, kernel, tokens = make_batch(0, (2, 3))
    wrong = table.copy()
    wrong[0] = 100
    convolve = jax.jit(functools.partial(function, (2, 3)))
    np.testing.assert_array_equal(convolve(wrong, kernel, tokens), convolve(table, kernel, tokens))


def assert_gradients_equal_autodiff(batches, widths):
    """Losses and gradients of all members, against autodiff of the dense definition."""
    table, kernel, tokens = (jnp.stack([b[i] for b in batches]) for i in range(3))
    shape = tokens.shape[1], len(widths) * kernel.shape[3]
    weights = jnp.asarray(np.random.default_rng(4).normal(size=shape), jnp.float32)

    def gradients(function):
        def loss(table, kernel, tokens):
            values = function(widths, table, kernel, tokens)
            return jnp.sum(jnp.where(jnp.isfinite(values), values * weights, 0))

        return jax.jit(jax.vmap(jax.value_and_grad(loss, argnums=(0, 1))))(table, kernel, tokens)

    for found, expected in zip(
        jax.tree.leaves(gradients(on_cpu.max_convolution)),
        jax.tree.leaves(gradients(text_cnn.max_convolution)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=5e-5)


def test_gradients_of_members_equal_autodiff():
    batches = [make_batch(seed, (2, 3, 4)) for seed in (1, 2, 3)]
    batches[0][2][4:] = 0  # members with different numbers of blocks
    assert_gradients_equal_autodiff(batches, (2, 3, 4))


@pytest.mark.parametrize("few", [TILE, 10**6])
def test_many_words_and_many_blocks(few, monkeypatch):
    monkeypatch.setattr("crabjax.models.on_cpu.text_cnn.FEW", few)
    widths = (2, 3)
    batches = [make_batch(seed, widths, documents=40, vocabulary=1500) for seed in (7, 8)]
    table, kernel, tokens = batches[0]
    assert len(np.unique(tokens)) > TILE
    assert np.sum(-(-np.sum(tokens != 0, axis=1) // BLOCK)) > CHUNK
    # A function of its own: one already compiled would not look at FEW again.
    found = jax.jit(lambda *batch: on_cpu.max_convolution(widths, *batch))(table, kernel, tokens)
    np.testing.assert_allclose(found, by_loops(table, kernel, tokens, widths), rtol=2e-5)
    batches[1][2][6:] = 0  # the second member has one tile and one chunk
    assert_gradients_equal_autodiff(batches, widths)


def test_gradient_of_one_member_and_padding_row():
    table, kernel, tokens = make_batch(5, (2, 3))

    def loss(function):
        def of(table):
            values = function((2, 3), table, jnp.asarray(kernel), jnp.asarray(tokens))
            return jnp.sum(jnp.where(jnp.isfinite(values), values**2, 0))

        return jax.jit(jax.grad(of))(jnp.asarray(table))

    found, dense = loss(on_cpu.max_convolution), loss(text_cnn.max_convolution)
    np.testing.assert_allclose(found, dense, rtol=1e-4, atol=1e-4)
    for gradient in (found, dense):
        assert not np.any(gradient[0])
        assert np.any(gradient[1:])


def test_members_may_share_documents():
    table, kernel, tokens = make_batch(6, (2, 3))
    tables = jnp.stack([table, 2 * table])
    one = jax.jit(lambda table: on_cpu.max_convolution((2, 3), table, kernel, tokens))
    for found, table in zip(jax.jit(jax.vmap(one))(tables), tables):
        np.testing.assert_allclose(found, one(table), rtol=1e-6)
