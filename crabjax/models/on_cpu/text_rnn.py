"""TextRNN's document vectors, from groups of documents of similar length."""

from typing import Any

import jax
import jax.numpy as jnp

from crabjax.models.on_cpu.gru import CHUNK, run_gru

GROUP = 25  # documents read together: few stay in a core's cache


def read_documents(reader: Any, tokens: jax.Array) -> jax.Array:
    """``text_rnn.read_documents``; a group of documents is read no further than it needs."""
    documents, places = tokens.shape
    size = min(documents, GROUP)
    order = jnp.argsort(-jnp.sum(tokens != 0, axis=1))
    padding = (0, -documents % size), (0, -places % CHUNK)
    groups = jnp.pad(tokens[order], padding).reshape(-1, size, places + padding[1][1])
    # Few groups go through the unit together, which saves work in the backward pass; of many, the
    # states of one are kept at a time.
    if len(groups) <= 2:
        vectors = _read_groups(reader, groups)
    else:
        vectors = jax.lax.map(lambda group: _read_groups(reader, group[None])[0], groups)
    vectors = vectors.reshape(-1, vectors.shape[-1])[:documents]
    return jnp.zeros_like(vectors).at[order].set(vectors)


def _read_groups(reader: Any, groups: jax.Array) -> jax.Array:
    """Document vectors [G, B, 2 * H] of groups of documents [G, B, T]."""
    words = jnp.swapaxes(groups, 1, 2)  # [G, T, B]
    lengths = jnp.sum(words != 0, axis=1)
    # Backward, a document is read from its last word; what follows is never looked at.
    mirror = jnp.maximum(lengths[:, None] - 1 - jnp.arange(words.shape[1])[None, :, None], 0)
    both = jnp.stack([words, jnp.take_along_axis(words, mirror, axis=1)], axis=1)
    forward, backward = run_gru(reader.table, reader.unit, both, lengths)  # [G, T + 1, B, H]
    return _pool(reader, forward, backward, lengths)


def _pool(reader: Any, forward: jax.Array, backward: jax.Array, lengths: jax.Array) -> jax.Array:
    """Additive attention [G, B, 2 * H] over words.

    Word p, from 1, is at p in ``forward`` and at length + 1 - p in ``backward``; before the
    first word, at 0, there is none. Small arrays are mirrored, never the states.
    """
    word = jnp.arange(forward.shape[1])[None, :, None]  # [1, T + 1, 1]
    live = (word > 0) & (word <= lengths[:, None])  # [G, T + 1, B]
    mirror = jnp.where(live, lengths[:, None] + 1 - word, 0)
    of_forward, of_backward = jnp.split(reader.kernel, 2)
    reversed_part = jnp.take_along_axis(backward @ of_backward, mirror[..., None], axis=1)
    bias = reader.bias[None, None, None, :]
    scores = jnp.tanh(forward @ of_forward + reversed_part + bias) @ reader.query
    scores = jnp.where(live, scores, -1e30)
    weights = jnp.where(live, jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True)), 0)
    total = jnp.sum(weights, axis=1, keepdims=True)
    weights = weights / jnp.maximum(total, jnp.finfo(weights.dtype).tiny)
    mirrored = jnp.where(live, jnp.take_along_axis(weights, mirror, axis=1), 0)
    pooled = _weighted_sum(forward, weights), _weighted_sum(backward, mirrored)
    return jnp.concatenate(pooled, axis=2)


@jax.custom_vjp
def _weighted_sum(states: jax.Array, weights: jax.Array) -> jax.Array:
    """Sum over words: [G, T, B, H] and [G, T, B] -> [G, B, H].

    Step by step: as one reduction over an axis in the middle, it takes XLA up to 30 times longer
    on CPU.
    """

    def add(word, total):
        here = [jax.lax.dynamic_index_in_dim(a, word, 1, keepdims=False) for a in (states, weights)]
        return total + here[0] * here[1][..., None]

    return jax.lax.fori_loop(0, states.shape[1], add, jnp.zeros_like(states[:, 0]))


def _weighted_sum_forward(states, weights):
    return _weighted_sum(states, weights), (states, weights)


def _weighted_sum_backward(saved, gradient):
    states, weights = saved
    gradient = gradient[:, None]  # [G, 1, B, H]
    return weights[..., None] * gradient, jnp.sum(states * gradient, axis=3)


_weighted_sum.defvjp(_weighted_sum_forward, _weighted_sum_backward)
