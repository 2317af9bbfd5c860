"""Reading of optimised HLO text, as ``compiled.as_text()`` gives it.

A module is computations, a computation is instructions, one a line::

    %name = f32[25,50]{1,0} opcode(%operand, %operand), attribute=value, ...
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

_BYTES = {"token": 0, "pred": 1}  # of the others, the name says how many bits they have
_ARRAY = re.compile(r"\b(pred|token|bf16|[sufc]\d+(?:e\d+m\d+\w*)?)\[([\d,]*)\](\{[^}]*\})?")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_CALLED = re.compile(r"(?:calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)")


class Array(NamedTuple):
    """A type and the sizes of its axes; ``on_chip`` if it lies in a TPU's own fast memory."""

    dtype: str
    sizes: tuple[int, ...]
    on_chip: bool = False

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def bytes(self) -> int:
        width = _BYTES.get(self.dtype)
        if width is None:
            width = max(int(re.findall(r"\d+", self.dtype)[0]) // 8, 1)
        return width * self.elements

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.sizes))}]"


class Instruction(NamedTuple):
    """One line of a computation.

    Attributes:
      name: unique in its computation.
      op: the opcode.
      arrays: of its result, several for a tuple.
      operands: names of instructions, or what else stands in the parentheses.
      attributes: the text behind the operands.
      root: whether it is the result of its computation.
    """

    name: str
    op: str
    arrays: tuple[Array, ...]
    operands: tuple[str, ...]
    attributes: str
    root: bool

    @property
    def bytes(self) -> int:
        """Size of the result in the device's main memory."""
        return sum(array.bytes for array in self.arrays if not array.on_chip)

    @property
    def called(self) -> tuple[str, ...]:
        """Computations that run as part of this one: of a fusion, a call, a branch."""
        branches = self.attribute(r"branch_computations=\{([^}]*)\}")
        if branches is not None:
            return tuple(name.strip().lstrip("%") for name in branches.split(","))
        return tuple(_CALLED.findall(self.attributes))

    @property
    def source(self) -> str:
        """Where in the Python program it comes from, as far as known."""
        return self.attribute(r'op_name="([^"]*)"') or ""

    def attribute(self, pattern: str) -> str | None:
        """The first group of a pattern in the attributes."""
        found = re.search(pattern, self.attributes)
        return found[1] if found else None


Computation = dict[str, Instruction]


class Module(NamedTuple):
    """Computations by name, and the one that is the program."""

    computations: dict[str, Computation]
    entry: str

    def root(self, computation: str) -> Instruction:
        """The instruction whose value a computation has."""
        return next(one for one in self.computations[computation].values() if one.root)


def parse(text: str) -> Module:
    """Reads the text of a module.

    Raises:
      ValueError: the text has no entry computation.
    """
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for line in text.splitlines():
        if not line.startswith((" ", "\t")):
            opening = _COMPUTATION.match(line) if "->" in line else None
            current = opening[2] if opening else None
            if opening:
                computations[opening[2]] = {}
                entry = opening[2] if opening[1] else entry
        elif current is not None and (found := _INSTRUCTION.match(line)):
            one = _instruction(found[2], found[3], bool(found[1]))
            computations[current][one.name] = one
    if not entry:
        raise ValueError("expected the text of an HLO module, found no ENTRY computation")
    return Module(computations, entry)


def _instruction(name: str, text: str, root: bool) -> Instruction:
    shape_end = _first_space(text)
    shape, rest = text[:shape_end], text[shape_end + 1 :]
    op, _, inside = rest.partition("(")
    close = _closing(inside)
    operands = re.findall(r"%([\w.\-]+)", inside[:close]) or [inside[:close].strip()]
    return Instruction(name, op, arrays_of(shape), tuple(operands), inside[close + 1 :], root)


def arrays_of(shape: str) -> tuple[Array, ...]:
    """The arrays in the text of a shape, ``f32[2,3]{1,0}`` or a tuple of such."""
    return tuple(
        Array(dtype, tuple(map(int, filter(None, sizes.split(",")))), "S(1)" in (layout or ""))
        for dtype, sizes, layout in _ARRAY.findall(shape)
    )


def _first_space(text: str) -> int:
    """Where the shape ends: the first space outside brackets."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == " " and depth == 0:
            return place
    return len(text)


def _closing(text: str) -> int:
    """The place of the parenthesis that closes one opened before ``text``."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place
    return len(text)


class Loop(NamedTuple):
    """A loop of the compiled program.

    Attributes:
      trips: how often it runs, None if that is only known when it runs.
      times: how often it is started, by the loops around it.
      over: what it runs over, by name, as far as known.
    """

    trips: int | None
    times: int
    over: str

    def __str__(self) -> str:
        trips = "?" if self.trips is None else str(self.trips)
        return f"{trips} {self.over}".strip() + (f" (x{self.times})" if self.times > 1 else "")


class Scatter(NamedTuple):
    """A scatter: into what, how much, and whether the whole vocabulary lies in it."""

    target: Array
    updates: Array
    whole_vocabulary: bool

    def __str__(self) -> str:
        return f"{self.updates} into {self.target}"


def instructions(module: Module) -> Iterator[tuple[Instruction, Computation]]:
    """All of them, those inside fusions included, with the computation of each."""
    for computation in module.computations.values():
        for one in computation.values():
            yield one, computation


def trip_count(module: Module, loop: Instruction) -> int | None:
    """How often a loop runs: as the compiler says, else from ``counter < constant``."""
    known = loop.attribute(r'"known_trip_count":\{"n":"(\d+)"')
    if known is not None:
        return int(known)
    condition = loop.attribute(r"condition=%?([\w.\-]+)")
    if condition not in module.computations:
        return None
    root = module.root(condition)
    if root.op != "compare" or "direction=LT" not in root.attributes:
        return None
    bound = module.computations[condition].get(root.operands[-1])
    is_number = bound is not None and bound.op == "constant" and bound.operands[0].isdecimal()
    return int(bound.operands[0]) if bound is not None and is_number else None


def body_of(loop: Instruction) -> str:
    """The computation a loop repeats."""
    return loop.attribute(r"body=%?([\w.\-]+)") or ""


def loops(module: Module, axes: dict[str, int]) -> list[Loop]:
    """The loops of the program, outer before inner.

    Args:
      module: the program.
      axes: sizes by name; a loop whose trip count is one of them, or the product of two, is said
        to run over it.
    """
    found = []

    def search(computation: str, times: int) -> None:
        for one in module.computations[computation].values():
            if one.op == "while":
                trips = trip_count(module, one)
                found.append(Loop(trips, times, _over(trips, axes)))
                search(body_of(one), times * (trips or 1))
            elif one.op in ("call", "conditional", "async-start"):
                for called in one.called:
                    search(called, times)

    search(module.entry, 1)
    return found


def _over(trips: int | None, axes: dict[str, int]) -> str:
    names = [name for name, size in axes.items() if size == trips]
    for first, size in axes.items():
        names += [
            f"{first} x {second}"
            for second, other in axes.items()
            if first < second and size > 1 and other > 1 and size * other == trips
        ]
    return " or ".join(names)


def scatters(module: Module, axes: dict[str, int]) -> list[Scatter]:
    """Every scatter; one into an array with an axis of all "words" or more covers all of them.

    Compilers may lay the tables of all "members" end to end.
    """
    words, members, found = axes.get("words"), axes.get("members", 1), []
    for one, computation in instructions(module):
        if one.op != "scatter":
            continue
        target, updates = one.arrays[0], computation[one.operands[-1]].arrays[0]
        longest = max(target.sizes, default=0)
        if members not in target.sizes and longest % members == 0:
            longest //= members
        found.append(Scatter(target, updates, words is not None and longest >= words))
    return found


_COLLECTIVE = re.compile(
    r"(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|collective-broadcast"
    r"|ragged-all-to-all|send|recv)(-start)?"
)


def collectives(module: Module) -> list[str]:
    """What devices exchange: opcode and arrays of each."""
    return [
        f"{one.op} {' '.join(map(str, one.arrays))}"
        for one, _ in instructions(module)
        if _COLLECTIVE.fullmatch(one.op)
    ]
