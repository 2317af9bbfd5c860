"""A run small enough to be repeated hundreds of times, and how to start it."""

import contextlib
import io
import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

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


class Command:
    """``crabjax WORDS`` in a process of its own, from one that has all imported and done nothing.

    Importing takes as long as the whole small run; a process forked before JAX has looked for
    devices is as new as any.
    """

    def __init__(self, folder: Path, *words: str):
        _server.set_forkserver_preload(_IMPORTED)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".said", delete=False) as said:
            self._said = Path(said.name)
        self._process = _server.Process(target=_run, args=(folder, words, self._said), daemon=True)
        self._process.start()

    def ended(self) -> bool:
        """Whether it came to an end of its own."""
        return self._process.exitcode is not None

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self.wait()

    def wait(self, seconds: float | None = None) -> tuple[int, str]:
        """Its exit status and what it said, once it has ended."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            self.kill()
            raise TimeoutError(f"no end in {seconds} seconds")
        said = self._said.read_text(errors="replace") if self._said.exists() else ""
        self._said.unlink(missing_ok=True)
        return self._process.exitcode, said


_server = multiprocessing.get_context("forkserver")
_IMPORTED = [
    "crabjax.cli.train",
    "crabjax.experiments.variants",
    "matplotlib.pyplot",
    "orbax.checkpoint",
    "sklearn.cluster",
]


def _run(folder: Path, words: tuple[str, ...], said: Path) -> None:
    """What the new process does: its caches lie in ``folder``, and all it says is in a file."""
    file = os.open(said, os.O_WRONLY | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ["CRABJAX_CACHE"] = str(folder / "cache")
    os.chdir(folder)
    from crabjax.cli.main import main

    sys.exit(main(words))


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
