"""A clock around every compiled program of the package, to tell them from the driver's own time."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import jax

KMEANS = "kmeans_picks"  # not compiled, but no driver's work either
_JITTED = type(jax.jit(lambda: None))

Call = tuple[str, float, float]
"""Kind, "compiled" or "k-means"; start; end."""


class Clocked:
    """A function whose calls are recorded, and waited for; otherwise as it was."""

    def __init__(self, function: Callable, kind: str, record: Callable[[Call], None]):
        self._function, self._kind, self._record = function, kind, record

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        result = jax.block_until_ready(self._function(*arguments, **named))
        self._record((self._kind, start, time.perf_counter()))
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)  # such as trace and lower of a jitted function


@contextmanager
def clocked_programs(record: Callable[[Call], None]) -> Iterator[None]:
    """Clocks the jitted functions of all modules of the package loaded so far, and k-means.

    Found by type, not by name: what the package compiles may be renamed or moved.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith("crabjax.")]
    with ExitStack() as patches:
        for module in modules:
            for name, value in list(vars(module).items()):
                if isinstance(value, _JITTED) or name == KMEANS:
                    kind = "k-means" if name == KMEANS else "compiled"
                    patches.enter_context(patch.object(module, name, Clocked(value, kind, record)))
        yield


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The time that lies in at least one of the intervals: programs may run in several threads."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
