"""Compiled programs kept on disk, so that the second start of a run does not compile again."""

import os

import jax

from crabjax.data.cache import cache_folder


def keep_compiled_programs() -> None:
    """Turns on JAX's persistent compilation cache, unless the user has set one up already."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "programs"))
    # All of them: before the first fit there are twenty small ones, together half a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
