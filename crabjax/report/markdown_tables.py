"""Runs compared in Markdown tables: areas, differences, labels needed, what was selected."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from crabjax.report.comparison import (
    areas,
    labels_needed,
    labels_needed_range,
    paired_difference,
)
from crabjax.report.records import (
    DECIDED,
    MEASURES,
    Record,
    Runs,
    is_estimated,
    run_names,
    value_of,
)

OURS, RANDOM, ALIKE, RIVAL = "crab", "random", "random, members alike", "besra"
EARLIER = "random at 0.5, validated"  # picks and pipeline of version 0.2
_LAST = (RANDOM, ALIKE)
_SHOWN = {
    "crab": "CRAB",
    "paper": "CRAB, `preset: paper`",
    "besra": "BESRA",
    "mmc": "MMC",
    "adaptive": "ADAPTIVE",
    "cmal": "CMAL",
    "audi": "AUDI",
    "bald": "BALD",
    "epig": "EPIG",
    "coreset": "core-set",
}
_TITLE = dict(zip(MEASURES, ("micro-F1", "macro-F1", "precision")))
_F1 = tuple(DECIDED)

Experiments = Mapping[str, Runs]


def in_order(runs: Runs) -> Runs:
    """Runs that have a name of their own here first, random picks last."""
    known = [name for name in _SHOWN if name in runs]
    others = [name for name in runs if name not in _SHOWN and name not in _LAST]
    return {name: runs[name] for name in (*known, *others, *_LAST) if name in runs}


def area_table(experiments: Experiments, measures: Sequence[str] = _F1) -> str:
    """Areas with their marks; the highest of a column in bold where there are several."""

    def cell(name: str, runs: Runs) -> str:
        if name not in runs:
            return ""
        parts = []
        for measure in measures:
            of_runs = {one: _mean_area(records, measure) for one, records in runs.items()}
            text = _number(of_runs[name])
            if len(runs) > 1 and of_runs[name] == max(of_runs.values()):
                text = f"**{text}**"
            parts.append(text + _mark(runs, name, measure))
        return " / ".join(parts)

    rows = [
        [shown(name), *(cell(name, runs) for runs in experiments.values())]
        for name in run_names(experiments)
    ]
    return _table(["", *experiments], rows)


def difference_table(experiments: Experiments) -> str:
    """CRAB minus random and BESRA, or another run that comes first minus all others."""
    own, *others = run_names(experiments)
    if own == OURS:
        others = [one for one in (RANDOM, RIVAL) if one in others] or others
    columns = [(other, measure) for other in others for measure in _F1]
    head = [f"{shown(own)} minus", *(f"{shown(other)}, {_TITLE[m]}" for other, m in columns)]
    rows = [
        [name, *(_interval(runs.get(own), runs.get(other), m) for other, m in columns)]
        for name, runs in experiments.items()
    ]
    return _table(head, rows)


def pair_table(experiments: Experiments) -> str:
    """The first run named minus the second, a line an experiment."""
    own, other = run_names(experiments)[:2]
    rows = [
        [name, *(_interval(runs.get(own), runs.get(other), measure) for measure in _F1)]
        for name, runs in experiments.items()
    ]
    return _table([f"{shown(own)} minus {shown(other)}", *(_TITLE[m] for m in _F1)], rows)


def labels_table(
    experiments: Experiments, reference: str = RANDOM, measure: str = MEASURES[0]
) -> str:
    """Labels needed for the final score of random picks, with bootstrap intervals."""
    rows = [
        [shown(name), *(_labels(runs, name, reference, measure) for runs in experiments.values())]
        for name in run_names(experiments)
        if name != reference and (name not in _LAST or reference != RANDOM)
    ]
    return _table(["", *experiments], rows)


def selected_table(experiments: Experiments) -> str:
    """What queries selected and left, CRAB / random; bold where the interval is below 0.

    "~" stands before what a sample of U was asked for.
    """
    measures = {"mean_ir_selected": "MeanIR of a batch", "hard_left": "hard-to-learn left"}
    rows = [
        [title, *(_selected(runs, measure) for runs in experiments.values())]
        for measure, title in measures.items()
    ]
    return _table(["", *experiments], rows)


def strategy_table(experiments: Experiments) -> str:
    """Every run: areas, differences to random picks, seconds a query."""
    head = ["strategy", "areas", "micro-F1 minus random", "macro-F1 minus random", "query, s"]
    rows = []
    for runs in experiments.values():
        for name, records in runs.items():
            cells = [_number(_mean_area(records, measure)) for measure in _TITLE]
            other = runs.get(RANDOM) if name != RANDOM else None
            differences = [_interval(records, other, measure) for measure in _F1]
            rows.append([shown(name), " / ".join(cells), *differences, _query_seconds(records)])
    return _table(head, rows)


KINDS: dict[str, Callable[[Experiments], str]] = {
    "areas": area_table,
    "average precision": partial(area_table, measures=("mean_average_precision",)),
    "differences": difference_table,
    "pair": pair_table,
    "labels": labels_table,
    "labels macro": partial(labels_table, measure=MEASURES[1]),
    "labels earlier": partial(labels_table, reference=EARLIER),
    "labels earlier macro": partial(labels_table, reference=EARLIER, measure=MEASURES[1]),
    "selected": selected_table,
    "strategies": strategy_table,
}


def shown(name: str) -> str:
    """A run as the tables call it."""
    return _SHOWN.get(name, name)


def _reference(runs: Runs, name: str) -> str | None:
    """What a run is marked against: random picks of its own pipeline.

    Those whose members start as its own do, if there are any. Only the earlier pipeline itself is
    set against random picks with today's.
    """
    if name in (RANDOM, EARLIER):
        return RANDOM if name == EARLIER and RANDOM in runs else None
    of = lambda one, setting: runs[one][0].get(setting)
    others = [one for one in (RANDOM, EARLIER, ALIKE) if one in runs and one != name]
    others = [one for one in others if of(one, "keep") == of(name, "keep")]
    alike = [one for one in others if of(one, "member_init") == of(name, "member_init")]
    return next(iter([*alike, *others]), None)


def _mark(runs: Runs, name: str, measure: str) -> str:
    reference = _reference(runs, name)
    if reference is None:
        return ""
    found = paired_difference(runs[name], runs[reference], measure)
    if found is None or found.low * found.high <= 0:
        return ""
    return "+" if found.mean > 0 else "-"


def _interval(own: Sequence[Record] | None, other: Sequence[Record] | None, measure: str) -> str:
    found = None if own is None or other is None else paired_difference(own, other, measure)
    if found is None:
        return ""
    ends = [_number(value, signed=True) for value in (found.mean, found.low, found.high)]
    return f"{ends[0]} [{ends[1]}, {ends[2]}]"


def _labels(runs: Runs, name: str, reference: str, measure: str) -> str:
    if name not in runs or reference not in runs:
        return ""
    number = lambda labels: "never" if labels == float("inf") else f"{labels:,.0f}"
    text = number(labels_needed(runs[name], runs[reference], measure))
    ends = labels_needed_range(runs[name], runs[reference], measure)
    return text if ends is None else f"{text} [{number(ends[0])}, {number(ends[1])}]"


def _selected(runs: Runs, measure: str) -> str:
    if OURS not in runs or RANDOM not in runs:
        return ""
    own, other = ([r for r in runs[one] if r["selected"]] for one in (OURS, RANDOM))
    if any(value_of(record, measure) is None for record in (*own, *other)):
        return ""
    digits = 0 if measure == "hard_left" else 1
    means = []
    for run in (own, other):
        about = "~" if any(is_estimated(record, measure) for record in run) else ""
        mean = np.mean([value_of(record, measure) for record in run])
        means.append(f"{about}{mean:.{digits}f}")
    found = paired_difference(own, other, measure)
    if found is not None and found.high < 0:
        means[0] = f"**{means[0]}**"
    return " / ".join(means)


def _query_seconds(records: Sequence[Record]) -> str:
    asked = [record for record in records if record["selected"] and record["round"] > 0]
    return f"{np.median([r['seconds']['query'] for r in asked]):.3f}" if asked else ""


def _mean_area(records: Sequence[Record], measure: str) -> float:
    return float(np.mean([*areas(records, measure).values()]))


def _number(value: float, signed: bool = False) -> str:
    """.838, or +.0065: the tables leave out the zero before the point."""
    text = f"{value:+.4f}" if signed else f"{value:.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    line = lambda cells: f"| {' | '.join(cells)} |\n"
    return "".join([line(head), f"|{'---|' * len(head)}\n", *map(line, rows)])
