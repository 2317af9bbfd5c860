"""Randomness: every use folds (seed, round, purpose), so no use depends on another."""

import jax
import numpy as np

_PURPOSES = ("initial", "validation", "fit", "query", "folds")


def run_key(seed: int, purpose: str, round_number: int = 0) -> jax.Array:
    """The key of one use of randomness in a run."""
    key = jax.random.fold_in(jax.random.key(seed), round_number)
    return jax.random.fold_in(key, _PURPOSES.index(purpose))


def host_generator(key: jax.Array) -> np.random.Generator:
    """A NumPy generator seeded by all bits of ``key``; equal keys give equal streams."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def draw_up_to(generator: np.random.Generator, rows: np.ndarray, count: int | None) -> np.ndarray:
    """``count`` of ``rows`` without replacement, in random order; all if fewer, or if None."""
    return generator.permutation(rows)[:count]
