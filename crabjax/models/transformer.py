"""DistilBERT and BERT-family encoders, after the published architectures, as a classifier.

Sanh et al. 2019 (DistilBERT), Devlin et al. 2019 (BERT): post-norm transformer layers over word
and learnt position embeddings; BERT adds token types, all 0 here, and one more dropout.
"""

import functools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

from crabjax.config import ModelConfig
from crabjax.models.base import Model, Params, Recomputed, dropout
from crabjax.models.hashed_dropout import Noise, draw_noise, hashed_dropout
from crabjax.models.pretrained import Architecture, load_parameters, read_architecture
from crabjax.models.pretrained_files import resolve_pretrained

_POLICIES = jax.checkpoint_policies
# By what the backward pass computes again, what it finds kept.
_KEPT = {
    "nothing": None,
    "cheap": _POLICIES.save_only_these_names("mixed"),
    "layers": _POLICIES.nothing_saveable,
}


def build_distilbert(config: ModelConfig, labels: int) -> Model:
    """A pretrained encoder with a classification head, all of it trained.

    ``init`` gives the pretrained weights, with a fresh head unless the files hold one; it reads
    no files, but its arrays are large: call it outside jit and pass the result in.

    Args:
      config: ``pretrained`` and ``precision``, which must be decided, are used.
      labels: K.
    """
    folder = resolve_pretrained(config.pretrained)
    architecture = read_architecture(folder)
    shapes = parameter_shapes(architecture, labels)
    loaded = load_parameters(folder, architecture.family, shapes)
    return transformer_classifier(architecture, labels, loaded, config.precision)


def transformer_classifier(
    architecture: Architecture,
    labels: int,
    loaded: Mapping[str, Any] | None = None,
    precision: str = "float32",
) -> Model:
    """A classifier of the given architecture.

    Args:
      architecture: of the encoder.
      labels: K.
      loaded: ``encoder`` and perhaps ``head`` parameters to start from; drawn where absent.
      precision: "bfloat16" computes in bfloat16, with parameters, norms, softmax and logits in
        float32.

    Returns:
      The model; ``features`` is what the last linear map reads, [B, D].
    """
    loaded = {} if loaded is None else loaded
    make_head = partial(Head, architecture, labels)
    head_definition = _definition(make_head)

    def init(key: jax.Array) -> Params:
        encoder_key, head_key = jax.random.split(key)
        make_encoder = partial(Encoder, architecture, jnp.dtype(precision), "nothing")
        return {
            "encoder": _copy(loaded.get("encoder")) or _draw(make_encoder, encoder_key),
            "head": _copy(loaded.get("head")) or _draw(make_head, head_key),
        }

    @functools.cache  # equal models, so that nothing is compiled twice
    def recomputing(what: Recomputed) -> Model:
        definition = _definition(partial(Encoder, architecture, jnp.dtype(precision), what))

        def vectors(params: Params, inputs: jax.Array, key: jax.Array | None) -> jax.Array:
            states = nnx.merge(definition, params["encoder"])(inputs, key)
            return nnx.merge(head_definition, params["head"]).features(states[:, 0])

        def apply(params: Params, inputs: jax.Array, key: jax.Array | None = None) -> jax.Array:
            encoder_key, head_key = split_key(key, 2)
            head = nnx.merge(head_definition, params["head"])
            return head.logits(vectors(params, inputs, encoder_key), head_key)

        features = lambda params, inputs: vectors(params, inputs, None)
        return Model(init, apply, features, recomputing=recomputing)

    return recomputing("nothing")


def parameter_shapes(architecture: Architecture, labels: int | None = None) -> dict[str, Any]:
    """Shapes of the parameters: of the encoder and, given labels, of the head."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    make_encoder = partial(Encoder, architecture, jnp.dtype("float32"), "nothing")
    shapes = {"encoder": jax.eval_shape(partial(_draw, make_encoder), key)}
    if labels is not None:
        make_head = partial(Head, architecture, labels)
        shapes["head"] = jax.eval_shape(partial(_draw, make_head), key)
    return shapes


def split_key(key: jax.Array | None, count: int) -> Sequence[jax.Array | None]:
    """Several keys out of one; none out of none."""
    return [None] * count if key is None else list(jax.random.split(key, count))


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

    def __call__(self, tokens: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """States after the last layer, [B, T, D], of tokens [B, T]; a key turns dropout on."""
        return self._run(tokens, key, lambda norm, sums: None)[1]

    def hidden_states(self, tokens: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """States after the embeddings and after every layer, [layers + 1, B, T, D]."""
        first, _, after = self._run(tokens, key, lambda norm, sums: norm(sums))
        return jnp.concatenate([first[None], after])

    def _run(self, tokens, key, kept):
        """The first states, the last ones, and what is ``kept`` of those after each layer."""
        if tokens.shape[1] > self.positions:
            raise ValueError(
                f"tokens: expected at most {self.positions} a document, as the encoder has "
                f"positions, found {tokens.shape[1]}"
            )
        keys = None if key is None else jax.random.split(key, self.count + 1)
        first = self.embeddings(tokens, None if keys is None else keys[0])
        definition, params = nnx.split(self.layers)
        draw = partial(self.layers.draw_noise, first.shape)
        noise = None if keys is None else jax.vmap(draw)(keys[1:])
        # What a softmax adds to the scores [B, T]: finite, so that a row of nothing but padding
        # gives numbers, not NaN. One for each layer: what is the same for all of them JAX makes
        # before the loop, as large as the scores it is added to.
        floor = jnp.where(tokens != 0, 0, jnp.finfo(jnp.float32).min / 2)
        floor = jnp.broadcast_to(floor, (self.count, *floor.shape))
        # A layer begins with the norm that ends the one before: what the loop hands on, and the
        # backward pass finds, is then all that a norm needs, and nothing else is kept for it.
        norm, norms = nnx.split(self.layers.output_norm)
        before = jax.tree.map(lambda one: jnp.roll(one, 1, axis=0), norms)

        def layer(sums, own):
            params, before, is_first, floor, noise = own
            states = nnx.merge(norm, before)(sums).astype(sums.dtype)
            states = jnp.where(is_first, sums, states)
            one = nnx.merge(definition, params)
            sums = one(states, floor, noise)
            return sums, kept(one.output_norm, sums)

        # Without a loop nothing is copied into and out of what it keeps for all layers, but
        # compilers take longer and see nothing that could be computed again.
        keep_all = (policy := _KEPT[self.recomputed]) is None
        if not keep_all:
            layer = jax.checkpoint(layer, prevent_cse=False, policy=policy)
        own = params, before, jnp.arange(self.count) == 0, floor, noise
        sums, after = jax.lax.scan(layer, first, own, unroll=keep_all)
        last = nnx.merge(norm, jax.tree.map(lambda one: one[-1], norms))
        return first, last(sums).astype(sums.dtype), after


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
        states = self.norm(self.words(tokens) + shared[None])
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
        linear = partial(_linear, architecture, dtype=dtype, rngs=rngs)
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

    def __call__(self, states: jax.Array, floor: jax.Array, noise: LayerNoise | None) -> jax.Array:
        """States [B, T, D], floor [B, T] of the scores, low at padding -> what ``output_norm``
        makes the next states of [B, T, D]."""
        of_weights, of_attended, of_output = (None, None, None) if noise is None else noise
        attended = self.attention(states, floor, of_weights)
        attended = hashed_dropout(of_attended, self.attention_rate, attended)
        states = self.attention_norm(states + attended).astype(self.dtype)
        output = self.contract(_gelu(self.expand(states)))
        output = hashed_dropout(of_output, self.output_rate, output)
        return states + output


class Attention(nnx.Module):
    """Scaled dot-product self-attention over several heads."""

    def __init__(self, architecture: Architecture, dtype, *, rngs: nnx.Rngs):
        width = architecture.width
        linear = partial(_linear, architecture, width, width, dtype=dtype, rngs=rngs)
        self.query, self.key, self.value, self.output = linear(), linear(), linear(), linear()
        self.rate = architecture.attention_dropout
        self.heads = architecture.heads

    def __call__(self, states: jax.Array, floor: jax.Array, noise: Noise | None) -> jax.Array:
        """States [B, T, D], floor [B, T] of the scores -> [B, T, D]."""

        def project(part):  # [B, T, D] -> [B, heads, T, D / heads]
            return part(states).reshape(*states.shape[:2], self.heads, -1).swapaxes(1, 2)

        query, key, value = map(project, (self.query, self.key, self.value))
        scores = (query @ key.swapaxes(2, 3)).astype(jnp.float32)
        scores = scores / query.shape[-1] ** 0.5 + floor[:, None, None, :]
        highest = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
        # What lies in memory between the two matrix products has the dtype of the states.
        lower = (scores - highest).astype(value.dtype)  # [B, heads, T, T]
        weights = jnp.exp(lower.astype(jnp.float32))
        # The softmax divides after the product, over D / heads columns instead of T: up to 2.5
        # times faster on CPU than dividing the weights.
        total = weights.sum(axis=-1, keepdims=True).astype(value.dtype)
        weights = hashed_dropout(noise, self.rate, weights).astype(value.dtype)
        mixed = ((weights @ value) / total).swapaxes(1, 2).reshape(states.shape)
        return self.output(checkpoint_name(mixed, "mixed"))


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


def _draw(make, key: jax.Array) -> dict[str, Any]:
    return nnx.to_pure_dict(nnx.state(make(rngs=nnx.Rngs(params=key))))


def _definition(make) -> nnx.GraphDef:
    return nnx.graphdef(nnx.eval_shape(lambda: make(rngs=nnx.Rngs(0))))


def _copy(params: Mapping[str, Any] | None) -> Any:
    return jax.tree.map(jnp.array, params)
