"""TextCNN: convolutions of several widths over word embeddings, ReLU, max over time."""

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Classifier, Dense, dropout, uniform
from crabjax.models.max_convolution import max_convolution

EMBEDDING_BOUND = 0.25


class TextCNN(Classifier):
    """Word ids [B, T] (0 after the end of the document) -> logits [B, K].

    The kernels of all widths lie in one array [W, D, F], W = sum(widths): the first ``widths[0]``
    slices belong to the first width, and so on. A document of length L has L + width - 1 windows
    of a width, each touching at least one of its words; windows of padding alone do not count.
    """

    table = "embedding"
    streaming = True

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
        pooled: jax.Array = max_convolution(
            self.embedding[...], self.kernel[...], inputs, tuple(self.widths)
        )
        return jax.nn.relu(pooled + self.bias[...][None, :])

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        return self.output(dropout(key, self.rate, features))
