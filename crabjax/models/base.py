"""What every classifier is to the rest of the package: three pure functions of its parameters."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from flax import nnx

Params = dict[str, Any]


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
      streaming: whether ``apply`` needs little more memory for many rows than for few.
    """

    init: Callable[[jax.Array], Params]
    apply: Apply
    features: Callable[[Params, jax.Array], jax.Array]
    table: str | None = None
    streaming: bool = False


class Classifier(nnx.Module):
    """A module of parameters only: document vectors, then logits from document vectors.

    ``table`` and ``streaming`` are those of :class:`Model`.
    """

    table: str | None = None
    streaming: bool = False

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

    return Model(init, apply, features, abstract.table, abstract.streaming)


def dropout(key: jax.Array | None, rate: float, values: jax.Array) -> jax.Array:
    """Zeroes each value with probability ``rate`` and scales up the rest; no key, no change."""
    if key is None or rate == 0:
        return values
    kept = jax.random.bernoulli(key, 1 - rate, values.shape)
    return jnp.where(kept, values / (1 - rate), 0)


def hashed_dropout(key: jax.Array | None, rate: float, values: jax.Array) -> jax.Array:
    """As :func:`dropout`, for large arrays: a random number per row and per column, hashed.

    A random number of its own for every value takes ten times as long on CPU as a pass over the
    values.
    """
    if key is None or rate == 0:
        return values
    row_key, column_key = jax.random.split(key)
    rows = jax.random.bits(row_key, (*values.shape[:-1], 1))
    columns = jax.random.bits(column_key, (1,) * (values.ndim - 1) + values.shape[-1:])
    kept = _mixed(rows + columns) >= jnp.uint32(round(rate * 2**32))
    return jnp.where(kept, values / (1 - rate), 0)


def _mixed(bits: jax.Array) -> jax.Array:
    """The final mix of MurmurHash3: every bit of a uint32 goes into every bit of the result."""
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> 13)) * jnp.uint32(0xC2B2AE35)
    return bits ^ (bits >> 16)


def uniform(rngs: nnx.Rngs, shape: tuple[int, ...], bound: float) -> nnx.Param:
    """A parameter drawn uniformly from (-bound, bound)."""
    return nnx.Param(jax.random.uniform(rngs.params(), shape, minval=-bound, maxval=bound))


class Dense(nnx.Module):
    """An affine map [..., D] -> [..., F], weights and bias uniform within 1 / sqrt(D)."""

    def __init__(self, inputs: int, outputs: int, rngs: nnx.Rngs):
        self.kernel = uniform(rngs, (inputs, outputs), inputs**-0.5)
        self.bias = uniform(rngs, (outputs,), inputs**-0.5)

    def __call__(self, values: jax.Array) -> jax.Array:
        bias = self.bias[...].reshape((1,) * (values.ndim - 1) + (-1,))
        return values @ self.kernel[...] + bias
