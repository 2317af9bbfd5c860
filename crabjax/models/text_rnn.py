"""TextRNN: a bidirectional GRU over word embeddings, pooled by additive attention."""

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Classifier, Dense, dropout, uniform
from crabjax.models.gru import CHUNK, GRU, run_gru

EMBEDDING_BOUND = 0.25
GROUP = 25  # documents


class TextRNN(Classifier):
    """Word ids [B, T] (0 after the end of the document) -> logits [B, K].

    Kernels and biases of the GRU have two leading axes: the gates reset, update, candidate, and
    the directions forward, backward. (Gates side by side on the last axis would keep compilers
    from vectorising the step.)
    """

    table = "embedding"

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

        Documents are taken in groups of similar length, each no longer than it needs to be.
        """
        documents, tokens = inputs.shape
        order = jnp.argsort(-jnp.sum(inputs != 0, axis=1))
        padding = (0, -documents % GROUP), (0, -tokens % CHUNK)
        groups = jnp.pad(inputs[order], padding).reshape(-1, GROUP, tokens + padding[1][1])
        words = jnp.swapaxes(groups, 1, 2)  # [G, T, GROUP]
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
        forward, backward = run_gru(unit, both, lengths)  # [G, T + 1, GROUP, H]
        vectors = self._pool(forward, backward, lengths).reshape(-1, 2 * self.hidden)
        return jnp.zeros_like(vectors[:documents]).at[order].set(vectors[:documents])

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        return self.output(dropout(key, self.rate, features))

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
            jnp.sum(states * weight[..., None], axis=1)
            for states, weight in ((forward, weights), (backward, mirrored))
        ]
        return jnp.concatenate(pooled, axis=2)
