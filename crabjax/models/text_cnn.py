"""TextCNN: convolutions of several widths over word embeddings, ReLU, max over time."""

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Classifier, Dense, dropout, uniform

EMBEDDING_BOUND = 0.25


class TextCNN(Classifier):
    """Word ids [B, T] (0 after the end of the document) -> logits [B, K].

    The kernels of all widths lie in one array [W, D, F], W = sum(widths): the first ``widths[0]``
    slices belong to the first width, and so on. A document of length L has L + width - 1 windows
    of a width, each touching at least one of its words; windows of padding alone do not count.
    """

    def __init__(self, config: ModelConfig, vocabulary_size: int, labels: int, rngs: nnx.Rngs):
        table = uniform(rngs, (vocabulary_size, config.embedding), EMBEDDING_BOUND)
        self.embedding = nnx.Param(table[...].at[0].set(0))
        bounds = [(width * config.embedding) ** -0.5 for width in config.widths]
        shapes = [(width, config.embedding, config.kernels) for width in config.widths]
        kernels = [uniform(rngs, shape, bound)[...] for shape, bound in zip(shapes, bounds)]
        biases = [uniform(rngs, (config.kernels,), bound)[...] for bound in bounds]
        self.kernel = nnx.Param(jnp.concatenate(kernels))  # [W, D, F]
        self.bias = nnx.Param(jnp.concatenate(biases))  # [widths * F]
        self.output = Dense(len(config.widths) * config.kernels, labels, rngs)
        self.widths = config.widths
        self.rate = config.dropout

    def features(self, inputs: jax.Array) -> jax.Array:
        """The largest response of every kernel [B, widths * F]."""
        words = self.embedding[...][inputs]  # [B, T, D]
        words = jnp.where((inputs != 0)[:, :, None], words, 0)
        lengths = jnp.sum(inputs != 0, axis=1)
        starts = [sum(self.widths[:i]) for i in range(len(self.widths))]
        pooled = [
            _max_response(words, lengths, self.kernel[...][start : start + width])
            for start, width in zip(starts, self.widths)
        ]
        return jax.nn.relu(jnp.concatenate(pooled, axis=1) + self.bias[...][None, :])

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        return self.output(dropout(key, self.rate, features))


def _max_response(words: jax.Array, lengths: jax.Array, kernel: jax.Array) -> jax.Array:
    """The largest response [B, F] of kernels [w, D, F] over all windows that touch a document."""
    width, _, outputs = kernel.shape
    padded = jnp.pad(words, ((0, 0), (width - 1, width - 1), (0, 0)))
    windows = words.shape[1] + width - 1
    unfolded = jnp.concatenate([padded[:, i : i + windows] for i in range(width)], axis=2)
    responses = unfolded @ kernel.reshape(-1, outputs)  # [B, windows, F]
    touches = jnp.arange(windows)[None, :] < (lengths + width - 1)[:, None]
    return jnp.max(responses, axis=1, where=touches[:, :, None], initial=-jnp.inf)
