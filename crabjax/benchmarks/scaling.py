"""Growth of time with each size: candidates, anchors, labels, members, documents.

One size at a time is doubled --steps times; the slope of log time over log size, from the fastest
repeats, is the exponent: 1 is linear. --base multiplies all sizes: on a fast device programs that
are too short time their start, and look less than linear. The members' share in the score is one
small matrix product beside the entropies, so it grows less than linearly by nature.

round is predict and query of the default, with --documents made up in files that are mapped into
memory. It looks at a sample, and should take as long whatever their number; peak MB is the memory
at the peak of the whole round, all that the process holds included. Its files take 2 GB a million.
"""

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from crabjax.benchmarks.arguments import ROUND
from crabjax.benchmarks.common import Row, seconds_of
from crabjax.benchmarks.corpus import random_corpus
from crabjax.benchmarks.pool_size import MODELS, time_rounds
from crabjax.benchmarks.scoring import ensemble_probabilities
from crabjax.config import EnsembleConfig, ModelConfig, StrategyConfig
from crabjax.ensemble import fit_ensemble, member_keys, predict_logits
from crabjax.keys import draw_up_to
from crabjax.models import Model, build_model
from crabjax.pool.refine import pool_traits, refine_pool
from crabjax.scoring import expected_loss_reduction, label_correlation

TOKENS, VOCABULARY, LABELS, CHUNK = 64, 5000, 20, 512


class Growth(NamedTuple):
    """Time as a power of size: the exponent, and the standard error of its fit."""

    exponent: float
    error: float


class Case(NamedTuple):
    """A program, the size that is doubled, and where it starts.

    Attributes:
      what: name of the program.
      axis: letter of the size.
      start: smallest size.
      prepare: from a size to a call without arguments.
    """

    what: str
    axis: str
    start: int
    prepare: Callable[[int], Callable[[], Any]]


def run(arguments: argparse.Namespace) -> list[Row]:
    """One row a program and size, or a round and number of documents; draws them all."""
    rows, curves = [], {}
    programs = [what for what in arguments.what if what != ROUND]
    for case in (case for what in programs for case in CASES[what](arguments.base)):
        sizes = [case.start * 2**step for step in range(arguments.steps + 1)]
        seconds = _fastest([case.prepare(size) for size in sizes], arguments.repeats)
        growth = fit_growth(sizes, seconds)
        judged = growth._asdict() | {"verdict": verdict(growth, arguments.tolerance)}
        curves[case.what, case.axis] = (sizes, seconds)
        rows.append(_row(case.what, case.axis, sizes, seconds) | judged)
    for model in MODELS if ROUND in arguments.what else ():
        sizes = arguments.documents
        measured = time_rounds(model, sizes, arguments.repeats)
        seconds = [one.seconds for one in measured]
        curves[f"{ROUND}, {model}", "N"] = (sizes, seconds)
        for end, one in enumerate(measured, start=1):
            row = _row(f"{ROUND}, {model}", "N", sizes[:end], seconds[:end])
            rows.append(row | {"peak MB": one.megabytes})
    draw_growth(curves, Path(arguments.plot))
    print(f"picture: {arguments.plot}")
    return rows


def _row(what: str, axis: str, sizes: Sequence[int], seconds: Sequence[float]) -> Row:
    return {
        "what": what,
        "axis": axis,
        "from": sizes[0],
        "to": sizes[-1],
        "seconds": seconds[-1],
        "ratio": seconds[-1] / seconds[0],
        "peak MB": None,
        "exponent": None,
        "error": None,
        "verdict": None,
    }


def _fastest(calls: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """The fastest of each call, timed in turns: what disturbs the machine disturbs all of them."""
    for call in calls:
        jax.block_until_ready(call())
    turns = [[seconds_of(call) for call in calls] for _ in range(repeats)]
    return [min(one) for one in zip(*turns)]


def fit_growth(sizes: Sequence[float], seconds: Sequence[float]) -> Growth:
    """Least squares of log time on log size; the error is 0 where two points leave none."""
    x, y = np.log(sizes), np.log(seconds)
    spread = np.sum((x - x.mean()) ** 2)
    exponent = np.sum((x - x.mean()) * (y - y.mean())) / spread
    residual = y - y.mean() - exponent * (x - x.mean())
    error = np.sqrt(np.sum(residual**2) / max(len(x) - 2, 1) / spread)
    return Growth(float(exponent), float(error))


def verdict(growth: Growth, tolerance: float) -> str:
    """In words: linear within the tolerance, less, or more; unclear where noise hides it."""
    if growth.error > tolerance:
        return "unclear"
    if abs(growth.exponent - 1) <= tolerance:
        return "linear"
    return "less than linear" if growth.exponent < 1 else "MORE THAN LINEAR"


def draw_growth(curves: dict[tuple[str, str], tuple[list[int], list[float]]], path: Path) -> None:
    """One panel a program, one line a size; marks and dashes tell lines apart without colour."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    programs = list(dict.fromkeys(what for what, _ in curves))
    figure, panels = pyplot.subplots(
        1, len(programs), figsize=(3.6 * len(programs), 5), squeeze=False, layout="constrained"
    )
    styles = ["o-", "s--", "^-.", "D:"]
    for panel, program in zip(panels[0], programs):
        own = [(axis, *found) for (what, axis), found in curves.items() if what == program]
        for (axis, sizes, seconds), style in zip(own, styles):
            growth = fit_growth(sizes, seconds)
            relative = np.divide(sizes, sizes[0]), np.divide(seconds, seconds[0])
            shade = str(0.15 * styles.index(style))
            label = f"{axis} from {sizes[0]}: {growth.exponent:.2f} ± {growth.error:.2f}"
            panel.loglog(*relative, style, color=shade, label=label, base=2)
        most = max(len(sizes) for _, sizes, _ in own)
        linear = 2.0 ** np.arange(most)
        panel.loglog(linear, linear, color="0.8", linewidth=4, zorder=0, label="linear", base=2)
        panel.set(title=program, xlabel="size, times the smallest")
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), title="size: exponent")
    panels[0][0].set_ylabel("time, times that of the smallest")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _score_cases(base: int) -> Iterator[Case]:
    start = {"E": 4, "X": 1024 * base, "P": 256 * base, "K": 16 * base}

    def prepare(axis: str, size: int) -> Callable[[], Any]:
        candidates, anchors = ensemble_probabilities(*(start | {axis: size}).values())
        return lambda: expected_loss_reduction(candidates, anchors, chunk_size=CHUNK)

    for axis, size in start.items():
        yield Case("score", axis, size, lambda size, axis=axis: prepare(axis, size))


def _predict_cases(base: int) -> Iterator[Case]:
    def prepare(documents: int, members: int) -> Callable[[], Any]:
        tokens, _ = random_corpus(documents, TOKENS, VOCABULARY, LABELS)
        model, params = _model(), jax.vmap(_model().init)(_keys(members).init)
        return lambda: predict_logits(model, params, tokens, 256)

    documents = 1024 * base
    yield Case("predict", "N", documents, lambda size: prepare(size, 2))
    yield Case("predict", "E", 2, lambda size: prepare(documents, size))


def _refine_cases(base: int) -> Iterator[Case]:
    def prepare(documents: int) -> Callable[[], Any]:
        random = np.random.default_rng(0)
        probabilities = random.beta(0.3, 1.2, (documents, LABELS)).astype(np.float32)
        correlation = label_correlation(random.random((1000, LABELS)) < 0.2)
        everything, config = np.arange(documents), StrategyConfig()
        draw = lambda documents, count, source, label=0: draw_up_to(random, documents, count)

        def refine() -> Any:
            traits = pool_traits(probabilities, correlation, everything, config)
            return refine_pool(traits, everything, 100, 300, config, draw, draw).documents

        return refine

    yield Case("refine", "N", 50_000 * base, prepare)


def _fit_cases(base: int) -> Iterator[Case]:
    start = 400 * base

    def prepare(documents: int, members: int) -> Callable[[], Any]:
        capacity = max(documents, 8 * start)  # the same up to three steps, and so the program
        model, corpus = _model(), random_corpus(capacity, TOKENS, VOCABULARY, LABELS)
        rows = np.tile(np.arange(capacity, dtype=np.int32), (members, 1))
        counts, held_out = np.full(members, documents, np.int32), rows[:, :1]
        config, keys = EnsembleConfig(members=members, epochs=2, patience=2), _keys(members)
        return lambda: fit_ensemble(model, config, keys, *corpus, rows, counts, held_out)[1]

    yield Case("fit", "N", start, lambda size: prepare(size, 2))
    yield Case("fit", "E", 2, lambda size: prepare(start, size))


@functools.cache
def _model() -> Model:
    return build_model(ModelConfig(), VOCABULARY, LABELS)


def _keys(members: int):
    return member_keys(jax.random.split(jax.random.key(0), 1), members, "independent")


CASES: dict[str, Callable[[int], Iterator[Case]]] = {
    "score": _score_cases,
    "predict": _predict_cases,
    "refine": _refine_cases,
    "fit": _fit_cases,
}
