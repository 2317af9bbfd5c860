"""Gates on what the compilers of real chips make of the programs; run with ``make chips``."""

import importlib.util
import os

import jax
import pytest

# What a chip gets is optimised, unlike what the other tests run on CPU.
os.environ["XLA_FLAGS"] = os.environ["XLA_FLAGS"].replace("--xla_backend_optimization_level=0", "")
NEEDED = ("libtpu", "jax_cuda12_plugin")


def pytest_collection_modifyitems(items):
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    reason = f"needs {', '.join(missing)}; `make chips` has them in an environment of its own"
    for item in items:
        item.add_marker(pytest.mark.chips)
        if missing:
            item.add_marker(pytest.mark.skip(reason=reason))
    if not missing:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_enable_compilation_cache", False)
