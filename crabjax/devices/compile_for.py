"""Compiling for a chip that is not there, and what the compiler made of a program.

libtpu compiles for TPUs and JAX's CUDA plug-in for GPUs on a machine that has neither. What comes
back is text and sizes: whether the program fits, what loops, scatters and collectives it has, and
an estimate of its time (``devices.estimate``). Nothing runs.
"""

import functools
import importlib.util
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
from crabjax.devices.estimate import Cost, estimate

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
      moved: bytes to and from the device's memory, estimated.
      opaque: kernels whose time is estimated from their bytes alone.
      loops: of the program, outer before inner.
      scatters: in the program.
      collectives: in the program.
      grouped_convolutions: number of them.
      compare_and_swaps: number of such atomics in the machine code of a GPU.
      compile_seconds: what compiling took here.
    """

    chip: Chip
    bytes: float
    arguments: float = 0.0
    seconds: float | None = None
    kernels: int = 0
    moved: float = 0.0
    opaque: int = 0
    loops: tuple[hlo.Loop, ...] = ()
    scatters: tuple[hlo.Scatter, ...] = ()
    collectives: tuple[str, ...] = ()
    grouped_convolutions: int = 0
    compare_and_swaps: int = 0
    compile_seconds: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether the chip has the memory."""
        return self.bytes <= self.chip.memory

    @property
    def roofline_seconds(self) -> float | None:
        """The estimate without the launches of kernels."""
        return None if self.seconds is None else self.seconds - self.chip.launch * self.kernels


def compile_for(
    chip: str,
    function: Callable[..., Any],
    *arguments: Any,
    axes: Mapping[str, int] | None = None,
) -> Report:
    """Compiles a function for a chip that need not be there.

    Args:
      chip: its name.
      function: to compile; one under ``jax.jit`` keeps its static and donated arguments.
      *arguments: as for a call, with ``jax.ShapeDtypeStruct`` in place of arrays. Those without a
        sharding lie on one device; see :func:`chip_devices` for more of them.
      axes: sizes by name, to tell what loops run over. "words" is the vocabulary: scatters into
        arrays with an axis as long as that are told apart.

    Raises:
      UnknownChipError: listing the known ones.
      MissingPlugInError: saying what to install.
      CompileError: in one line.
    """
    known, axes = find_chip(chip), dict(axes or {})
    device = SingleDeviceSharding(chip_devices(chip)[0])
    if not hasattr(function, "lower"):
        function = jax.jit(function)
    start = time.perf_counter()
    lowered: Any = function.lower(*jax.tree.map(functools.partial(_placed, device), arguments))  # type: ignore[attr-defined]
    try:
        compiled, swaps = _compiled(known, lowered)
    except jax.errors.JaxRuntimeError as error:
        if (needed := _refused_bytes(error)) is not None:
            return Report(known, needed, compile_seconds=time.perf_counter() - start)
        said = str(error).partition("\n")[0]
        raise CompileError(f"{chip}: the compiler gave up on the program: {said}") from error
    return _report(known, lowered, compiled, axes, swaps, time.perf_counter() - start)


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


def _report(chip: Chip, lowered, compiled, axes: dict[str, int], swaps: int, seconds: float):
    memory = compiled.memory_analysis()
    module = hlo.parse(compiled.as_text())
    cost: Cost = estimate(module, chip)
    needed = (
        memory.temp_size_in_bytes
        + memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
    )
    groups = re.findall(r"(?:feature|batch)_group_count = (\d+)", lowered.as_text())
    return Report(
        chip=chip,
        bytes=needed,
        arguments=memory.argument_size_in_bytes,
        seconds=cost.seconds,
        kernels=cost.kernels,
        moved=cost.bytes,
        opaque=cost.opaque,
        loops=tuple(hlo.loops(module, axes)),
        scatters=tuple(hlo.scatters(module, axes.get("words"))),
        collectives=tuple(hlo.collectives(module)),
        grouped_convolutions=sum(int(size) > 1 for size in groups),
        compare_and_swaps=swaps,
        compile_seconds=seconds,
    )
