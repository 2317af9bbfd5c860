"""A small head on precomputed document features: what is trained when the encoder is frozen."""

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Classifier, Dense, dropout


class FrozenHead(Classifier):
    """Dropout, dense + ReLU, dropout, dense: float32 features [B, D] -> logits [B, K].

    Every feature vector is first scaled to a root mean square of one. Sentence encoders give
    vectors of length one, whose entries are so small that a head barely moves in its first epochs:
    with 100 documents and 37 labels, micro-F1 was 0.13 without the scaling and 0.44 with it.
    """

    def __init__(self, config: ModelConfig, inputs: int, labels: int, rngs: nnx.Rngs):
        self.hidden = Dense(inputs, config.hidden, rngs)
        self.output = Dense(config.hidden, labels, rngs)
        self.rate, self.input_rate = config.dropout, config.input_dropout

    def features(self, inputs: jax.Array) -> jax.Array:
        """What is read of documents [B, D], vectors and words, scaled."""
        mean_square = jnp.mean(inputs**2, axis=-1, keepdims=True)
        return inputs / jnp.sqrt(jnp.maximum(mean_square, jnp.finfo(inputs.dtype).tiny))

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        input_key = None if key is None else jax.random.fold_in(key, 1)
        hidden = jax.nn.relu(self.hidden(dropout(input_key, self.input_rate, features)))
        return self.output(dropout(key, self.rate, hidden))
