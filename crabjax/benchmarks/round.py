"""Time of a whole round of the loop, by phase, and the driver's share of it.

The first round of an experiment is repeated, after once to compile. Each phase is split into the
time inside compiled programs, inside k-means, and the rest: the driver, whose share of a round
should stay under 5%.

--against dense sets the query against one that evaluates Eqs. 2 to 4 with NumPy and SciPy, timed
on --dense-candidates of the candidates and scaled to all of them (it takes minutes); choosing among
them counts for nothing there. --against torch also sets fit and predict against a plain PyTorch
loop over members, of the first seed, times the seeds; both sides then run all epochs.
"""

import argparse
import dataclasses
import statistics
from collections import defaultdict

from crabjax.benchmarks.baseline import dense_query_seconds, torch_seconds
from crabjax.benchmarks.clock import Call, clocked_programs, covered
from crabjax.benchmarks.common import Row, peak_extra_megabytes
from crabjax.config import Config, load_variants
from crabjax.experiments.loop import Info, step
from crabjax.experiments.problem import Problem, prepare
from crabjax.experiments.progress import Progress
from crabjax.experiments.state import first_state

KINDS = ("compiled", "k-means")
COMPARED = ("fit", "predict", "query")

Seconds = dict[str, dict[str, float]]
"""By phase: "total", "compiled" and "k-means"."""


def run(arguments: argparse.Namespace) -> list[Row]:
    """One row a phase, and one for the whole round; the same for what it is set against."""
    overrides = [f"strategy.name={arguments.strategy}", *arguments.overrides]
    (config,) = load_variants(arguments.config, overrides).values()
    if arguments.against == "torch":
        ensemble = dataclasses.replace(config.ensemble, patience=config.ensemble.epochs)
        config = dataclasses.replace(config, ensemble=ensemble)
    problem = prepare(config)
    (first, *repeats), info = timed_rounds(config, problem, 1 + arguments.repeats)
    phases = {phase: [phase] for phase in first} | {"round": list(first)}
    rows = []
    if arguments.against:
        phases["fit + predict + query"] = list(COMPARED)
    for name, parts in phases.items():
        rows.append(_row(name, _sums(first, parts), [_sums(one, parts) for one in repeats]))
    whole = next(row for row in rows if row["phase"] == "round")
    whole["peak extra MB"] = peak_extra_megabytes(timed_rounds, config, problem, 1)
    if arguments.against:
        rows += _baseline_rows(arguments, config, problem, info, rows)
    return rows


def timed_rounds(config: Config, problem: Problem, repeats: int) -> tuple[list[Seconds], Info]:
    """The first round, ``repeats`` times, every compiled program and k-means clocked."""
    progress, found, info = Progress(config.data.name, problem.rounds), [], None
    calls: dict[tuple[str, str], list[tuple[float, float]]]

    def record(call: Call) -> None:
        kind, start, stop = call
        calls[progress.current, kind].append((start, stop))

    with clocked_programs(record):
        for _ in range(repeats):
            calls = defaultdict(list)
            with progress.round(0):
                _, info = step(config, problem, first_state(problem), progress)
            found.append(
                {
                    phase: {"total": total} | {kind: covered(calls[phase, kind]) for kind in KINDS}
                    for phase, total in progress.seconds.items()
                }
            )
    assert info is not None
    return found, info


def _sums(seconds: Seconds, phases: list[str]) -> dict[str, float]:
    kinds = ("total", *KINDS)
    return {kind: sum(seconds[phase][kind] for phase in phases) for kind in kinds}


def _row(phase: str, first: dict[str, float], repeats: list[dict[str, float]]) -> Row:
    median = {kind: statistics.median(one[kind] for one in repeats) for kind in first}
    totals, total = [one["total"] for one in repeats], median["total"]
    driver = total - median["compiled"] - median["k-means"]
    return {
        "what": "crabjax",
        "phase": phase,
        "seconds": total,
        "spread": (max(totals) - min(totals)) / total,
        "compile s": max(first["total"] - total, 0.0),
        "peak extra MB": None,
        "compiled": median["compiled"],
        "k-means": median["k-means"],
        "driver": driver,
        "driver %": 100 * driver / total,
        "ratio": 1.0,
    }


def _baseline_rows(arguments, config: Config, problem: Problem, info: Info, ours: list[Row]):
    """The same phases done otherwise; what is not replaced counts as crabjax's own."""
    seconds = {row["phase"]: row["seconds"] for row in ours}
    other = {phase: seconds[phase] for phase in COMPARED}
    other["query"] = dense_query_seconds(config, problem, info, arguments.dense_candidates)
    if arguments.against == "torch":
        other |= torch_seconds(config, problem)
    other["fit + predict + query"] = sum(other.values())
    return [
        dict.fromkeys(ours[0])
        | {
            "what": arguments.against,
            "phase": phase,
            "seconds": value,
            "ratio": value / seconds[phase],
        }
        for phase, value in other.items()
    ]
