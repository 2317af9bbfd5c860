"""Compiling for a chip that is not there, and what the compiler made of a program.

libtpu compiles for TPUs and JAX's CUDA plug-in for GPUs on a machine that has neither. What comes
back is text and sizes: whether the program fits, what loops, scatters and collectives it has, and
an estimate of its time (``devices.estimate``). Nothing runs. What a compiler took minutes for can
be kept in a folder and is read from there the next time.
"""

import functools
import gzip
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from crabjax.devices import hlo
from crabjax.devices.chips import Chip, find_chip
from crabjax.devices.estimate import Cost, estimate, slowest
from crabjax.devices.program_memory import compiled_bytes
from crabjax.files import atomic_write

_PLUG_INS = {"tpu": ("libtpu",), "cuda": ("jax_cuda12_plugin", "jax_cuda13_plugin")}
# libtpu asks the machine, or the network, what it runs on unless it is told; and it lets one
# process in at a time, which is right for a chip and not for a compiler.
_LIBTPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


class MissingPlugInError(RuntimeError):
    """The compiler for a chip is not installed."""


class CompileError(RuntimeError):
    """The compiler for a chip gave up on a program."""


class Report(NamedTuple):
    """What the compiler made of a program; times are estimates.

    A program that a TPU has no room for is not compiled to the end: of it, only sizes are known.

    Attributes:
      chip: compiled for.
      bytes: needed on a device: temporaries + arguments + results - what they share.
      arguments: bytes of them.
      seconds: estimated for one run, None if not compiled to the end.
      kernels: launched in one run.
      opaque: kernels whose time is estimated from their bytes alone.
      loops: of the program, outer before inner.
      scatters: in the program.
      collectives: in the program.
      grouped_convolutions: number of them.
      compare_and_swaps: number of such atomics in the machine code of a GPU.
      compile_seconds: what compiling took here.
      slowest: estimated seconds and what they go into, the most first.
    """

    chip: Chip
    bytes: float
    arguments: float = 0.0
    seconds: float | None = None
    kernels: int = 0
    opaque: int = 0
    loops: tuple[hlo.Loop, ...] = ()
    scatters: tuple[hlo.Scatter, ...] = ()
    collectives: tuple[str, ...] = ()
    grouped_convolutions: int = 0
    compare_and_swaps: int = 0
    compile_seconds: float = 0.0
    slowest: tuple[tuple[float, str], ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the chip has the memory."""
        return self.bytes <= self.chip.memory

    @property
    def roofline_seconds(self) -> float | None:
        """The estimate without the launches of kernels."""
        return None if self.seconds is None else self.seconds - self.chip.launch * self.kernels


class _Made(NamedTuple):
    """What a compiler gave: sizes, and the text unless it had no room for the program."""

    bytes: float
    arguments: float = 0.0
    text: str = ""
    compare_and_swaps: int = 0
    seconds: float = 0.0


def compile_for(
    chip: str,
    function: Callable[..., Any],
    *arguments: Any,
    axes: Mapping[str, int] | None = None,
    keep: Path | None = None,
) -> Report:
    """Compiles a function for a chip that need not be there.

    Args:
      chip: its name.
      function: to compile; one under ``jax.jit`` keeps its static and donated arguments.
      *arguments: as for a call, with ``jax.ShapeDtypeStruct`` in place of arrays. Those without a
        sharding lie on one device; see :func:`chip_devices` for more of them.
      axes: sizes by name, to tell what loops run over. "words" is the vocabulary: scatters into
        arrays with an axis as long as that are told apart.
      keep: a folder; the same program is compiled for the same chip once and then read from there.

    Raises:
      UnknownChipError: listing the known ones.
      MissingPlugInError: saying what to install.
      CompileError: in one line.
    """
    known = find_chip(chip)
    device = SingleDeviceSharding(chip_devices(chip)[0])
    if not hasattr(function, "lower"):
        function = jax.jit(function)
    lowered: Any = function.lower(*jax.tree.map(functools.partial(_placed, device), arguments))  # type: ignore[attr-defined]
    program = lowered.as_text()
    file = None if keep is None else keep / f"{chip}-{_fingerprint(known, program)}.json.gz"
    if file is not None and file.exists():
        made = _Made(*json.loads(gzip.decompress(file.read_bytes())))
    else:
        made = _make(known, lowered)
        if file is not None:
            with atomic_write(file) as out:
                out.write(gzip.compress(json.dumps(made).encode()))
    return _report(known, program, made, dict(axes or {}))


def _fingerprint(chip: Chip, program: str) -> str:
    """Of all that the text depends on."""
    flags = os.environ.get("XLA_FLAGS", "")
    found = filter(importlib.util.find_spec, ("jaxlib", *_PLUG_INS[chip.platform]))
    versions = [importlib.metadata.version(name) for name in found]
    return hashlib.sha256(repr((chip.target, flags, versions, program)).encode()).hexdigest()[:16]


@functools.cache
def chip_devices(chip: str) -> list[Any]:
    """Devices to compile for: one GPU, or the four of a 2x2 slice of TPUs.

    With these plug-ins installed and none of their devices at hand, ``jax_platforms`` should be
    "cpu": JAX would search the machine for them.

    Raises:
      UnknownChipError: listing the known ones.
      MissingPlugInError: saying what to install.
    """
    known = find_chip(chip)
    names = _PLUG_INS[known.platform]
    if not any(importlib.util.find_spec(name) for name in names):
        raise MissingPlugInError(
            f"{chip}: compiling for it needs {' or '.join(names)}, which is not installed; "
            "pip install 'crabjax[chips]'"
        )
    if known.platform == "tpu":
        for name, value in _LIBTPU.items():
            os.environ.setdefault(name, value)
        return list(topologies.get_topology_desc(known.target, platform="tpu").devices)
    found = topologies.get_topology_desc(
        platform="cuda", topology="1x1x1", target_config=known.target
    )
    return list(found.devices)


def _placed(device: SingleDeviceSharding, leaf: Any) -> Any:
    if not isinstance(leaf, jax.ShapeDtypeStruct) or leaf.sharding is not None:
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device)


def _make(chip: Chip, lowered: Any) -> _Made:
    start = time.perf_counter()
    try:
        compiled, swaps = _compiled(chip, lowered)
    except jax.errors.JaxRuntimeError as error:
        if (needed := _refused_bytes(error)) is not None:
            return _Made(needed, seconds=time.perf_counter() - start)
        said = str(error).partition("\n")[0]
        raise CompileError(f"{chip.name}: the compiler gave up on the program: {said}") from error
    arguments = compiled.memory_analysis().argument_size_in_bytes
    seconds = time.perf_counter() - start
    return _Made(compiled_bytes(compiled), arguments, compiled.as_text(), swaps, seconds)


def _compiled(chip: Chip, lowered: Any) -> tuple[Any, int]:
    """The compiled program, and the compare-and-swaps in the machine code of a GPU."""
    if chip.platform == "tpu":
        return lowered.compile(), 0
    # The machine code is nowhere but in what the compiler leaves behind.
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"xla_dump_to": folder}
        try:
            compiled = lowered.compile(compiler_options=options)
        except jax.errors.JaxRuntimeError as error:
            # With a GPU at hand the compiler tries its kernels for matrix products and drops those
            # that do not work; without one it takes the first, and then cuBLAS has to do.
            if "tile sizes" not in str(error):
                raise
            options["xla_gpu_enable_triton_gemm"] = False
            compiled = lowered.compile(compiler_options=options)
        return compiled, _compare_and_swaps(Path(folder))


def _compare_and_swaps(folder: Path) -> int:
    files = folder.glob("*.ptx")
    return sum(len(re.findall(r"\batom\.[\w.]*cas\.", file.read_text())) for file in files)


def _refused_bytes(error: RuntimeError) -> float | None:
    """The memory that libtpu refused a program for; None for any other error."""
    found = re.search(r"(?:Used|temporaries \()\s*([\d.]+)([KMGT])", str(error))
    if "RESOURCE_EXHAUSTED" not in str(error) or found is None:
        return None
    return float(found[1]) * 2.0 ** {"K": 10, "M": 20, "G": 30, "T": 40}[found[2]]


def _report(chip: Chip, program: str, made: _Made, axes: dict[str, int]) -> Report:
    if not made.text:
        return Report(chip, made.bytes, compile_seconds=made.seconds)
    module = hlo.parse(made.text)
    cost: Cost = estimate(module, chip)
    groups = re.findall(r"(?:feature|batch)_group_count = (\d+)", program)
    return Report(
        chip=chip,
        bytes=made.bytes,
        arguments=made.arguments,
        seconds=cost.seconds,
        kernels=cost.kernels,
        opaque=cost.opaque,
        loops=tuple(hlo.loops(module, axes)),
        scatters=tuple(hlo.scatters(module, axes)),
        collectives=tuple(hlo.collectives(module)),
        grouped_convolutions=sum(int(size) > 1 for size in groups),
        compare_and_swaps=made.compare_and_swaps,
        compile_seconds=made.seconds,
        slowest=slowest(module, chip),
    )
