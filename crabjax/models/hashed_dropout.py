"""Dropout of large arrays: a random number per row and per column, hashed where it is needed.

A random number of its own for every value takes ten times as long on CPU as a pass over the
values, and memory on any device. The backward pass hashes again and keeps nothing.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Noise(NamedTuple):
    """Random bits, uint32: rows [..., 1] and columns [1, ..., C] of an array [..., C]."""

    rows: jax.Array
    columns: jax.Array

    def first(self, rows: int) -> "Noise":
        """That of the first rows, on the axis before the last."""
        return Noise(self.rows[..., :rows, :], self.columns)


def draw_noise(key: jax.Array | None, rate: float, shape: tuple[int, ...]) -> Noise | None:
    """What decides which values of an array are dropped; None without a key or a rate."""
    if key is None or rate == 0:
        return None
    row_key, column_key = jax.random.split(key)
    rows = jax.random.bits(row_key, (*shape[:-1], 1))
    return Noise(rows, jax.random.bits(column_key, (1,) * (len(shape) - 1) + shape[-1:]))


def hashed_dropout(noise: Noise | None, rate: float, values: jax.Array) -> jax.Array:
    """Zeroes each value with probability ``rate`` and scales up the rest; no noise, no change."""
    return values if noise is None else _drop(rate, noise, values)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _drop(rate: float, noise: Noise, values: jax.Array) -> jax.Array:
    kept = _mixed(noise.rows + noise.columns) >= jnp.uint32(round(rate * 2**32))
    # A product, not a choice between values and zeros: in a loop over layers JAX would make the
    # zeros beforehand, an array as large as the values.
    return values * (kept.astype(values.dtype) / (1 - rate))


def _forward(rate: float, noise: Noise, values: jax.Array):
    return _drop(rate, noise, values), noise


def _backward(rate: float, noise: Noise, gradient: jax.Array):
    return None, _drop(rate, noise, gradient)


_drop.defvjp(_forward, _backward)


def _mixed(bits: jax.Array) -> jax.Array:
    """The final mix of MurmurHash3: every bit of a uint32 goes into every bit of the result."""
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> 13)) * jnp.uint32(0xC2B2AE35)
    return bits ^ (bits >> 16)
