"""Random draws on the host, determined by a JAX key."""

import jax
import numpy as np


def host_generator(key: jax.Array) -> np.random.Generator:
    """A NumPy generator seeded by all bits of ``key``; equal keys give equal streams."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def draw_up_to(generator: np.random.Generator, rows: np.ndarray, count: int | None) -> np.ndarray:
    """``count`` of ``rows`` without replacement, in random order; all if fewer, or if None."""
    return generator.permutation(rows)[:count]
