"""What was compiled is kept and read again."""

import jax
import jax.numpy as jnp
import pytest

from crabjax.devices.compile_for import compile_for


@pytest.mark.parametrize("chip", ["v5e", "h100"])
def test_a_program_is_compiled_once(chip, tmp_path):
    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    product = lambda left, right: jnp.tanh(left @ right)
    first, second = (compile_for(chip, product, shape, shape, keep=tmp_path) for _ in range(2))
    assert first == second  # the time it took included
    assert len(list(tmp_path.iterdir())) == 1
    compile_for(chip, jnp.sin, shape, keep=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
