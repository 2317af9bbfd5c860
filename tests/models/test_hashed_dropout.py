"""Dropout by hashed random numbers: as random as it should be, and its own derivative."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.models.hashed_dropout import draw_noise, hashed_dropout

SHAPE = (8, 32, 256)


def drop(key, rate, values):
    return hashed_dropout(draw_noise(key, rate, values.shape), rate, values)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_hashed_dropout_drops_at_random(rate):
    keys = jax.random.split(jax.random.key(0), 2)
    every = jax.jit(jax.vmap(lambda key: drop(key, rate, jnp.ones(SHAPE))))
    found = np.asarray(every(keys))
    np.testing.assert_allclose(np.unique(found), [0, 1 / (1 - rate)], rtol=1e-6)
    kept = (found > 0) - (1 - rate)
    deviation = np.sqrt(rate * (1 - rate))
    for axes in [(0, 1, 2, 3), (3,), (1, 2), (1, 3)]:  # all, rows, columns, slices
        means = kept.mean(axis=axes)
        count = kept.size / means.size
        assert np.abs(means).max() < 5 * deviation / np.sqrt(count)
        if means.size > 100:  # neither more nor less even than chance
            assert 0.85 < means.std() * np.sqrt(count) / deviation < 1.15
    neighbours = [(kept[..., 1:], kept[..., :-1]), (kept[:, :, 1:], kept[:, :, :-1]), tuple(kept)]
    corners = kept[:, :, 1:, 1:] * kept[:, :, :-1, :-1] * kept[:, :, 1:, :-1] * kept[:, :, :-1, 1:]
    products = [a * b / deviation**2 for a, b in neighbours] + [corners / deviation**4]
    for product in products:
        assert abs(product.mean()) < 5 * product.std() / np.sqrt(product.size)


def test_hashed_dropout_of_a_member_alone_is_the_same():
    keys = jax.random.split(jax.random.key(1), 3)
    values = jnp.ones((4, 6))
    together = jax.vmap(lambda key: drop(key, 0.5, values))(keys)
    np.testing.assert_array_equal(together[1], drop(keys[1], 0.5, values))
    np.testing.assert_array_equal(drop(None, 0.5, values), values)


def test_the_gradient_passes_where_the_value_did():
    values = jax.random.normal(jax.random.key(0), (5, 7))
    dropped, backward = jax.vjp(lambda values: drop(jax.random.key(3), 0.4, values), values)
    (gradient,) = backward(jnp.ones_like(values))
    assert 0 < np.sum(np.asarray(gradient) == 0) < values.size
    np.testing.assert_allclose(dropped, gradient * values, rtol=1e-6)


def test_the_backward_pass_keeps_nothing_as_large_as_the_values():
    keys, values = jax.random.split(jax.random.key(0), 2), jnp.ones((2, 64, 256))
    _, backward = jax.vjp(jax.vmap(lambda key, one: drop(key, 0.4, one)), keys, values)
    assert max(leaf.size for leaf in jax.tree.leaves(backward)) <= 2 * 256
