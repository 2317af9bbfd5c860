"""What every classifier is to the rest of the package: three pure functions of its parameters.

A classifier is a module of parameters, found by name::

    @register_classifier("mine")
    class Mine(Classifier):
        def __init__(self, config, input_size, labels, rngs): ...
        def features(self, inputs): ...
        def logits(self, features, key): ...
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx

from crabjax.config import ConfigError, ModelConfig
from crabjax.files import did_you_mean

Params = dict[str, Any]

Recomputed = Literal["nothing", "cheap", "layers"]
"""What a backward pass computes again: nothing, all but large matrix products, whole layers."""


class UnknownClassifierError(ConfigError):
    """No classifier is registered under this name."""


class Apply(Protocol):
    """Logits of a batch; dropout only where a key is given."""

    def __call__(
        self, params: Params, inputs: jax.Array, key: jax.Array | None = None
    ) -> jax.Array: ...


class Model(NamedTuple):
    """A classifier as pure functions; parameters are nested dicts of arrays.

    Attributes:
      init: ``init(key) -> params``.
      apply: ``apply(params, inputs [B, ...], key=None) -> logits [B, K]``.
      features: ``features(params, inputs [B, ...]) -> [B, D]``, the document vectors.
      table: name of the parameter [V, D] whose rows are looked up by word id and used in no other
        way, if there is one; row 0, padding, is zero. Training then leaves out idle rows.
      streaming: whether on CPU ``apply`` needs little more memory for many rows than for few.
      ignores_padding: whether zeros after the end of a document change nothing, so that short
        documents may be predicted in narrower batches.
      recomputing: ``recomputing(what)``, the same model with more or less of it computed again in
        the backward pass, to save memory; None where there is no choice.
    """

    init: Callable[[jax.Array], Params]
    apply: Apply
    features: Callable[[Params, jax.Array], jax.Array]
    table: str | None = None
    streaming: bool = False
    ignores_padding: bool = False
    recomputing: Callable[["Recomputed"], "Model"] | None = None


class Classifier(nnx.Module):
    """A module of parameters only: document vectors, then logits from document vectors.

    ``table``, ``streaming`` and ``ignores_padding`` are those of :class:`Model`.
    """

    table: str | None = None
    streaming: bool = False
    ignores_padding: bool = False

    @abstractmethod
    def features(self, inputs: jax.Array) -> jax.Array:
        """Document vectors [B, D] of a batch."""

    @abstractmethod
    def logits(self, features: jax.Array, key: jax.Array | None) -> jax.Array:
        """Logits [B, K] from document vectors [B, D]; dropout only with a key."""


def as_model(build: Callable[[nnx.Rngs], Classifier]) -> Model:
    """Turns a module into a :class:`Model` of pure dicts, splitting it once.

    Args:
      build: makes the module from its random streams; it must keep no random state.
    """
    abstract = nnx.eval_shape(lambda: build(nnx.Rngs(0)))
    graph, _ = nnx.split(abstract)

    @jax.jit
    def init(key: jax.Array) -> Params:
        return nnx.to_pure_dict(nnx.state(build(nnx.Rngs(key))))

    def apply(params: Params, inputs: jax.Array, key: jax.Array | None = None) -> jax.Array:
        module = nnx.merge(graph, params)
        return module.logits(module.features(inputs), key)

    def features(params: Params, inputs: jax.Array) -> jax.Array:
        return nnx.merge(graph, params).features(inputs)

    known = abstract.table, abstract.streaming, abstract.ignores_padding
    return Model(init, apply, features, *known)


Build = Callable[[ModelConfig, int, int], Model]
"""``build(config, input_size, labels)``: the model of a configuration."""

Kind = TypeVar("Kind", bound=Callable[[ModelConfig, int, int, nnx.Rngs], Classifier])

_registry: dict[str, Build] = {}


def register_classifier(name: str) -> Callable[[Kind], Kind]:
    """Makes the decorated :class:`Classifier` available to ``build_model`` as ``name``.

    Args:
      name: what ``model.name`` calls it. The class is called with the model's settings, the
        number of word ids (padding included), the number of labels and random streams.
    """

    def decorate(kind: Kind) -> Kind:
        def build(config: ModelConfig, input_size: int, labels: int) -> Model:
            return as_model(lambda rngs: kind(config, input_size, labels, rngs))

        register_builder(name, build)
        return kind

    return decorate


def register_builder(name: str, build: Build) -> None:
    """As :func:`register_classifier`, for what comes with parameters of its own."""
    if name in _registry:
        raise ValueError(f"classifier {name!r} is already registered")
    _registry[name] = build


def get_builder(name: str) -> Build:
    """What makes the classifier registered as ``name``.

    Raises:
      UnknownClassifierError: listing the known names and the nearest one.
    """
    if name not in _registry:
        known, hint = ", ".join(classifier_names()), did_you_mean(name, classifier_names())
        raise UnknownClassifierError(f"model.name: expected one of {known}, found {name!r}{hint}")
    return _registry[name]


def classifier_names() -> list[str]:
    """The names of all registered classifiers, sorted."""
    return sorted(_registry)


def look_up(table: jax.Array, tokens: jax.Array) -> jax.Array:
    """Word vectors [..., D] of word ids [...]; zero for padding (0), whose row gets no gradient.

    Padding reads past the end of the table, so its gradient is dropped and not added to one row,
    where all documents would wait for each other.
    """
    beyond = jnp.where(tokens == 0, len(table), tokens)
    return table.at[beyond].get(mode="fill", fill_value=0)


def dropout(key: jax.Array | None, rate: float, values: jax.Array) -> jax.Array:
    """Zeroes each value with probability ``rate`` and scales up the rest; no key, no change."""
    if key is None or rate == 0:
        return values
    kept = jax.random.bernoulli(key, 1 - rate, values.shape)
    return jnp.where(kept, values / (1 - rate), 0)


def uniform(rngs: nnx.Rngs, shape: tuple[int, ...], bound: float) -> nnx.Param:
    """A parameter drawn uniformly from (-bound, bound)."""
    return nnx.Param(jax.random.uniform(rngs.params(), shape, minval=-bound, maxval=bound))


def word_table(rngs: nnx.Rngs, words: int, width: int) -> nnx.Param:
    """Word vectors [V, D], uniform within 1/4; padding (0) is zero."""
    return nnx.Param(uniform(rngs, (words, width), 0.25)[...].at[0].set(0))


class Dense(nnx.Module):
    """An affine map [..., D] -> [..., F], weights and bias uniform within 1 / sqrt(D)."""

    def __init__(self, inputs: int, outputs: int, rngs: nnx.Rngs):
        self.kernel = uniform(rngs, (inputs, outputs), inputs**-0.5)
        self.bias = uniform(rngs, (outputs,), inputs**-0.5)

    def __call__(self, values: jax.Array) -> jax.Array:
        bias = self.bias[...].reshape((1,) * (values.ndim - 1) + (-1,))
        return values @ self.kernel[...] + bias
