"""The folder of one run: what was asked for, what came out, and where to go on."""

import dataclasses
import json
import logging
import platform
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import Any

import jax
import numpy as np

from crabjax.config import Config, ConfigError, experiment_settings, from_stored, to_dict, to_yaml
from crabjax.devices.processes import array_of_first, check_agreement, on_first
from crabjax.experiments.checkpoint import Checkpoints, Saved, of_form
from crabjax.files import LOCK, lock, write_text
from crabjax.files.seals import json_hash
from crabjax.report.records import Record, summarise, write_records

log = logging.getLogger(__name__)

RUN, CONFIG, RECORDS = "run.json", "config.yaml", "records.jsonl"
SUMMARY, LOG, CHECKPOINTS = "summary.json", "log.txt", "checkpoints"
FILES = (RUN, CONFIG, RECORDS, SUMMARY, LOG)
PACKAGES = ("crabjax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "scikit-learn")


class RunFolderError(RuntimeError):
    """A folder that another run is using, or that holds what no run wrote."""


class RunFolder:
    """Opens a folder for a run of ``config``; use as a context manager.

    A folder that holds a run of the same config is continued. Any other run in it is an error
    that names the differences, unless ``fresh`` asks to begin again. The folder is claimed, and
    an earlier run deleted, only by :meth:`check_data`: a run whose settings or data turn out
    wrong leaves nothing behind. Of several processes only the first touches files; the others
    learn from it what it found.
    """

    def __init__(self, path: Path, config: Config, fresh: bool = False):
        # What is left to the platform is decided by the one that begins a run.
        config = dataclasses.replace(config, model=config.model.on(jax.default_backend()))
        self.path, self._config, self._fresh = path, config, fresh

    def __enter__(self) -> "RunFolder":
        self._open = ExitStack()
        check_agreement("config", json_hash(experiment_settings(self._config)))
        on_first(self._open_files)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            # For the file only: on the terminal the caller says it in one line.
            log.info("stopped", exc_info=(kind, error, trace))
        self._open.close()

    def check_data(self, fingerprint: str) -> None:
        """Claims the folder for a run on these data; the log and the checkpoints begin here.

        Raises:
          ConfigError: if an earlier part of this run saw other documents or labels.
        """
        check_agreement("data", fingerprint)
        on_first(lambda: self._claim(fingerprint))

    def restore(self, *forms: dict[str, np.ndarray]) -> Saved | None:
        """The last saved round, or None; the result files are put back to that round."""
        arrays: dict[str, np.ndarray] = {}

        def restore_files() -> list[Any] | None:
            saved = self._checkpoints.restore(*forms)
            if saved is None:
                return None
            log.info("going on after round %d", saved.round)
            self._write_results(saved.records)
            arrays.update(saved.arrays)
            form = [of_form(saved.arrays, like) for like in forms].index(True)
            return [saved.round, saved.records, form]

        found = on_first(restore_files)
        if found is None:
            return None
        arrays = forms[found[2]] | arrays
        shared = {name: array_of_first(arrays[name]) for name in sorted(arrays)}
        return Saved(found[0], shared, found[1])

    def save(self, saved: Saved) -> None:
        """Saves a round: the checkpoint first, since the other files follow from it."""

        def save_files() -> None:
            with _uninterrupted():
                self._checkpoints.save(saved)
                self._write_results(saved.records)

        on_first(save_files)

    def _open_files(self) -> None:
        is_new = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(lock(self.path, wait=False))
            except BlockingIOError as error:
                raise RunFolderError(f"{self.path}: another run is writing here") from error
            if is_new:
                stack.callback(self._leave_nothing)
            self._run = None if self._fresh else self._earlier_run()
            self._log = stack.enter_context(_logged())
            self._open = stack.pop_all()

    def _leave_nothing(self) -> None:
        """Removes a folder that was made for a run which then did not begin."""
        if [one.name for one in self.path.iterdir()] == [LOCK]:
            (self.path / LOCK).unlink()
            self.path.rmdir()

    def _claim(self, fingerprint: str) -> None:
        if self._run is None:
            for name in FILES:
                (self.path / name).unlink(missing_ok=True)
            shutil.rmtree(self.path / CHECKPOINTS, ignore_errors=True)
        run = self._run or _description(self._config)
        # Until 0.2 nothing was noted of encoders: there, it cannot be told whether they changed.
        of_data = fingerprint.partition("-")[0]
        if run.setdefault("data", fingerprint) not in (fingerprint, of_data):
            raise ConfigError(
                f"{self.path}: holds a run on other data: the files, or those of its encoder, have "
                "changed since it began; "
                "choose another --output, or --fresh to delete that run and begin again"
            )
        # First of all files: it marks the folder as a run's.
        write_text(self.path / RUN, json.dumps(run, indent=1))
        write_text(self.path / CONFIG, to_yaml(self._config))
        self._log.setTarget(_log_file(self.path / LOG))
        self._log.flush()
        if run["versions"] != _versions():
            log.warning("%s: begun with other versions: %s", self.path, run["versions"])
        keep = self._config.output.keep_checkpoints
        self._checkpoints = self._open.enter_context(Checkpoints(self.path / CHECKPOINTS, keep))

    def _write_results(self, records: list[Record]) -> None:
        write_records(self.path / RECORDS, records)
        write_text(self.path / SUMMARY, json.dumps(summarise(records), indent=1))

    def _earlier_run(self) -> dict[str, Any] | None:
        """What run.json says of a run of the same config in this folder; None if there is none."""
        path = self.path / RUN
        if path.is_file():
            run = _read_run(path)
            found = experiment_settings(from_stored(run["config"], str(path)))
            if differences := _differences(found, experiment_settings(self._config)):
                raise ConfigError(
                    f"{self.path}: holds a run of another config:\n  "
                    + "\n  ".join(differences)
                    + "\nchoose another --output, or --fresh to delete that run and begin again"
                )
            return run
        present = [name for name in (*FILES, CHECKPOINTS) if (self.path / name).exists()]
        if present:
            raise RunFolderError(
                f"{self.path}: holds {', '.join(present)}, which no run wrote; "
                "choose another --output, or --fresh to delete them"
            )
        return None


@contextmanager
def _logged() -> Iterator[MemoryHandler]:
    """Keeps what the package logs until there is a file for it; warnings go to the terminal."""
    logger, terminal = logging.getLogger("crabjax"), logging.StreamHandler()
    terminal.setLevel(logging.WARNING)
    kept = MemoryHandler(capacity=1, flushOnClose=False)
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False  # a library's root handler would print the table twice
    logger.handlers += [kept, terminal]
    try:
        yield kept
    finally:
        logger.level, logger.propagate = before
        logger.handlers = [one for one in logger.handlers if one not in (kept, terminal)]
        file = kept.target
        kept.close()
        if file is not None:
            file.close()


def _log_file(path: Path) -> logging.Handler:
    file = logging.FileHandler(path, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    return file


def _read_run(path: Path) -> dict[str, Any]:
    """What run.json says.

    Raises:
      RunFolderError: if it is not what a run wrote.
    """
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(run, dict) and isinstance(run.get("config"), dict) and "versions" in run:
            return run
        found = "no description of a run"
    except ValueError as error:
        found = f"not JSON: {error}"
    raise RunFolderError(
        f"{path}: damaged, or of another program ({found}); put a copy back, choose another "
        "--output, or --fresh to begin again"
    )


def _description(config: Config) -> dict[str, Any]:
    devices = jax.devices()
    return {
        "config": to_dict(config),
        "versions": _versions(),
        "device": {"kind": devices[0].device_kind, "count": len(devices)},
        "machine": f"{platform.system()} {platform.machine()}",
        "command": sys.argv,
    }


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {one: metadata.version(one) for one in PACKAGES}


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [
        f"{key}: {found.get(key)} there, {wanted.get(key)} asked for"
        for key in found | wanted  # words for labels are there or not
        if found.get(key) != wanted.get(key)
    ]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Holds Ctrl-C back until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending = []
    before = signal.signal(signal.SIGINT, lambda *_: pending.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pending:
        raise KeyboardInterrupt
