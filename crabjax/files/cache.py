"""The user's cache folder: arrays of documents, and compiled programs."""

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import jax

from crabjax.files import PRIVATE, DataWarning, lock


def cache_folder() -> Path:
    """``$CRABJAX_CACHE``, else ``$XDG_CACHE_HOME/crabjax``, else ``~/.cache/crabjax``."""
    if own := os.environ.get("CRABJAX_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "crabjax"


@contextmanager
def kept_folder(key: str | None) -> Iterator[Path | None]:
    """The folder of one set of arrays, which no other process works in meanwhile.

    Args:
      key: its name, a hash of what the arrays are made from; None to keep nothing.

    Yields:
      The folder; None if there is none, or the cache refuses, which is said.
    """
    folder = None if key is None else cache_folder() / "encoded" / key
    with ExitStack() as held:
        try:
            if folder is not None:
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir(PRIVATE, exist_ok=True)  # what is in it was made from texts
                held.enter_context(lock(folder))
        except OSError as error:
            warnings.warn(f"{folder}: cannot cache: {error}", DataWarning, stacklevel=3)
            folder = None
        yield folder


def keep_compiled_programs() -> None:
    """Turns on JAX's persistent compilation cache, unless the user has set one up already.

    The second start of a run then compiles nothing.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "programs"))
    # All of them: before the first fit there are twenty small ones, together half a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
