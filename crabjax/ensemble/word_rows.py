"""Training on the rows of a word table that it can change.

Only words of the training documents ever get a gradient. A row without one is multiplied by
1 - rate * decay in every step and nothing else, so all other rows share one factor, applied where
they are read. The vocabulary then costs nothing in a step.
"""

import jax
import jax.numpy as jnp
import numpy as np

SMALLEST = 4096  # words; fewer would save little, and one more program would be compiled


def training_words(
    inputs: np.ndarray, rows: np.ndarray, counts: np.ndarray, vocabulary: int
) -> np.ndarray:
    """The words of every member's training documents, in increasing order, padding (0) first.

    Args:
      inputs: int32 [N, T].
      rows: int32 [M, C], each member's training documents.
      counts: int32 [M], how many of them are live.
      vocabulary: V.

    Returns:
      int32 [M, W], filled up with numbers from V on. W is a power of two, or the vocabulary if
      that is less: a growing training set changes it, and with it the program, only rarely.
    """
    found: list[np.ndarray] = []
    for member, (own, count) in enumerate(zip(rows, counts)):
        before = rows[member - 1, :count]
        if member and count == counts[member - 1] and np.array_equal(own[:count], before):
            found.append(found[-1])
            continue
        present = np.zeros(vocabulary, bool)
        present[inputs[own[:count]]] = True
        present[0] = True
        found.append(np.flatnonzero(present))
    most = max(SMALLEST, max(map(len, found)))
    size = min(vocabulary, 1 << (most - 1).bit_length())
    filled = [np.r_[words, vocabulary : vocabulary + size - len(words)] for words in found]
    return np.stack(filled).astype(np.int32)


def renumber(tokens: jax.Array, words: jax.Array, vocabulary: int) -> jax.Array:
    """Replaces word ids, all in ``words`` [W], by their places there; 0 remains 0."""
    places = jnp.arange(len(words), dtype=tokens.dtype)
    numbers = jnp.zeros(vocabulary, tokens.dtype).at[words].set(places, mode="drop")
    return numbers[tokens]


def take_rows(table: jax.Array, words: jax.Array) -> jax.Array:
    """Rows [W, D] of a table [V, D]; zero for words past its end, which fill up ``words``."""
    return table.at[words].get(mode="fill", fill_value=0, indices_are_sorted=True)


def put_rows(table: jax.Array, words: jax.Array, rows: jax.Array, idle: jax.Array) -> jax.Array:
    """A table [V, D] with trained rows in their places and all others shrunk by ``idle``."""
    return (
        (table * idle)
        .at[words]
        .set(rows, mode="drop", indices_are_sorted=True, unique_indices=True)
    )
