"""TextCNN: convolutions of several widths over word embeddings, ReLU, max over time."""

import functools

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models import on_cpu
from crabjax.models.base import Classifier, Dense, dropout, look_up, uniform, word_table


class TextCNN(Classifier):
    """Word ids [B, T] (0 after the end of the document) -> logits [B, K].

    The kernels of all widths lie in one array [W, D, F], W = sum(widths): the first ``widths[0]``
    slices belong to the first width, and so on. A document of length L has L + width - 1 windows
    of a width, each touching at least one of its words; windows of padding alone do not count.
    """

    table = "embedding"
    streaming = True
    ignores_padding = True

    def __init__(self, config: ModelConfig, vocabulary_size: int, labels: int, rngs: nnx.Rngs):
        self.embedding = word_table(rngs, vocabulary_size, config.embedding)
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
        pooled = jax.lax.platform_dependent(
            self.embedding[...],
            self.kernel[...],
            inputs,
            cpu=functools.partial(on_cpu.max_convolution, tuple(self.widths)),
            default=functools.partial(max_convolution, tuple(self.widths)),
        )
        return jax.nn.relu(pooled + self.bias[...][None, :])

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        return self.output(dropout(key, self.rate, features))


def max_convolution(
    widths: tuple[int, ...], table: jax.Array, kernel: jax.Array, tokens: jax.Array
) -> jax.Array:
    """The largest response of every kernel over all windows that touch a document.

    All widths are one matrix product: a narrow kernel is a wide one that begins with zeros.

    Args:
      widths: of the kernels.
      table: word vectors [V, D]; row 0 is read as zero and gets no gradient.
      kernel: [sum(widths), D, F], the slices of one width after those of another.
      tokens: int32 [B, T], 0 after the end of the document.

    Returns:
      [B, len(widths) * F]; -inf for documents without words.
    """
    reach = max(widths) - 1  # a window may end this far after the last word
    padded = jnp.pad(look_up(table, tokens), ((0, 0), (reach, reach), (0, 0)))
    ends = tokens.shape[1] + reach
    windows = jnp.stack([padded[:, j : j + ends] for j in range(reach + 1)], axis=2)
    responses = jnp.einsum("btjd,jdf->btf", windows, _same_width(widths, kernel))
    lengths = jnp.sum(tokens != 0, axis=1)[:, None, None]
    beyond = jnp.repeat(jnp.array(widths) - 1, kernel.shape[2])[None, None, :]
    touches = (jnp.arange(ends)[None, :, None] < lengths + beyond) & (lengths > 0)
    return jnp.max(jnp.where(touches, responses, -jnp.inf), axis=1)


def _same_width(widths: tuple[int, ...], kernel: jax.Array) -> jax.Array:
    """[sum(widths), D, F] -> [max(widths), D, len(widths) * F], zeros first."""
    parts, first = [], 0
    for width in widths:
        slices = kernel[first : first + width]
        parts.append(jnp.pad(slices, ((max(widths) - width, 0), (0, 0), (0, 0))))
        first += width
    return jnp.concatenate(parts, axis=2)
