"""A round of the default against the number of documents, which lie in files mapped into memory.

The round looks at a sample, and should take as long whatever their number: `seconds` are those of
predict and query, `ratio` is over the number given first. peak MB is the memory at the peak of the
whole round, all that the process holds included. The files take 2 GB a million.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from crabjax.benchmarks.common import Row, peak_megabytes
from crabjax.benchmarks.corpus import random_corpus
from crabjax.config import Config, from_dict
from crabjax.experiments.loop import step
from crabjax.experiments.problem import Problem
from crabjax.experiments.progress import Progress
from crabjax.experiments.state import first_state
from crabjax.models import build_model

TOKENS, VECTOR, VOCABULARY, LABELS, TESTED = 64, 384, 5000, 20, 200
LABELLED, ROUNDS = 100, 10
MODELS = ("frozen", "text_cnn")
_BLOCK = 20_000  # documents made up at a time
_TIMED = ("predict", "query")


class Case(NamedTuple):
    """A made-up data set: a problem without its documents and labels, and where these lie."""

    problem: Problem
    inputs: Path
    labels: Path


class Measured(NamedTuple):
    """Seconds of predict and query, and the memory at the peak of the whole round."""

    seconds: float
    megabytes: float | None


def run(arguments: argparse.Namespace) -> list[Row]:
    """One row a classifier and number of documents."""
    rows, sizes = [], arguments.documents
    if min(sizes) < LABELLED:
        raise ValueError(f"--documents: expected at least {LABELLED}, found {min(sizes)}")
    for model in MODELS:
        measured = time_rounds(model, sizes, arguments.repeats)
        rows += [
            {
                "what": f"round, {model}",
                "axis": "N",
                "from": sizes[0],
                "to": size,
                "seconds": one.seconds,
                "ratio": one.seconds / measured[0].seconds,
                "peak MB": one.megabytes,
            }
            for size, one in zip(sizes, measured)
        ]
    return rows


def time_rounds(model: str, sizes: Sequence[int], repeats: int) -> list[Measured]:
    """The fastest round of every number of documents, one seed, and the most memory of any.

    All sizes take turns, after one round each to compile: what disturbs the machine disturbs all
    of them. Training is short and not timed; its memory counts.
    """
    settings = {"model": {"name": model}, "ensemble": {"epochs": 2}, "loop": {"seeds": [0]}}
    config = from_dict(settings)
    with tempfile.TemporaryDirectory() as folder:
        cases = [_make_case(config, size, Path(folder)) for size in sizes]
        turns = [[_measure(config, case) for case in cases] for _ in range(1 + repeats)][1:]
    found = []
    for own in zip(*turns):
        seconds, peaks = zip(*own)
        known = [peak for peak in peaks if peak is not None]
        found.append(Measured(min(seconds), max(known) if known else None))
    return found


def _measure(config: Config, case: Case) -> Measured:
    progress = Progress("", case.problem.rounds)

    def one_round() -> None:
        # Mapped anew: pages that the round before read are not counted again.
        mapped = (np.load(path, mmap_mode="r") for path in (case.inputs, case.labels))
        problem = case.problem._replace(**dict(zip(("inputs", "labels"), mapped)))
        with progress.round(0):
            step(config, problem, first_state(problem), progress)

    peak = peak_megabytes(one_round)
    return Measured(sum(progress.seconds[phase] for phase in _TIMED), peak)


def _make_case(config: Config, documents: int, folder: Path) -> Case:
    """Writes documents and labels block by block."""
    vectors = config.model.name == "frozen"
    width, kind = (VECTOR, np.float32) if vectors else (TOKENS, np.int32)
    paths = folder / f"inputs_{documents}.npy", folder / f"labels_{documents}.npy"
    create = lambda path, shape, dtype: np.lib.format.open_memmap(path, "w+", dtype, shape)
    inputs = create(paths[0], (documents, width), kind)
    labels = create(paths[1], (documents, LABELS), bool)
    for start in range(0, documents, _BLOCK):
        rows = slice(start, min(start + _BLOCK, documents))
        inputs[rows], labels[rows] = _make_up(rows.stop - start, vectors, start)
    test_inputs, test_labels = _make_up(TESTED, vectors, documents)
    first = np.random.default_rng(0).choice(documents, (1, LABELLED), replace=False)
    problem = Problem(
        model=build_model(config.model, width if vectors else VOCABULARY, LABELS),
        inputs=np.zeros(0),
        labels=np.zeros(0),
        test_inputs=test_inputs,
        test_labels=test_labels,
        documents=documents,
        held_out=np.zeros((1, 0), np.int64),
        validation_rows=np.zeros((1, 0), np.int32),
        initial=np.sort(first, axis=1),
        rounds=ROUNDS,
        capacity=LABELLED + ROUNDS * config.loop.query_size,
        fingerprint="",
    )
    return Case(problem, *paths)


def _make_up(documents: int, vectors: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if not vectors:
        return random_corpus(documents, TOKENS, VOCABULARY, LABELS, seed)
    generator = np.random.default_rng(seed)
    found = generator.standard_normal((documents, VECTOR), np.float32)
    return found, found[:, :LABELS] > 1
