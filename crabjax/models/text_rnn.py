"""TextRNN: a bidirectional GRU over word embeddings, pooled by additive attention."""

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Classifier, Dense, dropout, uniform
from crabjax.models.on_cpu.gru import CHUNK, GRU, run_gru

EMBEDDING_BOUND = 0.25


def group_size() -> int:
    """Documents read together: few stay in a core's cache, many keep an accelerator busy."""
    return 25 if jax.default_backend() == "cpu" else 100


class TextRNN(Classifier):
    """Word ids [B, T] (0 after the end of the document) -> logits [B, K].

    Kernels and biases of the GRU have two leading axes: the gates reset, update, candidate, and
    the directions forward, backward. (Gates side by side on the last axis would keep compilers
    from vectorising the step.)
    """

    table = "embedding"
    streaming = True

    def __init__(self, config: ModelConfig, vocabulary_size: int, labels: int, rngs: nnx.Rngs):
        table = uniform(rngs, (vocabulary_size, config.embedding), EMBEDDING_BOUND)
        self.embedding = nnx.Param(table[...].at[0].set(0))
        bound = config.hidden**-0.5
        self.input_kernel = uniform(rngs, (3, 2, config.embedding, config.hidden), bound)
        self.input_bias = uniform(rngs, (3, 2, config.hidden), bound)
        self.state_kernel = uniform(rngs, (3, 2, config.hidden, config.hidden), bound)
        self.state_bias = uniform(rngs, (3, 2, config.hidden), bound)
        self.attention = Dense(2 * config.hidden, config.attention, rngs)
        self.query = uniform(rngs, (config.attention,), config.attention**-0.5)
        self.output = Dense(2 * config.hidden, labels, rngs)
        self.hidden = config.hidden
        self.rate = config.dropout

    def features(self, inputs: jax.Array) -> jax.Array:
        """The attention-weighted mean [B, 2 * hidden] of the states of the document's words.

        Documents are taken in groups of similar length, each read no further than it needs.
        """
        documents, tokens = inputs.shape
        size = min(documents, group_size())
        order = jnp.argsort(-jnp.sum(inputs != 0, axis=1))
        padding = (0, -documents % size), (0, -tokens % CHUNK)
        groups = jnp.pad(inputs[order], padding).reshape(-1, size, tokens + padding[1][1])
        # Few groups go through the unit together, which saves work in the backward pass; of
        # many, the states of one are kept at a time.
        if len(groups) <= 2:
            vectors = self._group_features(groups)
        else:
            vectors = jax.lax.map(lambda group: self._group_features(group[None])[0], groups)
        vectors = vectors.reshape(-1, 2 * self.hidden)[:documents]
        return jnp.zeros_like(vectors).at[order].set(vectors)

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        return self.output(dropout(key, self.rate, features))

    def _group_features(self, groups: jax.Array) -> jax.Array:
        """Document vectors [G, B, 2 * hidden] of groups of documents [G, B, T]."""
        words = jnp.swapaxes(groups, 1, 2)  # [G, T, B]
        lengths = jnp.sum(words != 0, axis=1)
        # Backward, a document is read from its last word; what follows is never looked at.
        mirror = jnp.maximum(lengths[:, None] - 1 - jnp.arange(words.shape[1])[None, :, None], 0)
        both = jnp.stack([words, jnp.take_along_axis(words, mirror, axis=1)], axis=1)
        unit = GRU(
            self.embedding[...],
            self.input_kernel[...],
            self.input_bias[...],
            self.state_kernel[...],
            self.state_bias[...],
        )
        forward, backward = run_gru(unit, both, lengths)  # [G, T + 1, B, H]
        return self._pool(forward, backward, lengths)

    def _pool(self, forward: jax.Array, backward: jax.Array, lengths: jax.Array) -> jax.Array:
        """Additive attention [G, B, 2 * H] over words.

        Word p, from 1, is at p in ``forward`` and at length + 1 - p in ``backward``; before the
        first word, at 0, there is none. Small arrays are mirrored, never the states.
        """
        word = jnp.arange(forward.shape[1])[None, :, None]  # [1, T + 1, 1]
        live = (word > 0) & (word <= lengths[:, None])  # [G, T + 1, B]
        mirror = jnp.where(live, lengths[:, None] + 1 - word, 0)
        kernel, hidden = self.attention.kernel[...], self.hidden
        reversed_part = jnp.take_along_axis(backward @ kernel[hidden:], mirror[..., None], axis=1)
        bias = self.attention.bias[...][None, None, None, :]
        scores = jnp.tanh(forward @ kernel[:hidden] + reversed_part + bias) @ self.query[...]
        scores = jnp.where(live, scores, -1e30)
        weights = jnp.where(live, jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True)), 0)
        total = jnp.sum(weights, axis=1, keepdims=True)
        weights = weights / jnp.maximum(total, jnp.finfo(weights.dtype).tiny)
        mirrored = jnp.where(live, jnp.take_along_axis(weights, mirror, axis=1), 0)
        pooled = [
            _weighted_sum(states, weight)
            for states, weight in ((forward, weights), (backward, mirrored))
        ]
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
