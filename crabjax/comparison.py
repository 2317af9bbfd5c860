"""Runs compared over the same seeds: paired differences, and labels saved."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crabjax.records import Record, area_under_curve, curves

Runs = Mapping[str, Sequence[Record]]


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


def seeds_of(records: Sequence[Record]) -> list[int]:
    """The seeds of a run, in the order of its curves."""
    return list(dict.fromkeys(record["seed"] for record in records))


def areas(records: Sequence[Record], measure: str) -> dict[int, float]:
    """Area under the learning curve of each seed."""
    labelled, values = curves(records, measure)
    return dict(zip(seeds_of(records), area_under_curve(labelled, values).tolist()))


def paired_difference(
    records: Sequence[Record], reference: Sequence[Record], measure: str
) -> Difference | None:
    """Compares areas under the curve over the seeds both runs have; None below two seeds."""
    from scipy import stats

    own, other = areas(records, measure), areas(reference, measure)
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


def labels_needed(
    records: Sequence[Record], reference: Sequence[Record], measure: str = "micro_f1"
) -> float | None:
    """Labelled documents at which the mean curve first reaches the reference's final mean.

    Between two rounds the curve is taken as straight. None if it never gets there.
    """
    target = curves(reference, measure)[1].mean(axis=0)[-1]
    labelled, values = curves(records, measure)
    height = values.mean(axis=0)
    reached = np.flatnonzero(height >= target)
    if len(reached) == 0:
        return None
    first = reached[0]
    if first == 0:
        return float(labelled[0])
    below, above = height[first - 1], height[first]
    share = (target - below) / (above - below)
    return float(labelled[first - 1] + share * (labelled[first] - labelled[first - 1]))
