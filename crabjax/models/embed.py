"""Document vectors from a frozen pretrained encoder, computed once for a whole corpus."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tqdm import tqdm

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
from crabjax.models.pretrained_files import resolve_pretrained
from crabjax.models.transformer import parameter_shapes

# Lengths that batches are padded to: each costs a compilation, each gap costs wasted tokens.
LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def encode_documents(
    pretrained: str, tokens: np.ndarray, batch_size: int = 32, precision: str = "float32"
) -> np.ndarray:
    """One vector a document, pooled as the encoder's files say.

    Documents are taken in order of length, so that a batch is padded little beyond its longest.

    Args:
      pretrained: a folder or hub name; see :func:`resolve_pretrained`.
      tokens: int32 [N, T] from the encoder's own tokenizer, 0 is padding.
      batch_size: documents in one call of the compiled program.
      precision: "float32" or "bfloat16", of the computation.

    Returns:
      float32 [N, D]. A document without tokens gets zeros where vectors are means.
    """
    check_rank("tokens", tokens, "NT")
    check_not_empty("tokens", tokens)
    folder = resolve_pretrained(pretrained)
    architecture = read_architecture(folder)
    lengths = ((tokens != 0) * np.arange(1, tokens.shape[1] + 1)).max(axis=1)  # [N]
    _check_tokens(tokens, lengths, architecture, pretrained)
    pooling = read_pooling(folder, architecture.family)
    loaded = load_parameters(folder, architecture.family, parameter_shapes(architecture))
    params = jax.tree.map(jnp.asarray, loaded["encoder"])
    order = np.argsort(-lengths, kind="stable")  # longest first: the last batch is the cheap one
    rows = min(batch_size, 1 << (len(tokens) - 1).bit_length())
    encoded = np.empty((len(tokens), architecture.width), np.float32)

    def encode_batch(start: int) -> int:
        batch = order[start : start + rows]
        padded = _pad(tokens[batch], rows, _bucket(int(lengths[batch].max()), architecture))
        vectors = _vectors(params, padded, architecture, pooling, precision)
        encoded[batch] = np.asarray(vectors)[: len(batch)]
        return len(batch)

    with _bar(len(tokens), pretrained) as bar:
        for done in side_by_side(encode_batch, range(0, len(tokens), rows)):
            bar.update(done)
    return encoded


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


def _bar(documents: int, name: str) -> tqdm:
    """Shown on a terminal, if it takes more than a few seconds."""
    return tqdm(total=documents, unit="documents", desc=f"encoding ({name})", disable=None, delay=3)


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
