"""Time of whole rounds of the loop, by phase, and the driver's share of it.

Each phase is split into the time inside compiled programs, inside k-means, and the rest: the
driver, whose share of a round should stay under 5%. The first round, which compiles, is left out.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import jax

from crabjax.benchmarks.common import Row
from crabjax.config import load_variants
from crabjax.loop import State, step
from crabjax.problem import prepare
from crabjax.progress import Progress

PROGRAMS = (
    "crabjax.ensemble.train",
    "crabjax.ensemble._ensemble_logits",
    "crabjax.ensemble._member_features",
    "crabjax.metrics._evaluate",
    "crabjax.scoring.correlation._correlation_of_labels",
    "crabjax.scoring.elr._score_chunk",
)
KMEANS = ("crabjax.pool.select.kmeans_picks",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the settings of this benchmark."""
    parser.add_argument("--config", default="demo.yaml", help="the experiment (default: demo.yaml)")
    parser.add_argument("--strategy", default="crab", help="default: crab")
    parser.add_argument("--rounds", type=int, default=3, help="rounds to time (default: 3)")
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="SECTION.KEY=VALUE"
    )


def run(arguments: argparse.Namespace) -> list[Row]:
    """One row a phase, and one for the whole round."""
    overrides = [f"strategy.name={arguments.strategy}", *arguments.overrides]
    (config,) = load_variants(arguments.config, overrides).values()
    problem = prepare(config)
    state, rounds = State(0, problem.initial), []
    for _ in range(min(arguments.rounds + 1, problem.rounds)):
        seconds = defaultdict(lambda: defaultdict(float))
        state = _timed_round(config, problem, state, seconds)
        rounds.append(seconds)
    timed = rounds[1:] or rounds
    phases = [*timed[0], "round"]
    return [_row(phase, timed) for phase in phases]


def _timed_round(config: Any, problem: Any, state: State, seconds: dict) -> State:
    """One round with every compiled program and k-means bracketed by a clock."""
    progress = Progress(config.data.name, problem.rounds)

    def clocked(kind: str, function: Callable) -> Callable:
        def call(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            result = jax.block_until_ready(function(*arguments, **named))
            seconds[progress.current][kind] += time.perf_counter() - start
            return result

        return call

    with ExitStack() as patches, progress.round(state.round):
        for kind, names in (("compiled", PROGRAMS), ("k-means", KMEANS)):
            for name in names:
                module, _, attribute = name.rpartition(".")
                original = getattr(__import__(module, fromlist=["_"]), attribute)
                patches.enter_context(patch(name, clocked(kind, original)))
        state, _ = step(config, problem, state, progress)
    for phase, total in progress.seconds.items():
        seconds[phase]["total"] = total
    return state


def _row(phase: str, rounds: list[dict]) -> Row:
    def median(kind: str) -> float:
        phases = lambda one: one if phase == "round" else [phase]
        return statistics.median(sum(one[p][kind] for p in phases(one)) for one in rounds)

    total, compiled, kmeans = median("total"), median("compiled"), median("k-means")
    return {
        "phase": phase,
        "seconds": total,
        "compiled": compiled,
        "k-means": kmeans,
        "driver": total - compiled - kmeans,
        "driver %": 100 * (total - compiled - kmeans) / total,
    }
