"""How long a compiled program would take, from its optimised text: an estimate, nothing measured.

Loops count as often as they run; one of unknown length counts once. Of branches the slowest counts.

TPU: the cycles that the compiler notes beside a fusion, over the clock rate. Where it notes none,
bytes over bandwidth; of gathers and scatters the rows they touch, at full bandwidth, which flatters
them. Copies that run beside the arithmetic count nothing.

GPU: every kernel takes as long as its slowest part, and 3 microseconds to be launched. Parts are
bytes over bandwidth, matrix products at the peak of their type, and the other arithmetic at one
instruction a lane and cycle, eight where it is a division, a root or a transcendental function. No
kernel reaches that, so the estimate is a bound from below for each of them.

Kernels that the compiler does not show the inside of (Pallas, cuDNN) count their bytes alone; how
many there are is counted too.
"""

import functools
import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crabjax.devices.chips import Chip
from crabjax.devices.hlo import Computation, Instruction, Module, body_of, trip_count

_FREE = frozenset(
    """
    parameter constant get-tuple-element tuple bitcast after-all partition-id replica-id opt-barrier
    copy-start copy-done slice-start slice-done async-update async-done domain
    all-reduce-done all-gather-done collective-permute-done send-done recv-done
    """.split()  # noqa: SIM905
)
_SLOW = frozenset(
    """
    divide sqrt rsqrt cbrt exponential exponential-minus-one log log-plus-one power tanh logistic
    erf sine cosine tan atan2 remainder
    """.split()  # noqa: SIM905
)
_NO_ARITHMETIC = _FREE | frozenset(
    """
    broadcast reshape transpose slice dynamic-slice dynamic-update-slice concatenate pad gather
    copy iota reverse fusion call dot convolution scatter sort reduce custom-call
    """.split()  # noqa: SIM905
)
_SLOW_COST = 8


class Cost(NamedTuple):
    """An estimate of what a program, or a part of it, takes.

    Attributes:
      seconds: estimated.
      kernels: launched.
      opaque: kernels whose inside is not known.
    """

    seconds: float = 0.0
    kernels: int = 0
    opaque: int = 0

    def plus(self, other: "Cost") -> "Cost":
        return Cost(
            self.seconds + other.seconds,
            self.kernels + other.kernels,
            self.opaque + other.opaque,
        )

    def times(self, count: int) -> "Cost":
        return Cost(count * self.seconds, count * self.kernels, count * self.opaque)


def estimate(module: Module, chip: Chip) -> Cost:
    """The cost of one run of a program."""
    return _total(kernels(module, chip))


def kernels(module: Module, chip: Chip) -> Iterator[tuple[Instruction, Cost]]:
    """What one run of a program starts, in the order of the text; a cost is of all its runs."""
    return _kernels(module, chip, module.entry, 1)


def slowest(module: Module, chip: Chip) -> tuple[tuple[float, str], ...]:
    """Estimated seconds by place in the Python program and type of the result, the most first."""
    found: dict[str, float] = {}
    for one, cost in kernels(module, chip):
        what = f"{one.source or one.op} {' '.join(map(str, one.arrays[:3]))}"
        found[what] = found.get(what, 0.0) + cost.seconds
    return tuple(sorted(((seconds, what) for what, seconds in found.items()), reverse=True))


def _kernels(
    module: Module, chip: Chip, name: str, times: int
) -> Iterator[tuple[Instruction, Cost]]:
    """Those of a computation that runs so many ``times``."""
    computation = module.computations[name]
    of_chip = _tpu_kernel if chip.platform == "tpu" else _gpu_kernel
    inside = functools.partial(_kernels, module, chip)
    for one in computation.values():
        if one.op == "while":
            yield from inside(body_of(one), times * (trip_count(module, one) or 1))
        elif one.op == "conditional":
            branches = [list(inside(called, times)) for called in one.called]
            yield from max(branches, key=lambda branch: _total(branch).seconds)
        elif one.op == "call" or (
            one.op == "async-start" and chip.platform == "cuda" and one.called
        ):
            yield from inside(one.called[0], times)
        elif one.op not in _FREE and not one.op.endswith(("-start", "-done")):
            yield one, of_chip(module, one, computation, chip).times(times)


def _total(found: Iterable[tuple[Instruction, Cost]]) -> Cost:
    return functools.reduce(Cost.plus, (cost for _, cost in found), Cost())


def _tpu_kernel(module: Module, one: Instruction, computation: Computation, chip: Chip) -> Cost:
    if one.op == "custom-call" and "AllocateBuffer" in one.attributes:
        return Cost()
    moved = _bytes(module, one, computation)
    cycles = one.attribute(r'"estimated_cycles":"(\d+)"')
    seconds = moved / chip.bandwidth if cycles is None else int(cycles) / chip.clock
    return Cost(seconds, 1, int(one.op == "custom-call"))


def _gpu_kernel(module: Module, one: Instruction, computation: Computation, chip: Chip) -> Cost:
    moved = _bytes(module, one, computation)
    products = _matmuls(module, one, computation)
    multiplying = sum(
        flops / chip.matmul_peak(dtype, highest) for (dtype, highest), flops in products.items()
    )
    lanes = sum(_lanes(module, name) for name in one.called) if one.op == "fusion" else 0
    seconds = max(moved / chip.bandwidth, multiplying, lanes / chip.lanes)
    opaque = one.op == "custom-call" and not products
    return Cost(seconds + chip.launch, 1, int(opaque))


def _bytes(module: Module, one: Instruction, computation: Computation) -> int:
    """What an instruction reads and writes; of slices, gathers and scatters what they touch."""
    if one.op == "fusion" and one.called:
        return _fusion_bytes(module.computations[one.called[0]], module, one, computation)
    if one.op == "dynamic-update-slice":
        return 2 * _size(computation, one.operands[1])
    if one.op in ("dynamic-slice", "gather", "slice"):
        return 2 * one.bytes
    if one.op == "scatter":
        return 3 * _size(computation, one.operands[-1])
    return one.bytes + sum(_size(computation, operand) for operand in one.operands)


def _fusion_bytes(
    inside: Computation, module: Module, one: Instruction, computation: Computation
) -> int:
    total = 0
    parameters = {int(i.operands[0]): i.name for i in inside.values() if i.op == "parameter"}
    for place, operand in enumerate(one.operands):
        name = parameters.get(place, "")
        total += _read(module, inside, name, _size(computation, operand))
    root = module.root(one.called[0])
    written = [inside[name] for name in root.operands] if root.op == "tuple" else [root]
    total += sum(_written(module, result, inside) for result in written)
    return total if one.bytes else min(total, sum(_size(computation, o) for o in one.operands))


def _read(module: Module, inside: Computation, name: str, whole: int) -> int:
    """Bytes of a value of ``whole`` bytes that the instructions of a fusion read."""
    total = 0
    for user in inside.values():
        if name not in user.operands:
            continue
        first = user.operands[0] == name
        if first and user.op in ("dynamic-slice", "gather", "slice", "bitcast"):
            part = user.bytes or sum(array.bytes for array in user.arrays)
            total += part if user.root else _read(module, inside, user.name, part)
        elif user.op == "fusion" and user.called[0] in module.computations:
            inner, place = module.computations[user.called[0]], str(user.operands.index(name))
            given = next(
                i for i in inner.values() if i.op == "parameter" and i.operands[0] == place
            )
            total += _read(module, inner, given.name, whole)
        elif not (first and user.op in ("dynamic-update-slice", "scatter")):
            total += whole
    return min(whole, total)


def _written(module: Module, result: Instruction, inside: Computation) -> int:
    if result.op == "dynamic-update-slice":
        return 2 * _size(inside, result.operands[1])
    if result.op == "scatter":
        return 3 * _size(inside, result.operands[-1])
    if result.op == "fusion" and result.called:
        inner = module.computations[result.called[0]]
        return _written(module, module.root(result.called[0]), inner)
    if result.op == "bitcast" and result.operands[0] in inside:
        return _written(module, inside[result.operands[0]], inside)
    return result.bytes


def _size(computation: Computation, name: str) -> int:
    return computation[name].bytes if name in computation else 0


def _matmuls(
    module: Module, one: Instruction, computation: Computation
) -> dict[tuple[str, bool], float]:
    """Operations in matrix products by type, and whether at the highest precision."""
    found: dict[tuple[str, bool], float] = {}
    if one.op == "fusion":
        for name in one.called:
            inside = module.computations[name]
            for inner in inside.values():
                for kind, flops in _matmuls(module, inner, inside).items():
                    found[kind] = found.get(kind, 0.0) + flops
        return found
    left = computation.get(one.operands[0])
    if left is None or not left.arrays:
        return found
    contracted = _contracted(one, left)
    if contracted is not None:
        highest = re.search(r"highest|HIGHEST", one.attributes) is not None
        found[left.arrays[0].dtype, highest] = 2.0 * one.arrays[0].elements * contracted
    return found


def _contracted(one: Instruction, left: Instruction) -> int | None:
    """The number of products summed for an element; None if it is no matrix product."""
    if one.op == "dot":
        axes = one.attribute(r"lhs_contracting_dims=\{([\d,]*)\}")
    elif one.op == "custom-call" and "cublas" in one.attributes:
        axes = one.attribute(r'"lhs_contracting_dimensions":\[([^\]]*)\]')
    else:
        return None
    return math.prod(left.arrays[0].sizes[int(i)] for i in re.findall(r"\d+", axes or ""))


def _lanes(module: Module, name: str) -> int:
    """Instructions of all lanes for the arithmetic in a fused computation, but matrix products."""
    total, inside = 0, module.computations[name]
    for one in inside.values():
        if one.op == "fusion":
            total += sum(_lanes(module, called) for called in one.called)
        elif one.op == "reduce":
            total += inside[one.operands[0]].arrays[0].elements
        elif one.op not in _NO_ARITHMETIC and one.arrays:
            total += one.arrays[0].elements * (_SLOW_COST if one.op in _SLOW else 1)
    return total
