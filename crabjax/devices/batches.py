"""Any number of rows through programs of few shapes, a batch on every core."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from typing import Any, TypeVar

import jax
import numpy as np

from crabjax.checks import check_not_empty
from crabjax.devices.mesh import current_mesh, fetch

LARGEST_BATCH = 256  # documents predicted at once where nothing is said and memory allows
_WIDTHS = 4  # that documents are cut to
_FEWEST_BATCHES = 8  # for which compiling more than one width pays

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_batches(
    call: Callable[[np.ndarray], jax.Array], rows: Any, size: int, axis: int = 0, cut: bool = False
):
    """Applies a compiled function to ``size`` rows at a time; float32 results on the host.

    Args:
      call: takes rows [size, ...]; they lie on ``axis`` of its result.
      rows: [X, ...], cut on the host: on a device every length of the last batch is compiled.
      size: of a batch; the last is padded with zeros.
      axis: of the rows in a result.
      cut: whether zeros at the end of token ids [X, T] may be left out: rows are then taken in the
        order of their length, each batch a quarter, half, three quarters or all of T wide.
    """
    check_not_empty("inputs", rows)
    rows = np.asarray(rows) if isinstance(rows, jax.Array) else rows
    firsts = range(0, len(rows), size)
    order, widths = by_length(rows, size) if cut else (np.arange(len(rows)), None)

    def start(first: int) -> jax.Array:
        batch = rows[order[first : first + size]]
        if widths is not None:
            batch = batch[:, : widths[first // size]]
        return call(np.pad(batch, [(0, size - len(batch))] + [(0, 0)] * (batch.ndim - 1)))

    if current_mesh() is None:
        results = side_by_side(lambda first: _on_host(start(first)), firsts)
    else:
        # In one thread: all processes must start their programs in the same order. The next batch
        # is started before the last is fetched, so that copies and work overlap.
        started = chain(map(start, firsts), [None])
        results = (_on_host(result) for result, _ in pairwise(started))
    return _in_place(results, order, size, axis)


def by_length(rows: np.ndarray, size: int) -> tuple[np.ndarray, list[int] | None]:
    """The order in which rows are taken, int64 [X], and the width of each batch of ``size``.

    The longest come first, so that what memory does not hold fails at once. Few batches keep one
    width, which is all that is compiled then; so do rows that are not token ids: None.
    """
    order, batches = np.arange(len(rows)), -(-len(rows) // size)
    if rows.ndim != 2 or not np.issubdtype(rows.dtype, np.integer) or batches < _FEWEST_BATCHES:
        return order, None
    longest = rows.shape[1]
    lengths = np.where(rows.any(axis=1), longest - np.argmax(rows[:, ::-1] != 0, axis=1), 0)
    order = np.argsort(-lengths, kind="stable")
    quarter = -(-longest // _WIDTHS)
    quarters = np.maximum(-(-lengths[order[::size]] // quarter), 1)
    return order, np.minimum(quarters * quarter, longest).tolist()


def _in_place(results: Iterable[np.ndarray], order: np.ndarray, size: int, axis: int):
    """Batches of results joined, each row where ``order`` says."""
    joined = np.empty(0)
    before = (slice(None),) * axis
    for number, result in enumerate(results):
        own = order[number * size : (number + 1) * size]
        if number == 0:
            shape = (*result.shape[:axis], len(order), *result.shape[axis + 1 :])
            joined = np.empty(shape, result.dtype)
        joined[(*before, own)] = result[(*before, slice(len(own)))]
    return joined


def side_by_side(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results in the order of the items, :func:`batches_at_once` of them under way."""
    with ThreadPoolExecutor(batches_at_once()) as pool:
        yield from pool.map(function, items)


def batches_at_once() -> int:
    """One a core: XLA on CPU idles between the steps of one. Else two: one copied, one in work."""
    return usable_cores() if jax.default_backend() == "cpu" else 2


def usable_cores() -> int:
    """The cores the process is allowed to run on, where the system can tell; else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _on_host(result: Any) -> np.ndarray:
    return fetch(result).astype(np.float32, copy=False)
