"""A run small enough to be repeated hundreds of times, and how to start it."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
data:
  validation_size: 40
  max_tokens: 16
  synthetic: {documents: 200, test_documents: 50, mean_ir: 5}
model: {embedding: 4, kernels: 4, widths: [2]}
ensemble: {members: 2, epochs: 3, batch_size: 20}
strategy: {name: crab, per_label: 10, hard_size: 20}
loop: {rounds: 4, initial_size: 20, query_size: 10, seeds: [0, 1]}
"""


def write_config(folder: Path) -> Path:
    """The configuration of the small run."""
    (folder / "small.yaml").write_text(CONFIG)
    return folder / "small.yaml"


def write_data(folder: Path) -> tuple[str, ...]:
    """The corpus of the small run as files, so that a start need not make it; the overrides."""
    words = ("--documents", "200", "--test-documents", "50", "--mean-ir", "5")
    if not (folder / "data").exists():
        assert call("prepare", "synthetic", "--output", str(folder / "data"), *words)[0] == 0
    files = {split: folder / "data" / f"{split}.jsonl" for split in ("train", "test")}
    return tuple(
        word for split, path in files.items() for word in ("--set", f"data.{split}={path}")
    )


def environment(folder: Path) -> dict[str, str]:
    """Of a command whose caches lie in ``folder``."""
    own = {"CRABJAX_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    return {**os.environ, **own}


def start(folder: Path, *words: str) -> subprocess.Popen:
    """Starts ``crabjax WORDS`` in ``folder``."""
    return subprocess.Popen(
        [sys.executable, "-m", "crabjax", *words],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(*words: str) -> tuple[int, str]:
    """Runs a command in this process; its exit status and what it said to stderr."""
    from crabjax.cli.main import main

    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            status = main(list(words))
        except SystemExit as stopped:  # of argparse
            status = int(stopped.code or 0)
        except BaseException as error:  # what a user would see as a traceback
            return -1, f"Traceback: {type(error).__name__}: {error}"
    return status, said.getvalue()


def timeless(folder: Path) -> list[dict]:
    """The records of a run without the times it took."""
    lines = (folder / "records.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]
