"""Runs compared over the same seeds: paired differences, and labels saved."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crabjax.report.records import MEASURES, Record, area_under_curve, curves

_DRAWS = 1000  # of the bootstrap


class Difference(NamedTuple):
    """The mean over seeds of one run minus another, with what the seeds say about chance.

    Attributes:
      mean: of the differences, seed by seed.
      low: lower end of the 95% confidence interval of the mean (Student's t).
      high: its upper end.
      p_value: of the paired t-test; 1 where every seed has the same difference 0.
    """

    mean: float
    low: float
    high: float
    p_value: float


def areas(records: Sequence[Record], measure: str) -> dict[int, float]:
    """Area under the learning curve of each seed."""
    seeds = dict.fromkeys(record["seed"] for record in records)
    return dict(zip(seeds, area_under_curve(*curves(records, measure)).tolist()))


def paired_difference(
    records: Sequence[Record], reference: Sequence[Record], measure: str
) -> Difference | None:
    """Compares areas under the curve over the seeds and budgets both runs have.

    Returns:
      None below two seeds, or without a number of labelled documents at which both were tested.
    """
    from scipy import stats

    budgets = set(curves(records, measure)[0]) & set(curves(reference, measure)[0])
    if not budgets:
        return None
    at_common = lambda run: [record for record in run if record["labelled"] in budgets]
    own, other = areas(at_common(records), measure), areas(at_common(reference), measure)
    common = [seed for seed in own if seed in other]
    if len(common) < 2:
        return None
    differences = np.array([own[seed] - other[seed] for seed in common])
    mean, error = differences.mean(), differences.std(ddof=1) / len(common) ** 0.5
    reach = stats.t.ppf(0.975, len(common) - 1) * error
    p_value = 1.0 if mean == 0 else 0.0
    if error > 0:
        p_value = float(2 * stats.t.sf(abs(mean) / error, len(common) - 1))
    return Difference(float(mean), float(mean - reach), float(mean + reach), p_value)


def labels_needed(records: Sequence[Record], reference: Sequence[Record], measure: str) -> float:
    """Labelled documents at which the mean curve first reaches the reference's final mean.

    Between two rounds the curve is taken as straight. Infinite if it never gets there.
    """
    labelled, values = curves(records, measure)
    target = curves(reference, measure)[1].mean(axis=0)[-1]
    return _first_at(labelled, values.mean(axis=0), target)


def labels_needed_range(
    records: Sequence[Record], reference: Sequence[Record], measure: str = MEASURES[0]
) -> tuple[float, float] | None:
    """A 95% bootstrap interval of :func:`labels_needed`, over the seeds both runs have.

    Returns:
      Its ends, infinite where the curve never gets there; None below two seeds.
    """
    seeds, other = ([*dict.fromkeys(r["seed"] for r in run)] for run in (records, reference))
    common = [seed for seed in seeds if seed in other]
    if len(common) < 2:
        return None
    labelled, values = curves(records, measure)
    values = values[[seeds.index(seed) for seed in common]]
    final = curves(reference, measure)[1][[other.index(seed) for seed in common], -1]
    picks = np.random.default_rng(0).integers(len(common), size=(_DRAWS, len(common)))
    needed = [_first_at(labelled, values[pick].mean(axis=0), final[pick].mean()) for pick in picks]
    low, high = np.quantile(needed, (0.025, 0.975), method="nearest")
    return float(low), float(high)


def _first_at(labelled: np.ndarray, height: np.ndarray, target: float) -> float:
    """Where a curve, straight between its points, first reaches a height; infinite if nowhere."""
    reached = np.flatnonzero(height >= target)
    if len(reached) == 0:
        return float("inf")
    first = reached[0]
    if first == 0:
        return float(labelled[0])
    below, above = height[first - 1], height[first]
    share = (target - below) / (above - below)
    return float(labelled[first - 1] + share * (labelled[first] - labelled[first - 1]))
