"""Randomness: every use folds (seed, round, purpose), so no use depends on another."""

import jax
import numpy as np

_PURPOSES = ("initial", "validation", "fit", "query", "folds")
_DRAWS = ("anchors", "label_wise", "negative", "hard", "fill", "limit", "cluster", "ties", "narrow")


def run_key(seed: int, purpose: str, round_number: int = 0) -> jax.Array:
    """The key of one use of randomness in a run."""
    key = jax.random.fold_in(jax.random.key(seed), round_number)
    return jax.random.fold_in(key, _PURPOSES.index(purpose))


def host_generator(key: jax.Array, draw: str | None = None, part: int = 0) -> np.random.Generator:
    """A NumPy generator seeded by all bits of ``key``; equal arguments give equal streams.

    Args:
      key: of one use of randomness in a run.
      draw: which of the draws of that use it is for, so that no draw moves when another is left
        out or takes more.
      part: of a draw in several parts.
    """
    seed = np.asarray(jax.random.key_data(key)).tolist()
    # From 1: a seed that ends in zeros is the same as one without them.
    own = [] if draw is None else [1 + _DRAWS.index(draw), part]
    return np.random.default_rng([*seed, *own])


def draw_up_to(generator: np.random.Generator, rows: np.ndarray, count: int | None) -> np.ndarray:
    """``count`` of ``rows`` without replacement, in random order; all if fewer, or if None."""
    return generator.permutation(rows)[:count]
