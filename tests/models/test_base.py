"""What all classifiers share: their two methods, and dropout by hashed random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.models.base import Classifier, hashed_dropout

SHAPE = (8, 32, 256)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_hashed_dropout_drops_at_random(rate):
    keys = jax.random.split(jax.random.key(0), 2)
    drop = jax.jit(jax.vmap(lambda key: hashed_dropout(key, rate, jnp.ones(SHAPE))))
    found = np.asarray(drop(keys))
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
    together = jax.vmap(lambda key: hashed_dropout(key, 0.5, values))(keys)
    np.testing.assert_array_equal(together[1], hashed_dropout(keys[1], 0.5, values))
    np.testing.assert_array_equal(hashed_dropout(None, 0.5, values), values)


def test_a_classifier_needs_both_methods():
    class NoLogits(Classifier):
        def features(self, inputs):
            return inputs

    with pytest.raises(TypeError, match="abstract method logits"):
        NoLogits()  # pyright: ignore[reportAbstractUsage]
