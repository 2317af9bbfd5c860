"""Convolution over words followed by the maximum over time, without what a dense one wastes.

Most of a dense convolution is spent on padding, on words already seen, and on gradients of windows
that lose the maximum. Here the distinct words of a batch are multiplied with all kernel slices
once; a response is then a sum of rows of that product; only blocks of windows that touch a
document are visited; and the backward pass goes through the winning window of each document and
kernel alone.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import sequential_vmap

TILE = 512  # words multiplied with the kernels at a time
FEW = 8 * TILE  # distinct words most training steps have; room for more takes longer to clear
BLOCK = 32  # windows in a block
CHUNK = 32  # blocks visited at a time


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def max_convolution(
    widths: tuple[int, ...], table: jax.Array, kernel: jax.Array, tokens: jax.Array
) -> jax.Array:
    """``text_cnn.max_convolution``; members under vmap are visited one after another."""
    return _one_by_one(_responses, widths)(table, kernel, tokens)


def _forward(widths, table, kernel, tokens):
    values, windows = _one_by_one(_winners, widths)(table, kernel, tokens)
    return values, (table, kernel, tokens, windows)


def _backward(widths, saved, gradient):
    return *_one_by_one(_gradients, widths)(*saved, gradient), None


max_convolution.defvjp(_forward, _backward)


@functools.cache
def _one_by_one(function, widths):
    return sequential_vmap(functools.partial(function, widths))


def _responses(widths, table, kernel, tokens):
    words, places, count = _distinct(tokens, len(table))
    products = _project(len(words), table, kernel, words, count)
    return _visit_blocks(widths, products, kernel.shape, tokens, places, with_windows=False)[0]


def _winners(widths, table, kernel, tokens):
    """Largest responses [B, R] and the windows they are at."""
    words, places, count = _distinct(tokens, len(table))

    def pooled(rows: int):
        products = _project(rows, table, kernel, words, count)
        return _visit_blocks(widths, products, kernel.shape, tokens, places, with_windows=True)

    if len(words) <= FEW:
        return pooled(len(words))
    return lax.cond(count <= FEW, lambda: pooled(FEW), lambda: pooled(len(words)))


def _visit_blocks(widths, products, kernel_shape, tokens, places, with_windows: bool):
    """Largest sums of products for every document, from [words, W * F]."""
    slices, _, kernels = kernel_shape
    reach = max(widths) - 1
    lengths = jnp.sum(tokens != 0, axis=1)
    blocks = _lay_out(reach, tokens.shape[1], lengths)
    rows = products.reshape(-1, kernels)
    padded = jnp.pad(places, ((0, 0), (reach, BLOCK + reach))) * slices

    def visit(index, pooled):
        document, start = _part(blocks.document, index), _part(blocks.start, index)
        window = start[:, None] + jnp.arange(BLOCK)[None, :]  # [CHUNK, BLOCK]
        word = padded[document[:, None], start[:, None] + jnp.arange(BLOCK + reach)[None, :]]
        found, first = [], 0
        for width in widths:
            total = sum(
                rows.at[word[:, reach + 1 - width + j :][:, :BLOCK] + first + j].get(
                    mode="promise_in_bounds"
                )
                for j in range(width)
            )
            touches = window < (lengths[document] + width - 1)[:, None]
            found.append(_block_max(total, touches, window, with_windows))
            first += width
        return [
            lax.dynamic_update_slice_in_dim(
                whole, jnp.concatenate(parts, axis=1), index * CHUNK, axis=0
            )
            for whole, parts in zip(pooled, zip(*found))
        ]

    shape = len(blocks.document), len(widths) * kernels
    pooled = [jnp.full(shape, -jnp.inf, rows.dtype)]
    pooled += [jnp.zeros(shape, jnp.int32)] if with_windows else []
    pooled = lax.fori_loop(0, (blocks.total + CHUNK - 1) // CHUNK, visit, pooled)
    return _best_block(blocks, pooled)


def _block_max(total, touches, window, with_windows: bool):
    total = jnp.where(touches[:, :, None], total, -jnp.inf)  # [CHUNK, BLOCK, F]
    best = jnp.max(total, axis=1)
    if not with_windows:
        return [best]
    # Faster than argmax: two plain reductions instead of one over pairs.
    at = jnp.where(total == best[:, None, :], window[:, :, None], 0)
    return [best, jnp.max(at, axis=1)]


class _Blocks(NamedTuple):
    """How the windows of a batch are cut into blocks; blocks past ``total`` are empty.

    Attributes:
      total: number of blocks that touch a document.
      document: [blocks], the document of each block.
      start: [blocks], its first window.
      of_document: [B, most], the blocks of each document.
      used: [B, most], whether it has that many.
    """

    total: jax.Array
    document: jax.Array
    start: jax.Array
    of_document: jax.Array
    used: jax.Array


def _lay_out(reach: int, tokens: int, lengths) -> _Blocks:
    most = -(-(tokens + reach) // BLOCK)
    needed = jnp.where(lengths > 0, (lengths + reach + BLOCK - 1) // BLOCK, 0)  # [B]
    ends = jnp.cumsum(needed)
    begins = ends - needed
    capacity = -(-len(lengths) * most // CHUNK) * CHUNK
    block = jnp.arange(capacity)
    document = jnp.searchsorted(ends, block, side="right").astype(jnp.int32)
    document = jnp.minimum(document, len(lengths) - 1)
    start = jnp.clip((block - begins[document]) * BLOCK, 0, (most - 1) * BLOCK)
    order = jnp.arange(most)[None, :]
    of_document = jnp.minimum(begins[:, None] + order, capacity - 1)
    return _Blocks(ends[-1], document, start, of_document, order < needed[:, None])


def _best_block(blocks: _Blocks, pooled):
    values = jnp.where(blocks.used[:, :, None], pooled[0][blocks.of_document], -jnp.inf)
    winner = jnp.argmax(values, axis=1)[:, None, :]
    rest = [part[blocks.of_document] for part in pooled[1:]]
    return [jnp.take_along_axis(part, winner, axis=1)[:, 0] for part in [values, *rest]]


def _distinct(tokens, vocabulary: int):
    """Distinct words of a batch, 0 first; each token's place among them; how many there are."""
    present = jnp.zeros(vocabulary, bool).at[tokens].set(True).at[0].set(True)
    rank = jnp.cumsum(present, dtype=jnp.int32) - 1
    capacity = -(-min(vocabulary, tokens.size + 1) // TILE) * TILE
    slot = jnp.where(present, rank, capacity)
    words = jnp.zeros(capacity, jnp.int32).at[slot].set(jnp.arange(vocabulary), mode="drop")
    return words, rank[tokens], rank[-1] + 1


def _project(rows: int, table, kernel, words, count):
    """Every word times every kernel slice, [rows, W * F]; zero past the tile of ``count``."""
    flat = jnp.swapaxes(kernel, 0, 1).reshape(kernel.shape[1], -1)  # [D, W * F]

    def tile(index, products):
        word = lax.dynamic_slice_in_dim(words, index * TILE, TILE)
        part = _rows(table, word) @ flat
        return lax.dynamic_update_slice_in_dim(products, part, index * TILE, axis=0)

    products = jnp.zeros((rows, flat.shape[1]), table.dtype)
    return lax.fori_loop(0, (count + TILE - 1) // TILE, tile, products)


def _rows(table, words):
    """Rows of the table; zero for padding."""
    rows = table.at[words].get(mode="promise_in_bounds")
    return jnp.where((words != 0)[..., None], rows, 0)


def _part(array, index):
    return lax.dynamic_slice_in_dim(array, index * CHUNK, CHUNK)


def _gradients(widths, table, kernel, tokens, windows, gradient):
    """Gradients of table and kernel, through the winning windows of one document at a time."""
    kernels, reach = kernel.shape[2], max(widths) - 1
    weights = jnp.swapaxes(kernel, 1, 2)  # [W, F, D]
    # Slice j of a width reads the word at window - (width - 1) + j, padded by reach.
    owner = jnp.array([index for index, width in enumerate(widths) for _ in range(width)])
    shift = jnp.array([j + reach + 1 - width for width in widths for j in range(width)])

    def document(state, step):
        table_gradient, kernel_gradient = state
        words, windows, gradient = step
        windows = windows.reshape(-1, kernels)[owner]  # [W, F]
        gradient = gradient.reshape(-1, kernels)[owner][:, :, None]
        chosen = words[windows + shift[:, None]]
        gradient = jnp.where((chosen != 0)[:, :, None], gradient, 0)
        kernel_gradient = kernel_gradient + gradient * _rows(table, chosen)
        table_gradient = table_gradient.at[chosen].add(gradient * weights, mode="promise_in_bounds")
        return (table_gradient, kernel_gradient), None

    padded = jnp.pad(tokens, ((0, 0), (reach, reach)))
    start = jnp.zeros_like(table), jnp.zeros_like(weights)
    (table_gradient, kernel_gradient), _ = lax.scan(document, start, (padded, windows, gradient))
    return table_gradient, jnp.swapaxes(kernel_gradient, 1, 2)
