"""Strict numerics for every test: no silent dtype or rank promotion, warnings are errors."""

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
