"""TextRNN: a bidirectional GRU over word embeddings, pooled by additive attention."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models import on_cpu
from crabjax.models.base import Classifier, Dense, dropout, look_up, uniform, word_table
from crabjax.models.gru import GRU, run_gru


class Reader(NamedTuple):
    """What turns documents into vectors.

    Attributes:
      table: word vectors [V, D]; row 0 is read as zero and gets no gradient.
      unit: reads the words.
      kernel: of the attention [2 * H, A], forward states first.
      bias: [A].
      query: [A].
    """

    table: jax.Array
    unit: GRU
    kernel: jax.Array
    bias: jax.Array
    query: jax.Array


class TextRNN(Classifier):
    """Word ids [B, T] (0 after the end of the document) -> logits [B, K].

    Kernels and biases of the GRU have two leading axes: the gates reset, update, candidate, and
    the directions forward, backward.
    """

    table = "embedding"
    streaming = True
    ignores_padding = True

    def __init__(self, config: ModelConfig, vocabulary_size: int, labels: int, rngs: nnx.Rngs):
        self.embedding = word_table(rngs, vocabulary_size, config.embedding)
        bound = config.hidden**-0.5
        self.input_kernel = uniform(rngs, (3, 2, config.embedding, config.hidden), bound)
        self.input_bias = uniform(rngs, (3, 2, config.hidden), bound)
        self.state_kernel = uniform(rngs, (3, 2, config.hidden, config.hidden), bound)
        self.state_bias = uniform(rngs, (3, 2, config.hidden), bound)
        self.attention = Dense(2 * config.hidden, config.attention, rngs)
        self.query = uniform(rngs, (config.attention,), config.attention**-0.5)
        self.output = Dense(2 * config.hidden, labels, rngs)
        self.rate = config.dropout

    def features(self, inputs: jax.Array) -> jax.Array:
        """The attention-weighted mean [B, 2 * H] of the states of the document's words."""
        kernels = self.input_kernel, self.input_bias, self.state_kernel, self.state_bias
        attention = self.attention.kernel[...], self.attention.bias[...], self.query[...]
        unit = GRU(*(kernel[...] for kernel in kernels))
        reader = Reader(self.embedding[...], unit, *attention)
        return jax.lax.platform_dependent(
            reader, inputs, cpu=on_cpu.read_documents, default=read_documents
        )

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        return self.output(dropout(key, self.rate, features))


def read_documents(reader: Reader, tokens: jax.Array) -> jax.Array:
    """Document vectors [B, 2 * H] of word ids [B, T]."""
    # The barrier keeps compilers from carrying the order of documents and words into the scan,
    # whose every step would then pick single rows out of tiles.
    words = jax.lax.optimization_barrier(tokens.T)  # [T, B]
    live = words != 0
    states = run_gru(reader.unit, look_up(reader.table, words), live)  # [T, B, 2 * H]
    hidden, size = len(reader.kernel) // 2, len(reader.query)
    # Small arrays are turned round in time, never the states.
    parts = states @ jax.scipy.linalg.block_diag(*jnp.split(reader.kernel, 2))  # [T, B, 2 * A]
    summed = parts[:, :, :size] + jnp.flip(parts[:, :, size:], 0) + reader.bias.reshape(1, 1, size)
    scores = jnp.where(live, jnp.tanh(summed) @ reader.query, -1e30)
    weights = jnp.where(live, jax.nn.softmax(scores, axis=0), 0)[:, :, None]
    first = (jnp.arange(2 * hidden) < hidden)[None, None, :]
    return jnp.sum(jnp.where(first, weights, jnp.flip(weights, 0)) * states, axis=0)
