"""A small head on precomputed document features: what is trained when the encoder is frozen."""

import jax
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Classifier, Dense, dropout


class FrozenHead(Classifier):
    """Dense + ReLU, dropout, dense: float32 features [B, D] -> logits [B, K]."""

    def __init__(self, config: ModelConfig, inputs: int, labels: int, rngs: nnx.Rngs):
        self.hidden = Dense(inputs, config.hidden, rngs)
        self.output = Dense(config.hidden, labels, rngs)
        self.rate = config.dropout

    def features(self, inputs: jax.Array) -> jax.Array:
        """The hidden layer [B, hidden]."""
        return jax.nn.relu(self.hidden(inputs))

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        return self.output(dropout(key, self.rate, features))
