"""How much memory there is, and what to do where it is too little."""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
import psutil

from crabjax.devices.processes import array_of_first

log = logging.getLogger(__name__)

Result = TypeVar("Result")


# Estimates are down to 0.74 times what XLA reports; other processes need room as well.
MARGIN = 1.5


def halve_until_it_fits(what: str, size: int, bytes_needed: Callable[[int], float]) -> int:
    """The largest of ``size``, ``size / 2``, ``size / 4``, ... that a device has memory for.

    Args:
      what: is being sized, for the log.
      size: to begin with; 1 is returned even if that does not fit.
      bytes_needed: the estimate for a size.
    """
    limit, wanted = memory_limit(), size
    while not fits(needed := bytes_needed(size), limit) and size > 1:
        size = -(-size // 2)
    log.log(
        logging.INFO if size == wanted else logging.WARNING,
        "%s: %d%s, about %.1f MB of the %.0f MB there are",
        *(what, size, "" if size == wanted else f" instead of {wanted}"),
        *(needed / 1e6, limit / 1e6),
    )
    return size


def fits(needed: float, limit: float) -> bool:
    """Whether a program whose estimate is ``needed`` bytes can be run in ``limit`` bytes."""
    return needed * MARGIN <= limit


def memory_limit() -> float:
    """Memory of one device, the same for all processes.

    Processes that saw different limits would start programs of different shapes, and wait.
    """
    return float(array_of_first(np.array([device_bytes()]))[0])


def device_bytes() -> float:
    """Memory of one device; CPU devices share what the machine has left."""
    device = jax.local_devices()[0]
    stats = device.memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"]
    return _host_bytes() / jax.local_device_count()


def halve_once(what: str, size: int, call: Callable[[int], Result]) -> Result:
    """Calls with ``size`` and, if a device runs out of memory, once more with half of it.

    Processes could not agree on a second attempt, so with several of them there is none.
    """
    try:
        return call(size)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error) or size == 1 or jax.process_count() > 1:
            raise
        smaller = -(-size // 2)
        log.warning("%s: out of memory with %d; once more with %d", what, size, smaller)
    # Not inside the except clause, which would keep the arrays of the first attempt alive.
    return call(smaller)


def _host_bytes(group: Path = Path("/sys/fs/cgroup")) -> float:
    """Memory that can still be had, within the limit of a container (of version 2)."""
    available = float(psutil.virtual_memory().available)
    read = lambda name: (group / name).read_text(encoding="ascii")
    try:
        left = float(read("memory.max")) - float(read("memory.current"))
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        return available
    with suppress(OSError, ValueError):
        stat = dict(line.split() for line in read("memory.stat").splitlines())
        # Files that were read stay in memory until something else needs the place.
        left += sum(float(stat.get(name, 0)) for name in ("inactive_file", "active_file"))
    return min(available, max(left, 0.0))
