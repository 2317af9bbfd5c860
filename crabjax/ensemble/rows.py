"""Of a training set, which may be a file larger than the memory, the rows that are read."""

from typing import Any, NamedTuple

import numpy as np

from crabjax.files.store import gather


class Needed(NamedTuple):
    """Arguments of :func:`crabjax.ensemble.fit_ensemble`, cut down to what it reads."""

    inputs: np.ndarray  # [R, ...]
    labels: np.ndarray  # [R, K]
    train_rows: np.ndarray  # int32 [M, C], rows of these
    train_counts: np.ndarray  # int32 [M]
    validation_rows: np.ndarray  # int32 [M, V], rows of these


def needed_rows(
    inputs: Any,
    labels: Any,
    train_rows: np.ndarray,
    train_counts: np.ndarray,
    validation_rows: np.ndarray,
    capacity: int,
) -> Needed:
    """Gathers the documents that members train or are compared on: a device holds no others.

    Args:
      inputs: documents [N, ...]; may be a file that is mapped into memory.
      labels: bool [N, K].
      train_rows: int32 [M, C]; what is not live is replaced.
      train_counts: int32 [M], the live part of ``train_rows``.
      validation_rows: int32 [M, V].
      capacity: R, at least the distinct documents there can be in any round: one shape, one
        program. If the training set is no larger, all of it is taken.
    """
    live = np.arange(train_rows.shape[1]) < np.asarray(train_counts)[:, None]
    if capacity >= len(inputs):
        train_rows = np.where(live, train_rows, 0)
        return Needed(inputs, labels, train_rows, train_counts, validation_rows)
    wanted = np.union1d(train_rows[live], validation_rows)
    place = lambda rows: np.searchsorted(wanted, rows).astype(np.int32)
    padded = np.pad(wanted, (0, capacity - len(wanted)), mode="edge")
    train_rows = np.where(live, place(train_rows), np.int32(0))
    return Needed(
        gather(inputs, padded),
        gather(labels, padded),
        train_rows,
        train_counts,
        place(validation_rows),
    )
