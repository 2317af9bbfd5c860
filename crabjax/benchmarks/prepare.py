"""Preparing short texts: read, checked, words counted, tokenised, arrays written to a fresh cache.

Texts of about twenty made-up words each, in JSON lines, labels drawn at random. A second start
finds the arrays in the cache; a gather of 3,000 random rows reads these rows, not the file.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

from crabjax.benchmarks.common import Row, peak_extra_megabytes
from crabjax.config import DataConfig
from crabjax.data.load import Dataset, load_data

GATHERED = 3000


def run(arguments: argparse.Namespace) -> list[Row]:
    """A row each: preparing, the second start, a gather."""
    with (
        tempfile.TemporaryDirectory() as name,
        patch.dict(os.environ, CRABJAX_CACHE=f"{name}/cache"),
    ):
        folder = Path(name)
        for split, documents in (("train", arguments.documents), ("test", 1000)):
            _write_texts(folder / f"{split}.jsonl", documents, arguments)
        return _measured(folder, arguments.documents)


def _measured(folder: Path, documents: int) -> list[Row]:
    config = DataConfig(
        name="made up", train=str(folder / "train.jsonl"), test=str(folder / "test.jsonl")
    )
    found: list[Dataset] = []
    rows = np.sort(np.random.default_rng(1).choice(documents, min(GATHERED, documents), False))
    steps = {
        "prepare": lambda: found.append(load_data(config)),
        "second start": lambda: found.append(load_data(config)),
        "gather": lambda: found[-1].pool.tokens[rows],
    }
    table = []
    for what, step in steps.items():
        start = time.perf_counter()
        extra = peak_extra_megabytes(step)
        seconds = time.perf_counter() - start
        table.append(
            {
                "what": what,
                "documents": documents,
                "seconds": seconds,
                "documents/s": (len(rows) if what == "gather" else documents) / seconds,
                "peak extra MB": extra,
            }
        )
    return table


def _write_texts(path: Path, documents: int, arguments: argparse.Namespace) -> None:
    random = np.random.default_rng(documents)
    chances = 1.0 / np.arange(1, arguments.vocabulary + 1)
    words = np.array([f"w{number:x}" for number in range(arguments.vocabulary)])
    with open(path, "w", encoding="utf-8") as file:
        for start in range(0, documents, 10_000):
            count = min(10_000, documents - start)
            lengths = np.maximum(1, random.poisson(arguments.words, count))
            drawn = words[random.choice(len(words), lengths.sum(), p=chances / chances.sum())]
            for own in np.split(drawn, np.cumsum(lengths)[:-1]):
                labels = [f"l{random.integers(arguments.labels)}"]
                file.write(json.dumps({"text": " ".join(own), "labels": labels}) + "\n")
