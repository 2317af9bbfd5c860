"""How near a program comes to what its device can do: arithmetic and memory traffic.

The roofline of Williams, Waterman and Patterson (2009), with measured peaks instead of a data
sheet's: a large float32 matrix product at JAX's default precision, and a pass over a large array.
"""

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from crabjax.benchmarks.common import Row, seconds_of
from crabjax.config import ModelConfig

_LONG_ENOUGH = 0.02  # seconds; the start of a program does not count beside it
_LARGEST_PRODUCT = 16_384
_LARGEST_ARRAY = 2**30  # bytes
_REPEATS = 6  # the best counts, and the first only warms up


class Peaks(NamedTuple):
    """What the device reached: GFLOP/s in a matrix product, GB/s in a pass over an array."""

    gflops: float
    gbytes: float


class Work(NamedTuple):
    """Floating-point operations of a program, and bytes it reads and writes."""

    flops: float
    bytes: float

    def times(self, factor: float) -> "Work":
        """The work of that many runs."""
        return Work(self.flops * factor, self.bytes * factor)


@functools.cache
def device_peaks() -> Peaks:
    """Measures the first device; once a process."""
    return Peaks(_matmul_gflops(), _pass_gbytes())


def roofline(work: Work | None, seconds: float, peaks: Peaks) -> Row:
    """The columns of a row: speed, the larger share of a peak, and which peak that is.

    Where much of the traffic stays in caches the share of memory can exceed one.
    """
    if work is None:
        return dict.fromkeys(("GFLOP/s", "GB/s", "of peak", "nearer bound"))
    gflops, gbytes = 1e-9 * work.flops / seconds, 1e-9 * work.bytes / seconds
    shares = {"compute": gflops / peaks.gflops, "memory": gbytes / peaks.gbytes}
    nearer = max(shares, key=lambda bound: shares[bound])
    return {"GFLOP/s": gflops, "GB/s": gbytes, "of peak": shares[nearer], "nearer bound": nearer}


def program_work(function: Callable, *arguments: jax.ShapeDtypeStruct) -> Work | None:
    """XLA's count for a compiled program; the body of a loop counts once. None if it has none."""
    found = jax.jit(function).lower(*arguments).compile().cost_analysis()
    if not found or "flops" not in found:
        return None
    return Work(found["flops"], found.get("bytes accessed", 0.0))


def forward_work(
    model: ModelConfig, tokens: int, documents: int, members: int, labels: int
) -> Work:
    """The plain padded forward pass of all members, whatever a program really computes.

    Traffic is word ids, word vectors and logits, each once; parameters are too few to count.
    """
    per_token = {
        "text_cnn": sum(model.widths) * model.embedding * model.kernels,
        "text_rnn": 2 * 3 * model.hidden * (model.embedding + model.hidden),
    }[model.name]
    words = members * documents * tokens
    bytes_moved = 4 * (documents * tokens + words * model.embedding + members * documents * labels)
    return Work(2.0 * per_token * words, float(bytes_moved))


def _matmul_gflops() -> float:
    product, size = jax.jit(jnp.matmul), 1024
    while True:
        square = jnp.ones((size, size), jnp.float32)
        seconds = min(seconds_of(product, square, square) for _ in range(_REPEATS))
        if seconds > _LONG_ENOUGH or size >= _LARGEST_PRODUCT:
            return 2e-9 * size**3 / seconds
        size *= 2


def _pass_gbytes() -> float:
    """An array is read and written in place: fresh memory would be timed with its page faults."""
    add, size = jax.jit(lambda array: array + 1, donate_argnums=0), 2**26
    while True:
        array = jnp.ones(size // 4, jnp.float32)
        seconds = []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            array = jax.block_until_ready(add(array))
            seconds.append(time.perf_counter() - start)
        if min(seconds) > _LONG_ENOUGH or size >= _LARGEST_ARRAY:
            return 2e-9 * size / min(seconds)
        size *= 2
