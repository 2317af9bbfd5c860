"""The folder of one run: what was asked for, what came out, and where to go on."""

import fcntl
import json
import logging
import platform
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
import yaml

from crabjax.checkpoint import Checkpoints, Saved
from crabjax.config import Config, to_dict, to_yaml
from crabjax.records import summarise, write_records, write_text
from crabjax.settings import ConfigError

log = logging.getLogger(__name__)

CONFIG, RUN, RECORDS, SUMMARY, LOG = (
    "config.yaml",
    "run.json",
    "records.jsonl",
    "summary.json",
    "log.txt",
)
PACKAGES = ("crabjax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "scikit-learn")


class RunFolderError(RuntimeError):
    """A folder that another run is using."""


class RunFolder:
    """Opens a folder for a run of ``config``; use as a context manager.

    A folder that holds a run of the same config on the same data is continued. Any other run in
    it is an error that names the differences, unless ``fresh`` asks to begin again.
    """

    def __init__(self, path: Path, config: Config, fingerprint: str, fresh: bool = False):
        self.path, self._config, self._fingerprint, self._fresh = path, config, fingerprint, fresh

    def __enter__(self) -> "RunFolder":
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            raise RunFolderError(f"{self.path}: another run is writing here") from error
        try:
            self._claim()
        except BaseException:
            self._lock.close()
            raise
        self._handler = logging.FileHandler(self.path / LOG, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logging.getLogger("crabjax").addHandler(self._handler)
        self._checkpoints = Checkpoints(
            self.path / "checkpoints", self._config.output.keep_checkpoints
        )
        return self

    def __exit__(self, *_) -> None:
        self._checkpoints.__exit__()
        logging.getLogger("crabjax").removeHandler(self._handler)
        self._handler.close()
        self._lock.close()

    def restore(self, like: dict[str, np.ndarray]) -> Saved | None:
        """The last saved round, or None; the records file is put back to that round."""
        saved = self._checkpoints.restore(like)
        if saved is not None:
            log.info("going on after round %d", saved.round)
            write_records(self.path / RECORDS, saved.records)
        return saved

    def save(self, saved: Saved) -> None:
        """Saves a round: the checkpoint first, since the other files follow from it."""
        with _uninterrupted():
            self._checkpoints.save(saved)
            write_records(self.path / RECORDS, saved.records)
            write_text(self.path / SUMMARY, json.dumps(summarise(saved.records), indent=1))

    def _claim(self) -> None:
        wanted = _comparable(to_dict(self._config)) | {"data content": self._fingerprint}
        if (self.path / RUN).is_file() and not self._fresh:
            run = json.loads((self.path / RUN).read_text(encoding="utf-8"))
            found = yaml.safe_load((self.path / CONFIG).read_text(encoding="utf-8"))
            found = _comparable(found) | {"data content": run["data"]}
            if differences := _differences(found, wanted):
                raise ConfigError(
                    f"{self.path}: holds a run of another config:\n  "
                    + "\n  ".join(differences)
                    + "\nchoose another --output, or --fresh to delete that run and begin again"
                )
            if run["versions"] != _versions():
                log.warning("%s: begun with other versions: %s", self.path, run["versions"])
            return
        for name in (RUN, CONFIG, RECORDS, SUMMARY, LOG):
            (self.path / name).unlink(missing_ok=True)
        shutil.rmtree(self.path / "checkpoints", ignore_errors=True)
        write_text(self.path / CONFIG, to_yaml(self._config))
        write_text(self.path / RUN, json.dumps(_description(self._fingerprint), indent=1))


def _description(fingerprint: str) -> dict[str, Any]:
    devices = jax.devices()
    return {
        "data": fingerprint,
        "versions": _versions(),
        "device": {"kind": devices[0].device_kind, "count": len(devices)},
        "machine": f"{platform.system()} {platform.machine()}",
        "command": sys.argv,
    }


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {one: metadata.version(one) for one in PACKAGES}


def _comparable(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys of everything that can change a record; where it is written cannot."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if prefix or key != "output":
            inside = isinstance(value, dict)
            flat |= _comparable(value, f"{prefix}{key}.") if inside else {prefix + key: value}
    return flat


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [
        f"{key}: {found.get(key, 'absent')} there, {wanted.get(key, 'absent')} asked for"
        for key in dict.fromkeys([*wanted, *found])
        if found.get(key, ...) != wanted.get(key, ...)
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
