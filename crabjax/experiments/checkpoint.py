"""Saved rounds. The only file that knows orbax.

A checkpoint is a few host arrays and the run's records so far. Orbax writes it beside its final
place and renames it, so a kill at any moment leaves the previous rounds whole.
"""

import contextlib
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from crabjax.files.seals import open_sealed, seal

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
        import orbax.checkpoint as ocp

        self._folder, self._failed = folder.absolute(), False
        self._folder.mkdir(parents=True, exist_ok=True)
        process = jax.process_index()
        # Of several processes one writes: orbax must not wait for the others.
        alone = ocp.options.MultiprocessingOptions(
            primary_host=process, active_processes={process}, barrier_sync_key_prefix="one_writer"
        )
        options = ocp.CheckpointManagerOptions(
            max_to_keep=keep,
            create=False,
            cleanup_tmp_directories=True,
            enable_async_checkpointing=False,
            lightweight_initialize=True,  # a damaged round must not keep the others from opening
            multiprocessing_options=alone,
        )
        self._manager = ocp.CheckpointManager(self._folder, options=options)

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_) -> None:
        # After a failed save orbax raises the same failure again on closing.
        with contextlib.suppress(Exception) if self._failed else contextlib.nullcontext():
            self._manager.close()

    def save(self, saved: Saved) -> None:
        """Writes a round, replacing one of the same number.

        Raises:
          CheckpointError: when it cannot be written; earlier rounds stay as they were.
        """
        import orbax.checkpoint as ocp

        digest = _digest(saved.arrays)
        metadata = seal({"round": saved.round, "records": saved.records, "digest": digest})
        arrays = ocp.args.Composite(arrays=ocp.args.PyTreeSave(saved.arrays))
        try:
            if saved.round in self._manager.all_steps():
                self._manager.delete(saved.round)
            self._manager.save(saved.round, args=arrays, custom_metadata=metadata, force=True)
        except Exception as error:  # orbax and tensorstore raise many kinds on a full disk
            self._failed = True
            raise CheckpointError(
                f"{self._folder}: round {saved.round} could not be saved ({_first_words(error)}); "
                "earlier rounds are intact, so free some space and start the same command again"
            ) from error

    def restore(self, *forms: Mapping[str, np.ndarray]) -> Saved | None:
        """Reads the newest readable round, or None when there is none.

        Args:
          *forms: that a round may have, the newest first: an array of the expected shape and dtype
            for every saved name.

        Raises:
          CheckpointError: when checkpoints exist but none can be read.
        """
        failures = []
        steps = sorted(self._manager.all_steps(), reverse=True)
        for step in steps:
            try:
                with _orbax_silent():
                    saved = self._read(step, forms)
            except Exception as error:  # a damaged checkpoint can fail anywhere inside orbax
                failures.append(f"round {step}: {_first_words(error)}")
                log.warning("%s: skipped a damaged checkpoint, %s", self._folder, failures[-1])
                continue
            for damaged in steps[: len(failures)]:  # orbax saves no round before its newest
                self._manager.delete(damaged)
            return saved
        if failures:
            raise CheckpointError(
                f"{self._folder}: no readable checkpoint ({'; '.join(failures)}); "
                "start with --fresh to begin again"
            )
        return None

    def _read(self, step: int, forms: Sequence[Mapping[str, np.ndarray]]) -> Saved:
        import orbax.checkpoint as ocp

        wanted = ocp.args.Composite(arrays=ocp.args.PyTreeRestore())
        arrays = self._manager.restore(step, args=wanted)["arrays"]
        # orbax does not check the shapes of NumPy leaves
        if not any(of_form(arrays, like) for like in forms):
            raise ValueError(f"expected {_shapes(forms[0])}, found {_shapes(arrays)}")
        metadata: Any = open_sealed(dict(self._manager.metadata(step).custom_metadata))
        if "digest" not in metadata:  # orbax reads a file that is no JSON as an empty one
            raise ValueError("_CHECKPOINT_METADATA is damaged")
        if metadata.get("round", step) != step:
            raise ValueError(f"the arrays and records of round {metadata['round']}")
        if metadata["digest"] != _digest(arrays):
            raise ValueError("the arrays are not the ones that were saved")
        return Saved(step, arrays, [dict(one) for one in metadata["records"]])


@contextlib.contextmanager
def _orbax_silent() -> Iterator[None]:
    """Of a damaged file orbax logs all of the content; what is wrong is said here, in one line."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def of_form(arrays: Mapping[str, np.ndarray], like: Mapping[str, np.ndarray]) -> bool:
    """Whether arrays have the names, shapes and dtypes of others."""
    return _shapes(arrays) == _shapes(like)


def _shapes(arrays: Mapping[str, np.ndarray]) -> str:
    return ", ".join(
        f"{name}: {arrays[name].dtype}{list(arrays[name].shape)}" for name in sorted(arrays)
    )


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    parts = [
        name.encode() + np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays)
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _first_words(error: Exception, limit: int = 160) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[:limit] + " ..."
