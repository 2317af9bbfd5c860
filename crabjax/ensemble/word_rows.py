"""AdamW on the rows of a word table that training can change, in time that ignores the others.

Only words of the training documents ever get a gradient. A row without one is multiplied by
1 - rate * decay in every step and nothing else, so the rows of all other words share a factor,
applied once an epoch. Words are renumbered so that those of the training documents come first.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

TILE = 512  # rows updated at a time


class WordOrder(NamedTuple):
    """The order of words in training.

    Attributes:
      numbers: the new number [M, V] of every word.
      tiles: int32 scalar; every member's first words, those in its training documents, lie in
        this many tiles.
    """

    numbers: jax.Array
    tiles: jax.Array


def order_words(
    tokens: jax.Array, rows: jax.Array, counts: jax.Array, vocabulary: int
) -> WordOrder:
    """Orders the words of every member.

    Args:
      tokens: int32 [N, T].
      rows: int32 [M, C], each member's training documents.
      counts: int32 [M], how many of them are live.
      vocabulary: V.
    """
    live = jnp.arange(rows.shape[1])[None, :] < counts[:, None]
    one = lambda rows, live: new_numbers(tokens[rows], live, vocabulary)
    numbers, tiles = jax.vmap(one)(rows, live)
    return WordOrder(numbers, jnp.max(tiles))


def new_numbers(tokens: jax.Array, live: jax.Array, vocabulary: int) -> tuple[jax.Array, jax.Array]:
    """Numbers words so that those of the live documents come first, padding (0) first of all.

    Args:
      tokens: int32 [C, T].
      live: bool [C].
      vocabulary: V.

    Returns:
      The new number [V] of every word, and how many tiles hold those that come first.
    """
    words = jnp.where(live[:, None], tokens, 0)
    present = jnp.zeros(vocabulary, bool).at[words].set(True).at[0].set(True)
    front = jnp.cumsum(present, dtype=jnp.int32)
    back = jnp.cumsum(~present, dtype=jnp.int32)
    numbers = jnp.where(present, front, front[-1] + back) - 1
    return numbers, (front[-1] + TILE - 1) // TILE


def renumbered(table: jax.Array, numbers: jax.Array) -> jax.Array:
    """A table [V, D] in the order of the new numbers, with empty rows up to whole tiles."""
    rows = -(-len(table) // TILE) * TILE
    return jnp.zeros((rows, table.shape[1]), table.dtype).at[numbers].set(table)


def update_rows(
    update: Callable[..., Any], whole: Any, gradient: jax.Array, tiles: jax.Array
) -> Any:
    """Applies an element-wise update to the first ``tiles`` tiles of every member's table.

    Args:
      update: ``((table, state), gradient) -> (table, state)`` for all members.
      whole: a table [M, V, D] and its optimiser state, whose leaves have the shape of the table
        or none of its rows ([M]); V is a multiple of the tile.
      gradient: [M, V, D].
      tiles: int32 scalar; later rows are left alone.
    """

    def tile(index, whole):
        def cut(a):
            return lax.dynamic_slice_in_dim(a, index * TILE, TILE, axis=1) if a.ndim > 1 else a

        def put(a, part):
            if a.ndim > 1:
                return lax.dynamic_update_slice_in_dim(a, part, index * TILE, axis=1)
            return jnp.where(index == tiles - 1, part, a)  # a step counts once, not per tile

        # The branch, always taken, keeps the whole arrays out of the update. Without it the update
        # is fused into the writing of each of them, and all are copied for every tile, as each
        # is overwritten while the others still need it.
        part = jax.tree.map(cut, whole)
        changed = lax.cond(index < tiles, update, lambda part, _: part, part, cut(gradient))
        return jax.tree.map(put, whole, changed)

    return lax.fori_loop(0, tiles, tile, whole)


def scale_other_rows(table: jax.Array, tiles: jax.Array, factor: jax.Array) -> jax.Array:
    """Multiplies the rows of a table [V, D] after the first ``tiles`` tiles by a factor."""
    other = jnp.arange(len(table)) >= tiles * TILE
    return table * jnp.where(other, factor, 1)[:, None]
