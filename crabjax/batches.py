"""Any number of rows through a program of one shape."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from crabjax.checks import check_not_empty
from crabjax.sharding import fetch

LARGEST_BATCH = 256  # documents predicted at once where nothing is said and memory allows


def in_batches(call: Callable[[np.ndarray], jax.Array], rows: Any, size: int, axis: int = 0):
    """Applies a compiled function to ``size`` rows at a time; float32 results on the host.

    The next batch is started before the last is fetched, so that copies and work overlap.

    Args:
      call: takes rows [size, ...]; they lie on ``axis`` of its result.
      rows: [X, ...], cut on the host: on a device every length of the last batch is compiled.
      size: of a batch; the last is padded with zeros.
      axis: of the rows in a result.
    """
    check_not_empty("inputs", rows)
    rows = np.asarray(rows)
    results, waiting = [], None
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        padding = [(0, size - len(batch))] + [(0, 0)] * (batch.ndim - 1)
        result = call(np.pad(batch, padding))
        if waiting is not None:
            results.append(fetch(waiting).astype(np.float32, copy=False))
        waiting = result
    results.append(fetch(waiting).astype(np.float32, copy=False))
    joined = np.concatenate(results, axis=axis)
    return joined[:, : len(rows)] if axis == 1 else joined[: len(rows)]
