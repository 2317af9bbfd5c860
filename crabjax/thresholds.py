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
BINS = 100  # of equal width, that probabilities of earlier rounds are counted in
_LOOKED_AT = 20_000  # documents; more would hardly move a threshold


class Threshold(NamedTuple):
    """A threshold, and the micro-F1 that is expected of it."""

    value: float
    expected_f1: float


def expected_f1_threshold(probabilities: ArrayLike, weights: np.ndarray | None = None) -> Threshold:
    """The threshold that maximises micro-F1 as the probabilities themselves expect it.

    Among thresholds t it maximises ``2 sum_{p > t} p / (#{p > t} + sum p)``, the ratio of the
    expectations: twice the hits over decisions plus labels present.

    Args:
      probabilities: of any shape; what one threshold decides.
      weights: of the same shape, how often each counts; None: once.

    Returns:
      A threshold halfway between two neighbouring probabilities, so that rounding decides
      nothing; 0.5 where every probability is 0.
    """
    check_probabilities("probabilities", probabilities)
    check_not_empty("probabilities", probabilities)
    if weights is None:
        falling = np.sort(np.asarray(probabilities), axis=None)[::-1]
        hits, decisions = np.cumsum(falling, dtype=np.float64), np.arange(1, len(falling) + 1)
    else:
        order = np.argsort(probabilities, axis=None)[::-1]
        falling, counts = np.ravel(probabilities)[order], np.ravel(weights)[order]
        hits, decisions = np.cumsum(counts * falling), np.cumsum(counts)
    if hits[-1] == 0:
        return Threshold(HALF, 0.0)
    expected = 2 * hits / (decisions + hits[-1])
    # Equal probabilities are decided alike: only the last of them ends a set of decisions.
    ends = np.append(falling[1:] < falling[:-1], True)
    best = int(np.argmax(np.where(ends, expected, -1)))
    below = falling[best + 1] if best + 1 < len(falling) else 0.0
    return Threshold(float((falling[best] + below) / 2), float(expected[best]))


def in_bins(probabilities: np.ndarray) -> np.ndarray:
    """How many probabilities lie in each bin, and their sum there: float64 [2, BINS]."""
    flat = np.asarray(probabilities, np.float64).ravel()
    place = np.minimum((flat * BINS).astype(int), BINS - 1)
    return np.stack([np.bincount(place, minlength=BINS), np.bincount(place, flat, BINS)])


def ensemble_threshold(
    logits: np.ndarray,
    rows: np.ndarray,
    picked: np.ndarray | None = None,
    documents: int | None = None,
) -> float:
    """The threshold of an ensemble's mean probability; 0.5 where there is nothing to go by.

    A strategy takes documents of its choice, so those that are left are not like all others: where
    it takes what is in doubt, what is left looks easier than it is, and the threshold rises. What
    was thought of the taken ones when they were taken makes up for them.

    Args:
      logits: of the members, [E, N, K].
      rows: int [X], documents that no member learnt from.
      picked: :func:`in_bins` of the documents that strategies took from among these.
      documents: how many the rows are a sample of; None: they are all.
    """
    looked = _looked_at(rows)
    mean = expit(logits[:, looked]).mean(axis=0)
    return _beside(mean, picked, len(looked) / max(1, documents or len(rows)))


def mean_threshold(
    probabilities: np.ndarray,
    rows: np.ndarray,
    picked: np.ndarray | None = None,
    documents: int | None = None,
) -> float:
    """What :func:`ensemble_threshold` finds, from mean probabilities [N, K]."""
    looked = _looked_at(rows)
    return _beside(probabilities[looked], picked, len(looked) / max(1, documents or len(rows)))


def _beside(mean: np.ndarray, picked: np.ndarray | None, share: float) -> float:
    """The threshold of probabilities [X, K], which are a share of all, with picked ones beside."""
    if picked is None or not picked.any():
        return expected_f1_threshold(mean).value if mean.size else HALF
    counts, sums = picked[:, picked[0] > 0]
    probabilities = np.concatenate([mean.ravel(), sums / counts])
    weights = np.concatenate([np.ones(mean.size), counts * (share or 1.0)])
    return expected_f1_threshold(probabilities, weights).value


def _looked_at(rows: np.ndarray) -> np.ndarray:
    return rows[:: max(1, -(-len(rows) // _LOOKED_AT))]
