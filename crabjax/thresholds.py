"""From probabilities to decisions: the threshold that maximises F1, not 0.5.

For calibrated probabilities the threshold that maximises F1 is half of the F1 it reaches (Lipton,
Elkan and Narayanaswamy 2014): below 0.5 wherever predictions are not perfect. Which one that is can
be read off the probabilities of documents without labels.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from crabjax.checks import check_not_empty, check_probabilities

HALF = 0.5
_LOOKED_AT = 20_000  # documents; more would hardly move a threshold


class Threshold(NamedTuple):
    """A threshold, and the micro-F1 that is expected of it."""

    value: float
    expected_f1: float


def expected_f1_threshold(probabilities: ArrayLike) -> Threshold:
    """The threshold that maximises micro-F1 as the probabilities themselves expect it.

    Among thresholds t it maximises ``2 sum_{p > t} p / (#{p > t} + sum p)``, the ratio of the
    expectations: twice the hits over decisions plus labels present.

    Args:
      probabilities: of any shape; what one threshold decides.

    Returns:
      A threshold halfway between two neighbouring probabilities, so that rounding decides
      nothing; 0.5 where every probability is 0.
    """
    check_probabilities("probabilities", probabilities)
    check_not_empty("probabilities", probabilities)
    falling = np.sort(np.asarray(probabilities), axis=None)[::-1]
    hits = np.cumsum(falling, dtype=np.float64)
    if hits[-1] == 0:
        return Threshold(HALF, 0.0)
    expected = 2 * hits / (np.arange(1, len(hits) + 1) + hits[-1])
    # Equal probabilities are decided alike: only the last of them ends a set of decisions.
    ends = np.append(falling[1:] < falling[:-1], True)
    best = int(np.argmax(np.where(ends, expected, -1)))
    below = falling[best + 1] if best + 1 < len(falling) else 0.0
    return Threshold(float((falling[best] + below) / 2), float(expected[best]))


def ensemble_threshold(logits: np.ndarray, rows: np.ndarray) -> float:
    """The threshold of an ensemble's mean probability; 0.5 where there are no rows.

    Args:
      logits: of the members, [E, N, K].
      rows: int [X], documents that no member learnt from.
    """
    if len(rows) == 0:
        return HALF
    return expected_f1_threshold(expit(logits[:, _looked_at(rows)]).mean(axis=0)).value


def mean_threshold(probabilities: np.ndarray, rows: np.ndarray) -> float:
    """What :func:`ensemble_threshold` finds, from mean probabilities [N, K]."""
    if len(rows) == 0:
        return HALF
    return expected_f1_threshold(probabilities[_looked_at(rows)]).value


def _looked_at(rows: np.ndarray) -> np.ndarray:
    return rows[:: -(-len(rows) // _LOOKED_AT)]
