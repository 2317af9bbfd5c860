"""TextRNN: a bidirectional GRU over word embeddings, pooled by additive attention."""

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Classifier, Dense, dropout, uniform

EMBEDDING_BOUND = 0.25


class TextRNN(Classifier):
    """Word ids [B, T] (0 after the end of the document) -> logits [B, K].

    The two directions lie on a leading axis of 2 (forward, backward); the gates of the GRU on
    the last axis, in the order reset, update, candidate.
    """

    table = "embedding"

    def __init__(self, config: ModelConfig, vocabulary_size: int, labels: int, rngs: nnx.Rngs):
        table = uniform(rngs, (vocabulary_size, config.embedding), EMBEDDING_BOUND)
        self.embedding = nnx.Param(table[...].at[0].set(0))
        bound, gates = config.hidden**-0.5, 3 * config.hidden
        self.input_kernel = uniform(rngs, (2, config.embedding, gates), bound)
        self.input_bias = uniform(rngs, (2, gates), bound)
        self.state_kernel = uniform(rngs, (2, config.hidden, gates), bound)
        self.state_bias = uniform(rngs, (2, gates), bound)
        self.attention = Dense(2 * config.hidden, config.attention, rngs)
        self.query = uniform(rngs, (config.attention,), config.attention**-0.5)
        self.output = Dense(2 * config.hidden, labels, rngs)
        self.rate = config.dropout

    def features(self, inputs: jax.Array) -> jax.Array:
        """The attention-weighted mean [B, 2 * hidden] of the states of the document's words."""
        live = inputs != 0  # [B, T]
        states = self._states(self.embedding[...][inputs], live)  # [B, T, 2 * hidden]
        scores = jnp.tanh(self.attention(states)) @ self.query[...]  # [B, T]
        highest = jnp.max(scores, axis=1, keepdims=True, where=live, initial=-1e30)
        weights = jnp.where(live, jnp.exp(jnp.where(live, scores - highest, 0)), 0)
        total = jnp.sum(weights, axis=1, keepdims=True)
        weights = weights / jnp.maximum(total, jnp.finfo(weights.dtype).tiny)
        return jnp.einsum("bt,bth->bh", weights, states)

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        return self.output(dropout(key, self.rate, features))

    def _states(self, words: jax.Array, live: jax.Array) -> jax.Array:
        """States of both directions side by side [B, T, 2 * hidden]; zero before they start."""
        projected = jnp.einsum("btd,zdg->tzbg", words, self.input_kernel[...])
        projected = projected + self.input_bias[...][None, :, None, :]
        steps = jnp.stack([projected[:, 0], projected[::-1, 1]], axis=1)  # [T, 2, B, 3H]
        alive = jnp.stack([live.T, live.T[::-1]], axis=1)[..., None]  # [T, 2, B, 1]
        hidden = self.state_kernel.shape[1]
        state = jnp.zeros((2, words.shape[0], hidden), words.dtype)
        _, states = jax.lax.scan(self._step, state, (steps, alive))  # [T, 2, B, H]
        both = jnp.concatenate([states[:, 0], states[::-1, 1]], axis=2)
        return jnp.swapaxes(both, 0, 1)

    def _step(self, state, step):
        """One word of both directions; a padding word leaves the state as it is."""
        projected, alive = step
        recurrent = jnp.einsum("zbh,zhg->zbg", state, self.state_kernel[...])
        recurrent = recurrent + self.state_bias[...][:, None, :]
        reset_in, update_in, candidate_in = jnp.split(projected, 3, axis=2)
        reset_state, update_state, candidate_state = jnp.split(recurrent, 3, axis=2)
        reset = jax.nn.sigmoid(reset_in + reset_state)
        update = jax.nn.sigmoid(update_in + update_state)
        candidate = jnp.tanh(candidate_in + reset * candidate_state)
        state = jnp.where(alive, candidate + update * (state - candidate), state)
        return state, state
