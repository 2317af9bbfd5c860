"""What a head reads of a document beside its encoder's vector: words, and likenesses to names."""

from typing import Any, NamedTuple

import numpy as np

from crabjax.data.lsa import LatentWords
from crabjax.data.names import NameSimilarity
from crabjax.data.vectors import unit
from crabjax.files.store import gather


class Beside(NamedTuple):
    """What is read off documents once, and then says something of any document.

    Attributes:
      words: describes a document's words in L numbers; None for no such numbers.
      names: compares a document with K label names; None for none.
    """

    words: LatentWords | None
    names: NameSimilarity | None

    @property
    def width(self) -> int:
        """L + K."""
        words = 0 if self.words is None else self.words.directions.shape[1]
        return words + (0 if self.names is None else len(self.names.names))

    def join(self, vectors: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Vectors [n, D] of documents with tokens [n, T] -> float32 [n, D + L + K].

        With words, vectors and words have a root mean square of one each: what has more numbers
        counts for more.
        """
        parts = [vectors]
        if self.words is not None:
            parts = [_of_size_one(unit(vectors)), _of_size_one(self.words.of(tokens))]
        if self.names is not None:
            parts.append(self.names.of(vectors))
        return np.hstack(parts)


class JoinedRows:
    """Document vectors with what stands beside them, float32 [N, D + L + K], made when read.

    Vectors and tokens may be files that are mapped; nothing is written beside them. Rows by number
    are an array in memory, a slice is another of these.
    """

    def __init__(self, vectors: np.ndarray, tokens: np.ndarray, beside: Beside):
        self.base, self.tokens, self.beside = vectors, tokens, beside  # base: as arrays call it
        self.shape = len(vectors), vectors.shape[1] + beside.width
        self.dtype, self.ndim = np.dtype(np.float32), 2

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, rows: slice | np.ndarray) -> Any:
        if isinstance(rows, slice):
            return JoinedRows(self.base[rows], self.tokens[rows], self.beside)
        if np.ndim(rows) != 1:
            raise TypeError(f"rows: expected a slice or numbers of rows, found {rows!r}")
        return self.beside.join(self.base[rows], gather(self.tokens, rows))

    __iter__ = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[np.arange(len(self))]


def _of_size_one(rows: np.ndarray) -> np.ndarray:
    """Rows of length one, longer: of a mean square of one."""
    return rows * np.float32(np.sqrt(rows.shape[1]))
