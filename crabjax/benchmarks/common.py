"""Timing, memory, tables: what every benchmark shares."""

import ctypes
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

Row = dict[str, Any]


class Timing(NamedTuple):
    """Seconds a call takes.

    Attributes:
      median: over the repeats, after warming up.
      spread: slowest minus fastest repeat, relative to the median.
      compile: what the first call took beyond the median.
    """

    median: float
    spread: float
    compile: float


def measure(function: Callable[..., Any], *arguments: Any, repeats: int = 5) -> Timing:
    """Times a call, waiting for its result; the first call warms up and shows the compile time."""
    first = seconds_of(function, *arguments)
    seconds = [seconds_of(function, *arguments) for _ in range(repeats)]
    median = statistics.median(seconds)
    spread = (max(seconds) - min(seconds)) / median
    return Timing(median, spread, max(first - median, 0.0))


def seconds_of(function: Callable[..., Any], *arguments: Any) -> float:
    """The time of one call, its result waited for."""
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - start


def peak_extra_megabytes(function: Callable[..., Any], *arguments: Any) -> float | None:
    """Memory a call needs at its peak beyond what was in use before, its result included.

    On CPU it is read from the resident set of the process, where the system can tell (Linux); warm
    the function up first, or compilation is counted too. Other devices keep their own account,
    whose peak cannot be reset: there it is an upper bound if an earlier call needed more. None
    where nobody knows.
    """
    before = _memory_in_use()
    jax.block_until_ready(function(*arguments))
    peak = _peak_memory()
    return None if before is None or peak is None else (peak - before) / 1e6


def peak_megabytes(function: Callable[..., Any], *arguments: Any) -> float | None:
    """Memory in use at the peak of a call, with all that was in use before; None if unknown."""
    _memory_in_use()
    jax.block_until_ready(function(*arguments))
    peak = _peak_memory()
    return None if peak is None else peak / 1e6


def _memory_in_use() -> int | None:
    """Bytes in use now; on CPU this also restarts the record of the peak."""
    stats = jax.devices()[0].memory_stats()
    if stats is not None:
        return stats.get("bytes_in_use")
    try:
        # Pages kept from freed arrays would hide what the next call needs.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return None
    return _status_bytes("VmRSS")


def _peak_memory() -> int | None:
    stats = jax.devices()[0].memory_stats()
    return _status_bytes("VmHWM") if stats is None else stats.get("peak_bytes_in_use")


def _status_bytes(field: str) -> int | None:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return None


def device_description() -> Row:
    """Kind and number of the devices the numbers were taken on."""
    devices = jax.devices()
    kind = devices[0].device_kind if devices[0].platform != "cpu" else _processor()
    return {"platform": devices[0].platform, "kind": kind, "count": len(devices)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "cpu"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} x {len(names)}" if names else "cpu"


def print_table(rows: Sequence[Row]) -> None:
    """Prints rows of equal keys in aligned columns."""
    if not rows:
        return
    header = list(rows[0])
    cells = [header] + [[_cell(row[key]) for key in header] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    for line in cells:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def _cell(value: Any) -> str:
    if value is None or value != value:  # NaN: not measured
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Result(NamedTuple):
    """The settings a benchmark ran with, and its rows."""

    settings: Row
    rows: list[Row]


def write_json(path: str | Path, results: Mapping[str, Result], device: Row) -> None:
    """Writes results by benchmark, with the device and the version of jax."""
    report = {
        "device": device,
        "jax": jax.__version__,
        "benchmarks": {name: result._asdict() for name, result in results.items()},
    }
    Path(path).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
