"""Document vectors from a frozen pretrained encoder, computed once for a whole corpus."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from crabjax.checks import check_not_empty, check_rank
from crabjax.devices.batches import side_by_side
from crabjax.models.encoder import Encoder
from crabjax.models.pretrained import (
    Architecture,
    Pooling,
    load_parameters,
    read_architecture,
    read_pooling,
)
from crabjax.models.pretrained_files import find_pretrained, resolve_pretrained
from crabjax.models.transformer import parameter_shapes

# Lengths that batches are padded to: each costs a compilation, each gap costs wasted tokens.
LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
WINDOW = 1 << 16  # documents that are sorted by length together

_Encoded = tuple[np.ndarray, np.ndarray]


def vector_width(pretrained: str) -> int:
    """D of the vectors that an encoder gives; reads its configuration, not its weights."""
    return read_architecture(find_pretrained(pretrained)).width


def encode_documents(
    pretrained: str,
    tokens: np.ndarray,
    batch_size: int = 32,
    precision: str = "float32",
    start: int = 0,
) -> Iterator[_Encoded]:
    """One vector a document, pooled as the encoder's files say.

    Documents are taken in order of length, so that a batch is padded little beyond its longest;
    of many, a window after the other, so that they need not be in memory.

    Args:
      pretrained: a folder or hub name; see :func:`resolve_pretrained`.
      tokens: int32 [N, T] from the encoder's own tokenizer, 0 is padding.
      batch_size: documents in one call of the compiled program.
      precision: "float32" or "bfloat16", of the computation.
      start: documents, in this order, that are left out.

    Yields:
      Rows of ``tokens`` [b], and their vectors float32 [b, D]. A document without tokens gets
      zeros where vectors are means.
    """
    check_rank("tokens", tokens, "NT")
    check_not_empty("tokens", tokens)
    folder = resolve_pretrained(pretrained)
    architecture = read_architecture(folder)
    pooling = read_pooling(folder, architecture.family)
    loaded = load_parameters(folder, architecture.family, parameter_shapes(architecture))
    params = jax.tree.map(jnp.asarray, loaded["encoder"])
    rows = min(batch_size, 1 << (len(tokens) - 1).bit_length())

    def encode_batch(batch: np.ndarray, own: np.ndarray, length: int) -> _Encoded:
        padded = _pad(own, rows, _bucket(length, architecture))
        vectors = _vectors(params, padded, architecture, pooling, precision)
        return batch, np.asarray(vectors)[: len(batch)]

    first = start - start % WINDOW
    for window in range(first, len(tokens), WINDOW):
        own = np.asarray(tokens[window : window + WINDOW])
        lengths = ((own != 0) * np.arange(1, own.shape[1] + 1)).max(axis=1)
        _check_tokens(own, lengths, architecture, pretrained)
        order = np.argsort(-lengths, kind="stable")  # the longest first: the last batch is cheap
        order = order[max(0, start - window) :]
        parts = [order[at : at + rows] for at in range(0, len(order), rows)]
        batches = ((window + part, own[part], int(lengths[part].max())) for part in parts)
        yield from side_by_side(lambda batch: encode_batch(*batch), batches)


@partial(jax.jit, static_argnames=("architecture", "pooling", "precision"))
def _vectors(
    params: dict[str, Any],
    tokens: jax.Array,
    architecture: Architecture,
    pooling: Pooling,
    precision: str,
) -> jax.Array:
    """Tokens [B, T] -> document vectors [B, D], float32."""
    make = partial(Encoder, architecture, jnp.dtype(precision), "nothing")
    definition = nnx.graphdef(nnx.eval_shape(lambda: make(rngs=nnx.Rngs(0))))
    encode = nnx.merge(definition, params)
    states = encode(tokens, read=None if pooling.mean else 1).astype(jnp.float32)  # [B, T or 1, D]
    return pool_states(states, tokens != 0, pooling)


def pool_states(states: jax.Array, mask: jax.Array, pooling: Pooling) -> jax.Array:
    """Token states [B, T, D] and mask [B, T], True at real tokens -> document vectors [B, D]."""
    vectors = states[:, 0]
    if pooling.mean:
        real = mask.astype(states.dtype)
        count = jnp.maximum(real.sum(axis=1, keepdims=True), 1)
        vectors = jnp.einsum("btd,bt->bd", states, real) / count
    if pooling.normalise:
        length = jnp.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / jnp.maximum(length, 1e-12)
    return vectors


def _bucket(length: int, architecture: Architecture) -> int:
    longer = [one for one in LENGTHS if one >= length] or [architecture.positions]
    return min(longer[0], architecture.positions)


def _pad(tokens: np.ndarray, rows: int, length: int) -> np.ndarray:
    """Cut or filled up with 0 to [rows, length], int32."""
    padded = np.zeros((rows, length), np.int32)
    kept = tokens[:, :length]
    padded[: len(kept), : kept.shape[1]] = kept
    return padded


def _check_tokens(
    tokens: np.ndarray, lengths: np.ndarray, architecture: Architecture, pretrained: str
) -> None:
    longest = int(lengths.max())
    if longest > architecture.positions:
        raise ValueError(
            f"tokens: expected at most {architecture.positions} a document for {pretrained}, "
            f"found {longest}; encode with a smaller max_tokens"
        )
    if tokens.min() < 0 or tokens.max() >= architecture.vocabulary:
        found = f"{tokens.min()} to {tokens.max()}"
        raise ValueError(
            f"tokens: expected ids from 0 to {architecture.vocabulary - 1} for {pretrained}, "
            f"found {found}; encode with its own tokenizer"
        )
