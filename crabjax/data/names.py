"""Label names as texts, and how alike documents are to them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crabjax.config import ConfigError, DataConfig
from crabjax.data.vectors import unit
from crabjax.files import did_you_mean
from crabjax.files.store import gather

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
            hint = did_you_mean(label, names)
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
        away = (unit(documents) @ self.names.T - self.mean) / self.deviation
        return np.clip(away, -_FARTHEST, _FARTHEST)


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
    cosines = (unit(sample) @ unit(names).T).astype(np.float64)  # [count, K]
    mean, spread = cosines.mean(axis=0), cosines.std(axis=0)
    apart = np.where(spread < _ALIKE, np.inf, spread)
    return NameSimilarity(unit(names), mean.astype(np.float32), apart.astype(np.float32))
