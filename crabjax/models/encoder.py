"""Encoders of the BERT family: token ids to token states.

Sanh et al. 2019 (DistilBERT), Devlin et al. 2019 (BERT): post-norm transformer layers over word
and learnt position embeddings; BERT adds token types, all 0 here, and one more dropout.
"""

from functools import partial
from operator import itemgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

from crabjax.models.attention import attend
from crabjax.models.base import Recomputed
from crabjax.models.hashed_dropout import Noise, draw_noise, hashed_dropout
from crabjax.models.pretrained import Architecture

_POLICIES = jax.checkpoint_policies
# By what the backward pass computes again, what it finds kept.
_KEPT = {
    "nothing": None,
    "cheap": _POLICIES.save_only_these_names("mixed"),
    "layers": _POLICIES.nothing_saveable,
}


class Encoder(nnx.Module):
    """Token ids to token states. Token id 0 is padding and is never attended to.

    The parameters of all layers lie side by side, [layers, ...]: one loop runs over them.
    """

    def __init__(
        self, architecture: Architecture, dtype, recomputed: Recomputed, *, rngs: nnx.Rngs
    ):
        self.positions = architecture.positions
        self.count = architecture.layers
        self.recomputed: Recomputed = recomputed
        self.embeddings = Embeddings(architecture, dtype, rngs=rngs)
        make = nnx.vmap(lambda rngs: Layer(architecture, dtype, rngs=rngs))
        self.layers = make(rngs.split(architecture.layers))

    def __call__(
        self, tokens: jax.Array, key: jax.Array | None = None, read: int | None = None
    ) -> jax.Array:
        """States after the last layer.

        Args:
          tokens: [B, T].
          key: turns dropout on.
          read: how many tokens' states, from the first, are wanted, None for all. The last layer
            computes no others: of six layers that is a seventh of the work, where one is read.

        Returns:
          [B, read, D].
        """
        if tokens.shape[1] > self.positions:
            raise ValueError(
                f"tokens: expected at most {self.positions} a document, as the encoder has "
                f"positions, found {tokens.shape[1]}"
            )
        keys = None if key is None else jax.random.split(key, self.count + 1)
        first = self.embeddings(tokens, None if keys is None else keys[0])
        definition, params = nnx.split(self.layers)
        # A layer begins with the norm that ends the one before: what the loop hands on, and the
        # backward pass finds, is then all that a norm needs, and nothing else is kept for it.
        norm, norms = nnx.split(self.layers.output_norm)
        before = jax.tree.map(lambda one: jnp.roll(one, 1, axis=0), norms)

        def layer(read, sums, own):
            params, before, is_first, floor, noise = own
            states = nnx.merge(norm, before)(sums).astype(sums.dtype)
            states = jnp.where(is_first, sums, states)
            return nnx.merge(definition, params)(states[:, :read], states, floor, noise), None

        # Without a loop nothing is copied into and out of what it keeps for all layers, but
        # compilers take longer and see nothing that could be computed again.
        keep_all = (policy := _KEPT[self.recomputed]) is None
        if not keep_all:
            layer = jax.checkpoint(layer, prevent_cse=False, policy=policy, static_argnums=0)
        draw = partial(self.layers.draw_noise, first.shape)
        noise = None if keys is None else jax.vmap(draw)(keys[1:])
        own = params, before, jnp.arange(self.count) == 0, self._floor(tokens), noise
        but_last, last = (jax.tree.map(itemgetter(rows), own) for rows in (slice(-1), -1))
        sums, _ = jax.lax.scan(partial(layer, None), first, but_last, unroll=keep_all)
        sums, _ = layer(read, sums, last)
        return nnx.merge(norm, jax.tree.map(itemgetter(-1), norms))(sums).astype(sums.dtype)

    def _floor(self, tokens: jax.Array) -> jax.Array:
        """What a softmax adds to the scores, [layers, B, T], low at padding.

        Finite, so that a row of nothing but padding gives numbers, not NaN. One for each layer:
        what is the same for all of them JAX makes before the loop, as large as the scores.
        """
        floor = jnp.where(tokens != 0, 0, jnp.finfo(jnp.float32).min / 2)
        return jnp.broadcast_to(floor, (self.count, *floor.shape))


class Embeddings(nnx.Module):
    """Word, position and, for BERT, token-type embeddings, summed and normalised."""

    def __init__(self, architecture: Architecture, dtype, *, rngs: nnx.Rngs):
        scale = nnx.initializers.normal(architecture.initial_scale)
        embed = partial(nnx.Embed, features=architecture.width, embedding_init=scale, rngs=rngs)
        self.words = embed(architecture.vocabulary)
        self.positions = embed(architecture.positions)
        if architecture.token_types:
            self.token_types = embed(architecture.token_types)
        self.norm = _norm(architecture, jnp.dtype("float32"), rngs)
        self.rate = architecture.dropout
        self.dtype = dtype
        self.has_token_types = architecture.token_types > 0

    def __call__(self, tokens: jax.Array, key: jax.Array | None) -> jax.Array:
        shared = self.positions.embedding[...][: tokens.shape[1]]  # [T, D]
        if self.has_token_types:
            shared = shared + self.token_types.embedding[...][:1]
        # In float32 the sum, read by every pass of the norm, is a tenth of prediction on a TPU.
        states = self.norm((self.words(tokens) + shared[None]).astype(self.dtype))
        noise = draw_noise(key, self.rate, states.shape)
        return hashed_dropout(noise, self.rate, states).astype(self.dtype)


class LayerNoise(NamedTuple):
    """What dropout draws for a layer; None where the rate is 0."""

    weights: Noise | None
    attended: Noise | None
    output: Noise | None


class Layer(nnx.Module):
    """Self-attention and a feed-forward block, each added to its input and then normalised."""

    def __init__(self, architecture: Architecture, dtype, *, rngs: nnx.Rngs):
        linear = partial(linear_map, architecture, dtype=dtype, rngs=rngs)
        self.attention = Attention(architecture, dtype, rngs=rngs)
        self.attention_norm = _norm(architecture, dtype, rngs)
        self.expand = linear(architecture.width, architecture.inner)
        self.contract = linear(architecture.inner, architecture.width)
        self.output_norm = _norm(architecture, dtype, rngs)
        # BERT drops out of both branches, DistilBERT of the feed-forward branch only.
        self.attention_rate = architecture.dropout if architecture.family == "bert" else 0.0
        self.output_rate = architecture.dropout
        self.dtype = dtype

    def draw_noise(self, shape: tuple[int, ...], key: jax.Array) -> LayerNoise:
        """The noise of a layer for states of a shape [B, T, D]."""
        keys, (documents, tokens, _) = jax.random.split(key, 3), shape
        weights = documents, self.attention.heads, tokens, tokens
        return LayerNoise(
            draw_noise(keys[0], self.attention.rate, weights),
            draw_noise(keys[1], self.attention_rate, shape),
            draw_noise(keys[2], self.output_rate, shape),
        )

    def __call__(
        self, own: jax.Array, states: jax.Array, floor: jax.Array, noise: LayerNoise | None
    ) -> jax.Array:
        """What ``output_norm`` makes the next states of, for the first R tokens.

        Args:
          own: their states [B, R, D].
          states: of all tokens [B, T, D].
          floor: of the scores [B, T], low at padding.
          noise: of all tokens.
        """
        first = lambda one: one and one.first(own.shape[1])
        of_weights, of_attended, of_output = map(first, noise or (None, None, None))
        attended = self.attention(own, states, floor, of_weights)
        attended = hashed_dropout(of_attended, self.attention_rate, attended)
        states = self.attention_norm(own + attended).astype(self.dtype)
        output = self.contract(_gelu(self.expand(states)))
        output = hashed_dropout(of_output, self.output_rate, output)
        return states + output


class Attention(nnx.Module):
    """Scaled dot-product self-attention over several heads."""

    def __init__(self, architecture: Architecture, dtype, *, rngs: nnx.Rngs):
        width = architecture.width
        linear = partial(linear_map, architecture, width, width, dtype=dtype, rngs=rngs)
        self.query, self.key, self.value, self.output = linear(), linear(), linear(), linear()
        self.rate = architecture.attention_dropout
        self.heads = architecture.heads

    def __call__(
        self, own: jax.Array, states: jax.Array, floor: jax.Array, noise: Noise | None
    ) -> jax.Array:
        """Those who ask [B, R, D], whom they ask [B, T, D], floor [B, T] -> [B, R, D]."""

        asked = self.key(states), self.value(states)
        mixed = attend(self.query(own), *asked, floor, self.heads, noise, self.rate)
        return self.output(checkpoint_name(mixed, "mixed"))


def linear_map(architecture: Architecture, inputs: int, outputs: int, *, dtype, rngs) -> nnx.Linear:
    scale = nnx.initializers.normal(architecture.initial_scale)
    return nnx.Linear(inputs, outputs, dtype=dtype, kernel_init=scale, rngs=rngs)


def _norm(architecture: Architecture, dtype, rngs: nnx.Rngs) -> nnx.LayerNorm:
    """In float32, for values of ``dtype``.

    In two passes for float32: E[x^2] - E[x]^2 loses digits. Of bfloat16 values they are lost.
    """
    return nnx.LayerNorm(
        architecture.width,
        epsilon=architecture.epsilon,
        use_fast_variance=dtype != jnp.float32,
        dtype=jnp.float32,
        rngs=rngs,
    )


def _gelu(values: jax.Array) -> jax.Array:
    """x P(X < x) for a standard normal X, computed in float32.

    Of bfloat16 by erf, which compilers make part of the neighbouring operations, unlike erfc.
    """
    if values.dtype == jnp.float32:
        return jax.nn.gelu(values, approximate=False)
    wide = values.astype(jnp.float32)
    return (0.5 * wide * (1 + jax.lax.erf(wide * 0.5**0.5))).astype(values.dtype)
