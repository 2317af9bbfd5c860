"""Gates on what the compilers of real chips make of the programs; run with ``make chips``."""

import importlib.util
import os
from pathlib import Path

import jax
import pytest

NEEDED = ("libtpu", "jax_cuda12_plugin")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

if not MISSING:
    # What a chip gets is optimised, unlike what the other tests run on CPU.
    flags = os.environ["XLA_FLAGS"].replace("--xla_backend_optimization_level=0", "")
    os.environ["XLA_FLAGS"] = flags.strip()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_compilation_cache", False)


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.chips)


@pytest.fixture(scope="session", autouse=True)
def compilers():
    """A gate that cannot be looked at has not been passed."""
    if MISSING:
        pytest.fail(f"needs {', '.join(MISSING)}; `make chips` has an environment with them")
