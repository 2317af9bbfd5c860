"""The tables of a report: lists of cells, made from records."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crabjax.report.comparison import labels_needed, labels_needed_range, paired_difference
from crabjax.report.figures import TITLES
from crabjax.report.records import (
    AT_HALF,
    DECIDED,
    MEASURES,
    Record,
    Runs,
    area_under_curve,
    curves,
    mean_and_error,
    run_names,
)

REFERENCES = ("random", "besra")
NOTHING = "-"


class Table(NamedTuple):
    """A caption, the column names, and rows of as many cells."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def references(runs: Runs, asked: str | None = None) -> list[str]:
    """What the others are compared with: the run asked for, else random and BESRA, else the first.

    Raises:
      ValueError: for a name no run has.
    """
    if asked is not None:
        if asked not in runs:
            raise ValueError(f"--reference {asked}: expected one of {', '.join(runs)}")
        return [asked]
    return [name for name in REFERENCES if name in runs] or [next(iter(runs))]


def overview(experiments: Mapping[str, Runs], measure: str, asked: str | None = None) -> Table:
    """Areas of every run on every data set."""
    rows = [
        [name, *(_area(runs, name, measure, asked) for runs in experiments.values())]
        for name in run_names(experiments)
    ]
    firsts = dict.fromkeys(references(runs, asked)[0] for runs in experiments.values())
    caption = (
        f"Area, {TITLES[measure]}, and difference to {' or '.join(firsts)} (* 95% interval without "
        "0; of twenty such marks one is expected by chance)"
    )
    return Table(caption, ["strategy", *experiments], rows)


def _area(runs: Runs, name: str, measure: str, asked: str | None) -> str:
    if name not in runs:
        return NOTHING
    area = f"{area_under_curve(*curves(runs[name], measure)).mean():.4f}"
    reference = references(runs, asked)[0]
    found = None
    if name != reference:
        found = paired_difference(runs[name], runs[reference], measure)
    if found is None:
        return area
    return f"{area} ({found.mean:+.4f}{'*' if found.low * found.high > 0 else ''})"


def areas(runs: Runs) -> Table:
    """How high the curves are on average, and what they cover."""
    shown = (*MEASURES, *AT_HALF)
    head = ["strategy", "preset", *(f"area, {TITLES[measure]}" for measure in shown)]
    head += ["labelled", "seeds"]
    rows = []
    for name, records in runs.items():
        labelled = curves(records, MEASURES[0])[0]
        cells = [mean_and_error(area_under_curve(*curves(records, m))) for m in shown]
        covered = f"{labelled[0]} to {labelled[-1]}"
        preset = records[0].get("preset", NOTHING)
        rows.append(
            [name, preset, *cells, covered, str(len({record["seed"] for record in records}))]
        )
    return Table("Area under the learning curve: its mean height", head, rows)


def differences(runs: Runs, reference: str) -> Table:
    """Every other run minus the reference, and the labels it needs to do as well in the end."""
    others = {name: records for name, records in runs.items() if name != reference}
    head = ["strategy", *(TITLES[measure] for measure in MEASURES)]
    head += [f"labels to reach the final {TITLES[measure]} of {reference}" for measure in DECIDED]
    rows = []
    for name, records in others.items():
        cells = [_difference(records, runs[reference], measure) for measure in MEASURES]
        needed = [_labels(records, runs[reference], measure) for measure in DECIDED]
        rows.append([name, *cells, *needed])
    return Table(f"Difference of areas to {reference}, over common seeds and budgets", head, rows)


def _difference(records: Sequence[Record], reference: Sequence[Record], measure: str) -> str:
    found = paired_difference(records, reference, measure)
    if found is None:
        return "too little in common"
    chance = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.3f}"
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}], {chance}"


def _labels(records: Sequence[Record], reference: Sequence[Record], measure: str) -> str:
    shown = lambda labels: "never" if labels == float("inf") else f"{labels:.0f}"
    between = labels_needed_range(records, reference, measure)
    interval = "" if between is None else f" [{shown(between[0])}, {shown(between[1])}]"
    return shown(labels_needed(records, reference, measure)) + interval


def budgets(runs: Runs, measure: str) -> Table:
    """The measure by labelled documents."""
    found = {name: curves(records, measure) for name, records in runs.items()}
    columns = sorted({int(count) for labelled, _ in found.values() for count in labelled})
    rows = []
    for name, (labelled, values) in found.items():
        cells = {count: mean_and_error(of, digits=3) for count, of in zip(labelled, values.T)}
        rows.append([name, *(cells.get(count, NOTHING) for count in columns)])
    return Table(f"{TITLES[measure]} by labelled documents", ["", *map(str, columns)], rows)


def costs(runs: Runs) -> Table:
    """What a round takes, and how single members do."""
    phases = ("fit", "predict", "query")
    head = ["strategy", *phases, "members' mean micro-F1", "members that failed"]
    rows = []
    for name, records in runs.items():
        asked = [record for record in records if record["selected"]]
        later = [record for record in asked if record["round"] > 0] or asked or list(records)
        times = [f"{np.median([r['seconds'].get(p, 0.0) for r in later]):.2f}" for p in phases]
        alone = np.mean([np.mean(record["members"]["micro_f1"]) for record in records])
        failed = sum(epoch >= 0 for record in records for epoch in record["failed_epochs"])
        rows.append([name, *times, f"{alone:.4f}", str(failed)])
    caption = "Seconds a seed and round, median of rounds after the first; members alone"
    return Table(caption, head, rows)


def comparison_table(runs: Runs) -> str:
    """A text table: the area under each curve and the final score, one line a run."""
    width = max(len(name) for name in runs)
    head = f"{'':{width}}  {'micro-F1 area':>14}  {'macro-F1 area':>14}  {'final micro-F1':>14}"
    lines = [head]
    for name, records in runs.items():
        cells = [mean_and_error(area_under_curve(*curves(records, one))) for one in DECIDED]
        cells.append(mean_and_error(curves(records, MEASURES[0])[1][:, -1]))
        lines.append(f"{name:{width}}  " + "  ".join(f"{cell:>14}" for cell in cells))
    return "\n".join(lines)
