"""DistilBERT and BERT-family encoders as a classifier of documents by their first token."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Model, Params, Recomputed, dropout
from crabjax.models.encoder import Encoder, linear_map
from crabjax.models.pretrained import Architecture, load_parameters, read_architecture
from crabjax.models.pretrained_files import resolve_pretrained


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

    @cache  # equal models, so that nothing is compiled twice
    def recomputing(what: Recomputed) -> Model:
        definition = _definition(partial(Encoder, architecture, jnp.dtype(precision), what))

        def vectors(params: Params, inputs: jax.Array, key: jax.Array | None) -> jax.Array:
            states = nnx.merge(definition, params["encoder"])(inputs, key, read=1)
            return nnx.merge(head_definition, params["head"]).features(states[:, 0])

        def apply(params: Params, inputs: jax.Array, key: jax.Array | None = None) -> jax.Array:
            encoder_key, head_key = (None, None) if key is None else jax.random.split(key)
            head = nnx.merge(head_definition, params["head"])
            return head.logits(vectors(params, inputs, encoder_key), head_key)

        features = lambda params, inputs: vectors(params, inputs, None)
        return Model(init, apply, features, ignores_padding=True, recomputing=recomputing)

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


class Head(nnx.Module):
    """Hugging Face's classification head: dense, ReLU, dropout, dense; always in float32."""

    def __init__(self, architecture: Architecture, labels: int, *, rngs: nnx.Rngs):
        linear = partial(linear_map, architecture, dtype=jnp.dtype("float32"), rngs=rngs)
        self.dense = linear(architecture.width, architecture.width)
        self.output = linear(architecture.width, labels)
        self.rate = architecture.head_dropout

    def features(self, first: jax.Array) -> jax.Array:
        """State of the first token [B, D] -> document vector [B, D]."""
        return jax.nn.relu(self.dense(first))

    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        """Document vector [B, D] -> logits [B, K]."""
        return self.output(dropout(key, self.rate, features))


def _draw(make, key: jax.Array) -> dict[str, Any]:
    return nnx.to_pure_dict(nnx.state(make(rngs=nnx.Rngs(params=key))))


def _definition(make) -> nnx.GraphDef:
    return nnx.graphdef(nnx.eval_shape(lambda: make(rngs=nnx.Rngs(0))))


def _copy(params: Mapping[str, Any] | None) -> Any:
    return jax.tree.map(jnp.array, params)
