"""Any number of rows through a program of one shape, a batch on every core."""

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

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_batches(call: Callable[[np.ndarray], jax.Array], rows: Any, size: int, axis: int = 0):
    """Applies a compiled function to ``size`` rows at a time; float32 results on the host.

    Args:
      call: takes rows [size, ...]; they lie on ``axis`` of its result.
      rows: [X, ...], cut on the host: on a device every length of the last batch is compiled.
      size: of a batch; the last is padded with zeros.
      axis: of the rows in a result.
    """
    check_not_empty("inputs", rows)
    rows = np.asarray(rows)

    def start(first: int) -> jax.Array:
        batch = rows[first : first + size]
        return call(np.pad(batch, [(0, size - len(batch))] + [(0, 0)] * (batch.ndim - 1)))

    firsts = range(0, len(rows), size)
    if current_mesh() is None:
        results = list(side_by_side(lambda first: _on_host(start(first)), firsts))
    else:
        # In one thread: all processes must start their programs in the same order. The next batch
        # is started before the last is fetched, so that copies and work overlap.
        started = chain(map(start, firsts), [None])
        results = [_on_host(result) for result, _ in pairwise(started)]
    joined = np.concatenate(results, axis=axis)
    return joined[:, : len(rows)] if axis == 1 else joined[: len(rows)]


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
