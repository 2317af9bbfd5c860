"""How many cores this process may use."""

import os


def usable_cores() -> int:
    """The cores the process is allowed to run on, where the system can tell; else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
