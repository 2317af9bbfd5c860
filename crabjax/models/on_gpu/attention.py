"""Attention in one kernel: scores stay in the registers of a GPU (Dao et al. 2022).

The compiler writes the scores of all pairs of tokens to memory and reads them twice, and brings
heads to the front before and back after. Here a program holds 64 queries of a head, walks along
keys and values where they lie, and keeps the largest score so far, the sum and the mean of values.
"""

import functools
import os

import jax
import jax.numpy as jnp

_BLOCK = 64  # queries and keys at a time; of 128 a program's registers do not hold the scores
_WIDTHS = (16, 32, 64, 128)  # of a head: what tensor cores multiply
_OLDEST = 8  # major compute capability with bfloat16


def suits(query: jax.Array, key: jax.Array, heads: int) -> bool:
    """Whether the kernel takes these shapes [B, R, D] and [B, T, D], and this machine's GPU it.

    ``CRABJAX_KERNELS=off`` does without.
    """
    fits = query.shape == key.shape and query.shape[1] % _BLOCK == 0
    fits = fits and query.dtype == jnp.bfloat16 and query.shape[2] // heads in _WIDTHS
    return fits and os.environ.get("CRABJAX_KERNELS") != "off" and _is_recent()


def _is_recent() -> bool:
    """False on older GPUs; without one the kernel is compiled for others, or not at all."""
    if jax.default_backend() != "gpu":
        return True
    # "8.6"; AMD's are called otherwise, and get no kernel anyway.
    majors = [str(one.compute_capability).partition(".")[0] for one in jax.local_devices()]
    return all(one.isdecimal() and int(one) >= _OLDEST for one in majors)


def attend(
    heads: int,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    floor: jax.Array,
    interpret: bool = False,
) -> jax.Array:
    """Queries, keys, values [B, T, D], floor of the scores float32 [B, T] -> [B, T, D].

    As ``models.attention.attend``; ``interpret`` runs it step by step, on any device.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    documents, tokens, width = query.shape
    own = pl.BlockSpec((None, _BLOCK, width // heads), lambda b, h, t: (b, t, h))
    all_tokens = pl.BlockSpec((None, tokens, width // heads), lambda b, h, t: (b, 0, h))
    of_floor = pl.BlockSpec((None, tokens), lambda b, h, t: (b, 0))
    call = pl.pallas_call(
        functools.partial(_kernel, pl.ds),
        grid=(documents, heads, tokens // _BLOCK),
        in_specs=[own, all_tokens, all_tokens, of_floor],
        out_specs=own,
        out_shape=jax.ShapeDtypeStruct(query.shape, query.dtype),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
        name="attention",
    )
    return call(query, key, value, floor)


def _kernel(rows_from, query_ref, key_ref, value_ref, floor_ref, mixed_ref) -> None:
    query = query_ref[...]  # [64, D / heads]
    product = functools.partial(jnp.dot, preferred_element_type=jnp.float32)

    def along(block, carry):
        highest, total, mixed = carry
        rows = rows_from(block * _BLOCK, _BLOCK)
        scores = product(query, key_ref[rows, :].T) / query.shape[1] ** 0.5
        scores = scores + floor_ref[rows][None, :]
        now = jnp.maximum(highest, scores.max(axis=1))
        weights, shrunk = jnp.exp(scores - now[:, None]), jnp.exp(highest - now)
        added = product(weights.astype(query.dtype), value_ref[rows, :])
        total = shrunk * total + weights.sum(axis=1)
        return now, total, shrunk[:, None] * mixed + added

    lowest = jnp.full(_BLOCK, jnp.finfo(jnp.float32).min, jnp.float32)
    first = lowest, jnp.zeros(_BLOCK, jnp.float32), jnp.zeros(query.shape, jnp.float32)
    blocks = key_ref.shape[0] // _BLOCK
    _, total, mixed = jax.lax.fori_loop(0, blocks, along, first)
    mixed_ref[...] = (mixed / total[:, None]).astype(mixed_ref.dtype)
