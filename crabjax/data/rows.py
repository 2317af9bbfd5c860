"""Some rows of an array that stays in a file."""

from typing import Any

import numpy as np


class Rows:
    """Rows [N, D] of an array that may be mapped: those that are asked for are read, no others.

    Rows by number are an array in memory, a slice is another of these.

    Args:
      array: float32 [n, D].
      rows: int64 [N], which of them.
      origin: a hash of the array, which nobody need read for it.
    """

    def __init__(self, array: np.ndarray, rows: np.ndarray, origin: str):
        self.base, self.rows, self.origin = array, rows, origin  # base: as arrays call it
        self.shape, self.dtype, self.ndim = (len(rows), array.shape[1]), array.dtype, 2

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Of all of them."""
        return len(self) * self.shape[1] * self.dtype.itemsize

    def take(self, rows: slice | np.ndarray) -> "Rows":
        """Some of them, nothing read."""
        return Rows(self.base, self.rows[rows], self.origin)

    def __getitem__(self, rows: slice | np.ndarray) -> Any:
        return self.take(rows) if isinstance(rows, slice) else self.base[self.rows[rows]]

    __iter__ = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.base[self.rows]
