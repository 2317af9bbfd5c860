"""Two reports of ``scripts/benchmark.py --json``, row by row: has anything become slower?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from crabjax.benchmarks.common import Row

# The column a row is judged by, whichever it has.
TIMES = ("seconds", "epoch s", "estimated s")
# Words and whole numbers that are results, not sizes.
OUTCOMES = (
    *("fits", "rate", "kernels", "opaque", "loops", "scatters"),
    *("collectives", "grouped convolutions", "compare-and-swap"),
    *("nearer bound", "verdict"),  # of reports written up to 0.2
)


class CompareError(ValueError):
    """A file that is no report, or two that have nothing in common."""


class Comparison(NamedTuple):
    """What :func:`compare_reports` found.

    Attributes:
      rows: one a row of both reports: times, ratio, and a mark.
      notes: what else differs, a sentence each.
      regressions: how many rows became slower beyond the tolerance and the spreads.
    """

    rows: list[Row]
    notes: list[str]
    regressions: int


def read_report(path: str | Path) -> dict[str, Any]:
    """The content of a report.

    Raises:
      CompareError: naming the file, if it is missing or no report.
    """
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
        missing = {"device", "jax", "benchmarks"} - report.keys()
    except (OSError, ValueError, AttributeError) as error:
        raise CompareError(f"{path}: expected a report of benchmark.py --json: {error}") from error
    if missing:
        raise CompareError(f"{path}: expected a report of benchmark.py --json, without {missing}")
    return report


def compare_reports(before: dict[str, Any], after: dict[str, Any], tolerance: float) -> Comparison:
    """Matches rows by benchmark, name and sizes, and judges the ratio of their times.

    A difference is a change if the two ranges of repeats do not overlap, and a regression if
    moreover the time grew by more than ``tolerance``. Between different devices there are ratios
    but no regressions.

    Raises:
      CompareError: if no row is in both reports.
    """
    notes, same_device = _differences(before, after)
    old, new = dict(_by_identity(before)), dict(_by_identity(after))
    if not (common := [identity for identity in old if identity in new]):
        raise CompareError("the reports have no row of the same benchmark, name and sizes")
    for side, only in (("first", old.keys() - new.keys()), ("second", new.keys() - old.keys())):
        notes += [f"only in the {side} report: {' '.join(identity)}" for identity in sorted(only)]
    rows = [_judge(identity, old[identity], new[identity], tolerance) for identity in common]
    regressions = sum(row["mark"] == "REGRESSION" for row in rows)
    if not same_device:
        regressions = 0
        for row in rows:
            row["mark"] = row["mark"].replace("REGRESSION", "slower")
    return Comparison(rows, notes, regressions)


def _differences(before: dict[str, Any], after: dict[str, Any]) -> tuple[list[str], bool]:
    notes = []
    same_device = before["device"] == after["device"]
    if not same_device:
        notes.append(f"the devices differ: {before['device']} and {after['device']}")
    if before["jax"] != after["jax"]:
        notes.append(f"the versions of jax differ: {before['jax']} and {after['jax']}")
    for name in before["benchmarks"].keys() & after["benchmarks"].keys():
        one, other = (report["benchmarks"][name]["settings"] for report in (before, after))
        notes += [
            f"{name}: {key} differs: {one.get(key)} and {other.get(key)}"
            for key in sorted(one.keys() | other.keys())
            if one.get(key) != other.get(key)
        ]
    return notes, same_device


def _by_identity(report: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Row]]:
    """Rows by benchmark, name and sizes: the columns that hold words or whole numbers."""
    for name, result in report["benchmarks"].items():
        for row in result["rows"]:
            sizes = (
                str(value) if isinstance(value, str) else f"{key}={value}"
                for key, value in row.items()
                if isinstance(value, str | int) and key not in OUTCOMES
            )
            if any(row.get(key) is not None for key in TIMES):
                yield (name, *sizes), row


def _judge(identity: tuple[str, ...], old: Row, new: Row, tolerance: float) -> Row:
    column = next(key for key in TIMES if key in old)
    before, after = old[column], new[column]
    ranges = before * (old.get("spread") or 0.0) + after * (new.get("spread") or 0.0)
    ratio = after / before if before else float("inf") if after else 1.0
    mark = ""
    if abs(after - before) > ranges / 2:
        mark = "slower" if after > before else "faster"
        mark = "REGRESSION" if ratio > 1 + tolerance else mark
    return {
        "row": " ".join(identity),
        "before s": before,
        "after s": after,
        "ratio": ratio,
        "mark": mark,
    }
