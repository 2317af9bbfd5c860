"""Randomness: every use folds (seed, round, purpose), so no use depends on another."""

import jax

_PURPOSES = ("initial", "validation", "fit", "query", "folds")


def run_key(seed: int, purpose: str, round_number: int = 0) -> jax.Array:
    """The key of one use of randomness in a run."""
    key = jax.random.fold_in(jax.random.key(seed), round_number)
    return jax.random.fold_in(key, _PURPOSES.index(purpose))
