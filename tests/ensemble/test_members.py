"""Which members there are, and how many of them one program predicts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crabjax.ensemble import member_keys, predict
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier


def test_member_keys():
    seeds = jax.vmap(jax.random.key)(jnp.arange(2))
    same, independent = (member_keys(seeds, 3, how) for how in ("same", "independent"))
    data = lambda keys: jax.random.key_data(keys)
    assert same.init.shape == same.train.shape == (6,)
    assert len(np.unique(data(same.init), axis=0)) == 2
    assert len(np.unique(data(independent.init), axis=0)) == 6
    assert len(np.unique(data(same.train), axis=0)) == 6
    np.testing.assert_array_equal(data(same.init)[:3], np.tile(data(same.init)[:1], (3, 1)))
    fewer = member_keys(seeds, 2, "independent")
    np.testing.assert_array_equal(data(fewer.init), data(independent.init)[np.array([0, 1, 3, 4])])


def test_how_many_members_a_program_predicts():
    base = Architecture("distilbert", 90, positions=256, width=768, inner=3072, heads=12, layers=2)
    model = transformer_classifier(base, 3, precision="bfloat16")
    keys: Any = jax.ShapeDtypeStruct((5,), jax.random.key(0).dtype)
    params = jax.eval_shape(jax.vmap(model.init), keys)
    sizes = {
        (platform, documents): predict.predicted_at_once(
            model, params, jax.ShapeDtypeStruct((documents, 256), jnp.int32), platform
        )
        for platform in ("cpu", "gpu", "tpu")
        for documents in (1, 64)
    }
    assert sizes.pop(("tpu", 64)) == 1
    assert set(sizes.values()) == {5}
