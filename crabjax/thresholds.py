"""From probabilities to decisions: the threshold that maximises F1, not 0.5.

For calibrated probabilities the threshold that maximises F1 is half of the F1 it reaches (Lipton,
Elkan and Narayanaswamy 2014): below 0.5 wherever predictions are not perfect. Which one that is can
be read off the probabilities of documents without labels, once these expect as many labels as
people give: members that learnt from few documents expect too few.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit

from crabjax.checks import check_not_empty, check_probabilities

HALF = 0.5
BINS = 100  # of equal width, that probabilities of earlier rounds are counted in
_LOOKED_AT = 20_000  # documents; more would hardly move a threshold
_FURTHEST = np.log(4)  # that odds are corrected by; with 20 labelled documents it takes 2
_UNSURE = 10  # labels: as many say half of what they could


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


class Unchosen(NamedTuple):
    """Documents that were labelled before any strategy chose: how many labels there are.

    Attributes:
      labels: bool [n, K], theirs.
      labelled: how many documents members learnt from, chosen ones too.
    """

    labels: np.ndarray
    labelled: int


def odds_factor(bins: np.ndarray, known: Unchosen) -> float:
    """What the odds of all probabilities are multiplied by, to correct what few labels taught.

    Members that learnt from few documents give too few labels on average; labelled ones that no
    strategy chose say how many there are. A factor g makes both means equal. They say it by S
    labels, with an error, and are n of the N documents that members learnt from, who know better
    the more these are: the factor is ``g ** (S / (S + 10) * n / N)``.

    Args:
      bins: :func:`in_bins` of what is thought of documents that nobody learnt from.
      known: of the labelled documents.
    """
    counts, sums = bins[:, bins[0] > 0]
    given = known.labels.sum()
    if not (sums.any() and given):
        return 1.0
    means, wanted = sums / counts, known.labels.mean()

    def surplus(log_factor: float) -> float:
        return np.average(_times_odds(means, np.exp(log_factor)), weights=counts) - wanted

    low, now, high = map(surplus, (-_FURTHEST, 0.0, _FURTHEST))
    if low < 0 < high:
        log_factor = brentq(surplus, -_FURTHEST, _FURTHEST)
    else:
        log_factor = -np.sign(now) * _FURTHEST
    certainty = given / (given + _UNSURE)
    return float(np.exp(certainty * len(known.labels) / known.labelled * log_factor))


def ensemble_threshold(
    logits: np.ndarray,
    rows: np.ndarray,
    picked: np.ndarray | None = None,
    documents: int | None = None,
    known: Unchosen | None = None,
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
      known: of the labelled documents, for :func:`odds_factor`; None: nothing is corrected.
    """
    looked = _looked_at(rows)
    mean = expit(logits[:, looked]).mean(axis=0)
    return _beside(mean, picked, len(looked) / max(1, documents or len(rows)), known)


def mean_threshold(
    probabilities: np.ndarray,
    rows: np.ndarray,
    picked: np.ndarray | None = None,
    documents: int | None = None,
    known: Unchosen | None = None,
) -> float:
    """What :func:`ensemble_threshold` finds, from mean probabilities [N, K]."""
    looked = _looked_at(rows)
    share = len(looked) / max(1, documents or len(rows))
    return _beside(probabilities[looked], picked, share, known)


def _beside(
    mean: np.ndarray, picked: np.ndarray | None, share: float, known: Unchosen | None
) -> float:
    """The threshold of probabilities [X, K], which are a share of all, with picked ones beside."""
    beside = np.zeros((2, BINS)) if picked is None else picked * (share or 1.0)
    if not (mean.size or beside.any()):
        return HALF
    check_probabilities("probabilities", mean)
    factor = 1.0 if known is None else odds_factor(in_bins(mean) + beside, known)
    probabilities, weights = mean.ravel(), None
    if beside.any():
        counts, sums = beside[:, beside[0] > 0]
        probabilities = np.concatenate([probabilities, sums / counts])
        weights = np.concatenate([np.ones(mean.size), counts])
    found = expected_f1_threshold(_times_odds(probabilities, factor), weights)
    return float(_times_odds(found.value, 1 / factor))


def _times_odds(probabilities: Any, factor: float) -> Any:
    """Probabilities whose odds p / (1 - p) are so many times as large."""
    if factor == 1.0:
        return probabilities
    scaled = probabilities * factor
    return scaled / (scaled + (1 - probabilities))  # never above 1 by rounding


def _looked_at(rows: np.ndarray) -> np.ndarray:
    return rows[:: max(1, -(-len(rows) // _LOOKED_AT))]
