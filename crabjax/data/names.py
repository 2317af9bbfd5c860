"""Label names as texts, and how alike documents are to them."""

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crabjax.config import ConfigError, DataConfig
from crabjax.store import Blocks, blocks_of, gather

_SAMPLE = 10_000  # documents whose similarities are standardised; all, if there are no more
_ALIKE = 1e-4  # a standard deviation of cosines that tells nothing: copies, and what rounds off
_FARTHEST = 10.0  # standard deviations: one odd text among copies must not decide alone


def label_texts(config: DataConfig, names: Sequence[str]) -> list[str]:
    """What an encoder reads for each label: the user's words for it, or its name.

    Raises:
      ConfigError: naming a label that the user has words for, but that is none.
    """
    given = config.label_texts or {}
    for label in given:
        if label not in names:
            near = difflib.get_close_matches(label, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"data.label_texts: {label!r} is not a label{hint}")
    return [given.get(name) or " ".join(re.sub("[_/-]", " ", name).split()) for name in names]


class NameSimilarity(NamedTuple):
    """Compares documents with K label names.

    Attributes:
      names: float32 [K, D], vectors of the names, of length one.
      mean: float32 [K], of the similarity of the documents that it was standardised on.
      deviation: float32 [K], its standard deviation; infinite where they are all alike.
    """

    names: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray

    def of(self, documents: np.ndarray) -> np.ndarray:
        """Standardised similarities float32 [n, K] of document vectors [n, D]."""
        away = (_unit(documents) @ self.names.T - self.mean) / self.deviation
        return np.clip(away, -_FARTHEST, _FARTHEST)

    def beside(self, documents: np.ndarray, start: int) -> Blocks:
        """Rows [n, D + K] of document vectors, from ``start`` on, with their similarities."""
        for block in blocks_of(documents[start:]):
            yield slice(start, start + len(block)), np.hstack([block, self.of(block)])
            start += len(block)


def compare_with_names(names: np.ndarray, documents: np.ndarray) -> NameSimilarity:
    """Cosines of document and name vectors, standardised a label on documents evenly spaced.

    Names differ in how near they are to texts of any kind; standardised, they can be compared, and
    one weight will do for all.

    Args:
      names: float32 [K, D].
      documents: float32 [N, D], of which at most 10,000 are read.
    """
    count = min(len(documents), _SAMPLE)
    sample = gather(documents, np.arange(count) * len(documents) // count)
    # In float32 the sums over many copies of a text round to a spread that is not there.
    cosines = (_unit(sample) @ _unit(names).T).astype(np.float64)  # [count, K]
    mean, deviation = cosines.mean(axis=0), cosines.std(axis=0)
    apart = np.where(deviation < _ALIKE, np.inf, deviation)
    return NameSimilarity(_unit(names), mean.astype(np.float32), apart.astype(np.float32))


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length one; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
