"""DistilBERT and BERT-family encoders, after the published architectures, as a classifier.

Sanh et al. 2019 (DistilBERT), Devlin et al. 2019 (BERT): post-norm transformer layers over word
and learnt position embeddings; BERT adds token types, all 0 here, and one more dropout.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Model, Params, dropout, hashed_dropout
from crabjax.models.pretrained import Architecture, load_parameters, read_architecture
from crabjax.models.pretrained_files import resolve_pretrained


def build_distilbert(config: ModelConfig, labels: int) -> Model:
    """A pretrained encoder with a classification head, all of it trained.

    ``init`` gives the pretrained weights, with a fresh head unless the files hold one; it reads
    no files, but its arrays are large: call it outside jit and pass the result in.

    Args:
      config: ``pretrained``, ``precision`` and ``rematerialise`` are used.
      labels: K.
    """
    folder = resolve_pretrained(config.pretrained)
    architecture = read_architecture(folder)
    shapes = parameter_shapes(architecture, labels)
    loaded = load_parameters(folder, architecture.family, shapes)
    return transformer_classifier(
        architecture, labels, loaded, config.precision, config.rematerialise
    )


def transformer_classifier(
    architecture: Architecture,
    labels: int,
    loaded: Mapping[str, Any] | None = None,
    precision: str = "float32",
    rematerialise: bool = False,
) -> Model:
    """A classifier of the given architecture.

    Args:
      architecture: of the encoder.
      labels: K.
      loaded: ``encoder`` and perhaps ``head`` parameters to start from; drawn where absent.
      precision: "bfloat16" computes in bfloat16, with parameters, norms, softmax and logits in
        float32.
      rematerialise: recompute each layer in the backward pass instead of keeping its activations.

    Returns:
      The model; ``features`` is what the last linear map reads, [B, D].
    """
    loaded = {} if loaded is None else loaded
    make_encoder = partial(Encoder, architecture, jnp.dtype(precision), rematerialise)
    make_head = partial(Head, architecture, labels)
    encoder_definition = _definition(make_encoder)
    head_definition = _definition(make_head)

    def init(key: jax.Array) -> Params:
        encoder_key, head_key = jax.random.split(key)
        return {
            "encoder": _copy(loaded.get("encoder")) or _draw(make_encoder, encoder_key),
            "head": _copy(loaded.get("head")) or _draw(make_head, head_key),
        }

    def vectors(params: Params, inputs: jax.Array, key: jax.Array | None) -> jax.Array:
        states = nnx.merge(encoder_definition, params["encoder"])(inputs, key)
        return nnx.merge(head_definition, params["head"]).features(states[:, 0])

    def apply(params: Params, inputs: jax.Array, key: jax.Array | None = None) -> jax.Array:
        encoder_key, head_key = split_key(key, 2)
        head = nnx.merge(head_definition, params["head"])
        return head.logits(vectors(params, inputs, encoder_key), head_key)

    return Model(init, apply, features=lambda params, inputs: vectors(params, inputs, None))


def parameter_shapes(architecture: Architecture, labels: int | None = None) -> dict[str, Any]:
    """Shapes of the parameters: of the encoder and, given labels, of the head."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    make_encoder = partial(Encoder, architecture, jnp.dtype("float32"), False)
    shapes = {"encoder": jax.eval_shape(partial(_draw, make_encoder), key)}
    if labels is not None:
        make_head = partial(Head, architecture, labels)
        shapes["head"] = jax.eval_shape(partial(_draw, make_head), key)
    return shapes


def split_key(key: jax.Array | None, count: int) -> Sequence[jax.Array | None]:
    """Several keys out of one; none out of none."""
    return [None] * count if key is None else list(jax.random.split(key, count))


class Encoder(nnx.Module):
    """Token ids to token states. Token id 0 is padding and is never attended to."""

    def __init__(self, architecture: Architecture, dtype, rematerialise: bool, *, rngs: nnx.Rngs):
        self.positions = architecture.positions
        self.rematerialise = rematerialise
        self.embeddings = Embeddings(architecture, dtype, rngs=rngs)
        self.layers = nnx.Dict(
            {str(i): Layer(architecture, dtype, rngs=rngs) for i in range(architecture.layers)}
        )

    def __call__(self, tokens: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """States after the last layer, [B, T, D], of tokens [B, T]; a key turns dropout on."""
        return self.hidden_states(tokens, key)[-1]

    def hidden_states(self, tokens: jax.Array, key: jax.Array | None = None) -> list[jax.Array]:
        """States after the embeddings and after every layer, each [B, T, D]."""
        if tokens.shape[1] > self.positions:
            raise ValueError(
                f"tokens: expected at most {self.positions} a document, as the encoder has "
                f"positions, found {tokens.shape[1]}"
            )
        count = len(self.layers) + 1
        keys = split_key(key, count)
        call = nnx.remat(Layer.__call__) if self.rematerialise else Layer.__call__
        states = [self.embeddings(tokens, keys[0])]
        for index in range(1, count):
            layer = self.layers[str(index - 1)]
            states.append(call(layer, states[-1], tokens != 0, keys[index]))
        return states


class Embeddings(nnx.Module):
    """Word, position and, for BERT, token-type embeddings, summed and normalised."""

    def __init__(self, architecture: Architecture, dtype, *, rngs: nnx.Rngs):
        scale = nnx.initializers.normal(architecture.initial_scale)
        embed = partial(nnx.Embed, features=architecture.width, embedding_init=scale, rngs=rngs)
        self.words = embed(architecture.vocabulary)
        self.positions = embed(architecture.positions)
        if architecture.token_types:
            self.token_types = embed(architecture.token_types)
        self.norm = _norm(architecture, rngs)
        self.rate = architecture.dropout
        self.dtype = dtype
        self.has_token_types = architecture.token_types > 0

    def __call__(self, tokens: jax.Array, key: jax.Array | None) -> jax.Array:
        shared = self.positions.embedding[...][: tokens.shape[1]]  # [T, D]
        if self.has_token_types:
            shared = shared + self.token_types.embedding[...][:1]
        states = self.norm(self.words(tokens) + shared[None])
        return hashed_dropout(key, self.rate, states).astype(self.dtype)


class Layer(nnx.Module):
    """Self-attention and a feed-forward block, each added to its input and then normalised."""

    def __init__(self, architecture: Architecture, dtype, *, rngs: nnx.Rngs):
        linear = partial(_linear, architecture, dtype=dtype, rngs=rngs)
        self.attention = Attention(architecture, dtype, rngs=rngs)
        self.attention_norm = _norm(architecture, rngs)
        self.expand = linear(architecture.width, architecture.inner)
        self.contract = linear(architecture.inner, architecture.width)
        self.output_norm = _norm(architecture, rngs)
        # BERT drops out of both branches, DistilBERT of the feed-forward branch only.
        self.attention_rate = architecture.dropout if architecture.family == "bert" else 0.0
        self.output_rate = architecture.dropout
        self.dtype = dtype

    def __call__(self, states: jax.Array, mask: jax.Array, key: jax.Array | None) -> jax.Array:
        """States [B, T, D], mask [B, T] True at real tokens -> states [B, T, D]."""
        weights_key, attention_key, output_key = split_key(key, 3)
        attended = self.attention(states, mask, weights_key)
        attended = hashed_dropout(attention_key, self.attention_rate, attended)
        states = self.attention_norm(states + attended).astype(self.dtype)
        inner = jax.nn.gelu(self.expand(states), approximate=False)
        output = hashed_dropout(output_key, self.output_rate, self.contract(inner))
        return self.output_norm(states + output).astype(self.dtype)


class Attention(nnx.Module):
    """Scaled dot-product self-attention over several heads."""

    def __init__(self, architecture: Architecture, dtype, *, rngs: nnx.Rngs):
        width = architecture.width
        linear = partial(_linear, architecture, width, width, dtype=dtype, rngs=rngs)
        self.query, self.key, self.value, self.output = linear(), linear(), linear(), linear()
        self.rate = architecture.attention_dropout
        self.heads = architecture.heads

    def __call__(self, states: jax.Array, mask: jax.Array, dropout_key) -> jax.Array:
        """States [B, T, D], mask [B, T] True at real tokens -> [B, T, D]."""

        def split(projected):  # [B, T, D] -> [B, heads, T, D / heads]
            return projected.reshape(*projected.shape[:2], self.heads, -1).swapaxes(1, 2)

        query, key, value = (split(part(states)) for part in (self.query, self.key, self.value))
        scores = (query @ key.swapaxes(2, 3)).astype(jnp.float32) / query.shape[-1] ** 0.5
        # A finite floor, so that a row of nothing but padding gives numbers, not NaN.
        scores = jnp.where(mask[:, None, None, :], scores, jnp.finfo(jnp.float32).min)
        highest = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
        weights = jnp.exp(scores - highest)  # [B, heads, T, T]
        # The softmax divides after the product, over D / heads columns instead of T: up to 2.5
        # times faster on CPU than dividing the weights.
        total = weights.sum(axis=-1, keepdims=True).astype(value.dtype)
        weights = hashed_dropout(dropout_key, self.rate, weights).astype(value.dtype)
        mixed = (weights @ value) / total
        return self.output(mixed.swapaxes(1, 2).reshape(states.shape))


class Head(nnx.Module):
    """Hugging Face's classification head: dense, ReLU, dropout, dense; always in float32."""

    def __init__(self, architecture: Architecture, labels: int, *, rngs: nnx.Rngs):
        linear = partial(_linear, architecture, dtype=jnp.dtype("float32"), rngs=rngs)
        self.dense = linear(architecture.width, architecture.width)
        self.output = linear(architecture.width, labels)
        self.rate = architecture.head_dropout

    def features(self, first: jax.Array) -> jax.Array:
        """State of the first token [B, D] -> document vector [B, D]."""
        return jax.nn.relu(self.dense(first))

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        """Document vector [B, D] -> logits [B, K]."""
        return self.output(dropout(key, self.rate, features))


def _linear(architecture: Architecture, inputs: int, outputs: int, *, dtype, rngs) -> nnx.Linear:
    scale = nnx.initializers.normal(architecture.initial_scale)
    return nnx.Linear(inputs, outputs, dtype=dtype, kernel_init=scale, rngs=rngs)


def _norm(architecture: Architecture, rngs: nnx.Rngs) -> nnx.LayerNorm:
    """In float32, in two passes: E[x^2] - E[x]^2 loses digits an epsilon of 1e-12 cannot mask."""
    return nnx.LayerNorm(
        architecture.width,
        epsilon=architecture.epsilon,
        use_fast_variance=False,
        dtype=jnp.float32,
        rngs=rngs,
    )


def _draw(make, key: jax.Array) -> dict[str, Any]:
    return nnx.to_pure_dict(nnx.state(make(rngs=nnx.Rngs(params=key))))


def _definition(make) -> nnx.GraphDef:
    return nnx.graphdef(nnx.eval_shape(lambda: make(rngs=nnx.Rngs(0))))


def _copy(params: Mapping[str, Any] | None) -> Any:
    return jax.tree.map(jnp.array, params)
