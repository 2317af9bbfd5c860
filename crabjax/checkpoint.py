"""Saved rounds. The only file that knows orbax.

A checkpoint is a few host arrays and the run's records so far. Orbax writes it beside its final
place and renames it, so a kill at any moment leaves the previous rounds whole.
"""

import contextlib
import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

log = logging.getLogger(__name__)


class CheckpointError(RuntimeError):
    """A round that cannot be written or read."""


class Saved(NamedTuple):
    """What a checkpoint holds."""

    round: int
    arrays: dict[str, np.ndarray]
    records: list[dict[str, Any]]


class Checkpoints:
    """The checkpoints of one run, newest ``keep`` kept; use as a context manager."""

    def __init__(self, folder: Path, keep: int = 2):
        from orbax.checkpoint import v1 as ocp

        self._folder, self._failed = folder.absolute(), False
        newest: Any = ocp.training.preservation_policies.LatestN(keep)
        self._checkpointer = ocp.training.Checkpointer(
            str(self._folder),
            preservation_policy=newest,
            cleanup_tmp_directories=True,
            context=_one_writer(),
        )

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_) -> None:
        # After a failed save orbax raises the same failure again on closing.
        with contextlib.suppress(Exception) if self._failed else contextlib.nullcontext():
            self._checkpointer.close()

    def save(self, saved: Saved) -> None:
        """Writes a round, replacing one of the same number.

        Raises:
          CheckpointError: when it cannot be written; earlier rounds stay as they were.
        """
        metadata: Any = {"records": saved.records, "digest": _digest(saved.arrays)}
        try:
            self._checkpointer.save_checkpointables(
                saved.round, {"arrays": saved.arrays}, custom_metadata=metadata, overwrite=True
            )
        except Exception as error:  # orbax and tensorstore raise many kinds on a full disk
            self._failed = True
            raise CheckpointError(
                f"{self._folder}: round {saved.round} could not be saved ({_first_words(error)}); "
                "earlier rounds are intact, so free some space and start the same command again"
            ) from error

    def restore(self, like: Mapping[str, np.ndarray]) -> Saved | None:
        """Reads the newest readable round, or None when there is none.

        Args:
          like: an array of the expected shape and dtype for every saved name.

        Raises:
          CheckpointError: when checkpoints exist but none can be read.
        """
        failures = []
        steps = sorted((c.step for c in self._checkpointer.checkpoints), reverse=True)
        for step in steps:
            try:
                saved = self._read(step, like)
            except Exception as error:  # a damaged checkpoint can fail anywhere inside orbax
                failures.append(f"round {step}: {_first_words(error)}")
                log.warning("%s: skipped a damaged checkpoint, %s", self._folder, failures[-1])
                continue
            for damaged in steps[: len(failures)]:  # orbax saves no round before its newest
                self._checkpointer.delete(damaged)
            return saved
        if failures:
            raise CheckpointError(
                f"{self._folder}: no readable checkpoint ({'; '.join(failures)}); "
                "start with --fresh to begin again"
            )
        return None

    def _read(self, step: int, like: Mapping[str, np.ndarray]) -> Saved:
        arrays = self._checkpointer.load_checkpointables(step, {"arrays": dict(like)})["arrays"]
        for name, expected in like.items():  # orbax does not check the shapes of NumPy leaves
            found = arrays[name]
            if found.shape != expected.shape or found.dtype != expected.dtype:
                raise ValueError(
                    f"{name}: expected {expected.dtype}{list(expected.shape)}, "
                    f"found {found.dtype}{list(found.shape)}"
                )
        metadata: Any = self._checkpointer.checkpointables_metadata(step).custom_metadata
        if metadata["digest"] != _digest(arrays):
            raise ValueError("the arrays are not the ones that were saved")
        return Saved(step, arrays, [dict(one) for one in metadata["records"]])


def _one_writer() -> Any:
    """With several processes, tells orbax not to wait for the others: only this one writes."""
    from orbax.checkpoint import v1 as ocp

    if jax.process_count() == 1:
        return None
    process = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=process, active_processes={process}, barrier_sync_key_prefix="one_writer"
    )
    return ocp.Context(multiprocessing_options=alone)


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    parts = [
        name.encode() + np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays)
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _first_words(error: Exception, limit: int = 160) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[:limit] + " ..."
