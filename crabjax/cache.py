"""Arrays and compiled programs kept on disk under the user's cache folder."""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from crabjax.files import DataWarning, atomic_write


def cache_folder() -> Path:
    """``$CRABJAX_CACHE``, else ``$XDG_CACHE_HOME/crabjax``, else ``~/.cache/crabjax``."""
    if own := os.environ.get("CRABJAX_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "crabjax"


def settings_hash(settings: Any) -> str:
    """SHA-256 of a JSON-able value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def save_arrays(key: str, arrays: Mapping[str, np.ndarray], notes: Any) -> None:
    """Stores arrays and a JSON-able value under ``key``; a folder that refuses only warns."""
    path = _path(key)
    about = {"names": sorted(arrays), "notes": notes}
    text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    try:
        with atomic_write(path) as file:
            np.savez(file, allow_pickle=False, notes=text, **arrays)
    except OSError as error:
        warnings.warn(f"{path}: cannot cache: {error}", DataWarning, stacklevel=2)


def load_arrays(key: str) -> tuple[dict[str, np.ndarray], Any] | None:
    """What :func:`save_arrays` stored, or None if there is nothing or it cannot be read."""
    path = _path(key)
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
            about = json.loads(arrays.pop("notes").tobytes())
            if arrays.keys() != set(about["names"]):
                raise ValueError(f"expected {about['names']}, found {sorted(arrays)}")
            return arrays, about["notes"]
    except Exception as error:  # a changed byte of an archive fails in many ways
        reason = str(error) or type(error).__name__
        warnings.warn(f"{path}: unreadable, made again: {reason}", DataWarning, stacklevel=2)
        return None


def keep_compiled_programs() -> None:
    """Turns on JAX's persistent compilation cache, unless the user has set one up already.

    The second start of a run then compiles nothing.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "programs"))
    # All of them: before the first fit there are twenty small ones, together half a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _path(key: str) -> Path:
    return cache_folder() / "encoded" / f"{key}.npz"
