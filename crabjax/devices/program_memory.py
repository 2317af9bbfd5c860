"""How much memory a compiled program will need, before it is compiled.

The estimate follows the traced program equation by equation and adds up the arrays that are alive
at the same time. What compilers fuse away counts nothing, and what a loop carries is updated in
place.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from crabjax.devices.flat_program import FlatProgram, flat_program, inner_programs, variables

# Computed where they are used, inside the program of the operation that uses them.
_FUSED = frozenset(
    """
    abs add add_any and broadcast_in_dim clamp concatenate convert_element_type copy copy_p div
    empty2 eq erf erfc exp exp2 floor ge gt integer_pow iota is_finite le log log1p
    logistic lt max min mul name ne neg not or pad pow random_unwrap random_wrap reduce_precision
    rem rev rsqrt select_n shift_left shift_right_logical sign slice split sqrt square
    stack stop_gradient sub tanh transpose xor
    """.split()  # noqa: SIM905
)
# Of these, what puts elements elsewhere.
_MOVED = frozenset(
    ("broadcast_in_dim", "concatenate", "pad", "rev", "slice", "split", "stack", "transpose")
)
# Compilers for CPU store these rather than compute them once for every use.
_COSTLY_ON_CPU = frozenset(("erf", "erfc", "exp", "log", "log1p", "logistic", "pow", "tanh"))


def program_bytes(program: jax.stages.Traced, platform: str | None = None) -> int:
    """Arguments, results and temporaries of a traced program, in bytes.

    Args:
      program: of one device.
      platform: it will be compiled for; None for that of this process's devices.
    """
    platform = platform or jax.default_backend()
    jaxpr = program.jaxpr.jaxpr
    given = sum(_bytes(variable) for variable in {*jaxpr.invars, *jaxpr.constvars})
    results = sum(_bytes(one) for one in jaxpr.outvars)
    # Results take the place of arguments that are given away.
    donated = [one for one in jax.tree.leaves(program.args_info) if one.donated]
    replaced = sum(math.prod(one.shape) * one.dtype.itemsize for one in donated)
    return given + max(0, results - replaced) + _temporary_bytes(jaxpr, platform)


def compiled_bytes(program: jax.stages.Compiled) -> int:
    """As :func:`program_bytes`, by the compiler: of a program for any chip, here or not."""
    known: Any = program.memory_analysis()
    kept = known.argument_size_in_bytes + known.output_size_in_bytes - known.alias_size_in_bytes
    return kept + known.temp_size_in_bytes


def _temporary_bytes(jaxpr: Any, platform: str) -> int:
    """The most memory alive at once besides the arguments and results."""
    program = _in_order(flat_program(jaxpr, platform), platform)
    last_use, stored = _uses(program, platform)
    results = set(variables(program.outvars))
    own = stored - results - set(program.invars)
    replaceable = _replaceable(program, own) if platform != "cpu" else {}
    # In bfloat16, as a TPU multiplies.
    narrow = _put_together(program) if platform == "tpu" else set()
    alive: dict[Any, int] = {}
    most = 0
    for position, equation in enumerate(program.eqns):
        inner = inner_programs(equation, platform)
        inside = max((_temporary_bytes(one, platform) for one in inner), default=0)
        carried = _carried(equation)
        for result in equation.outvars:
            if (taken := replaceable.get(result)) and last_use[taken] == position:
                alive.pop(taken, None)
        alive |= {
            variable: min(size, 2 * variable.aval.size) if variable in narrow else size
            for variable, size in _sizes(equation, platform)
            if variable in stored
            and variable not in results
            # What a loop carries it has, whether or not it is read afterwards.
            and (variable in last_use or variable in carried)
        }
        # And in the place of what it starts from, where that is not read again.
        for start in variables(carried.values()):
            if last_use[start] == position:
                alive.pop(start, None)
        most = max(most, sum(alive.values()) + inside)
        alive = {one: size for one, size in alive.items() if last_use.get(one, 0) > position}
    return most


def _in_order(program: FlatProgram, platform: str) -> FlatProgram:
    """A program in the order in which it is executed.

    Compilers for CPU let everything begin that can, for the sake of cores: first what needs
    nothing, then what needs only that, and so on. What is alive at once is the more for it.
    """
    if platform != "cpu":
        return program
    _, stored = _uses(program, platform)
    stored |= set(variables(program.outvars))
    depth: dict[Any, int] = {}
    depths = []
    for equation in program.eqns:
        before = max((depth.get(one, 0) for one in variables(equation.invars)), default=0)
        depths.append(before + any(one in stored for one in equation.outvars))
        depth |= dict.fromkeys(equation.outvars, depths[-1])
    order = sorted(range(len(depths)), key=depths.__getitem__)
    return program._replace(eqns=[program.eqns[one] for one in order])


def _replaceable(program: FlatProgram, stored: set[Any]) -> dict[Any, Any]:
    """By what is stored, what else that is, if not read again, may leave it its place.

    Something of the same size that it is computed from element by element.
    """
    sources: dict[Any, dict[Any, bool]] = {}  # of a value; whether elements stay where they are
    for equation in (one for one in program.eqns if one.primitive.name in _FUSED):
        own: dict[Any, bool] = {}
        for given in variables(equation.invars):
            for one, stays in (
                {given: True} if given in stored else sources.get(given, {})
            ).items():
                own[one] = own.get(one, True) and stays and equation.primitive.name not in _MOVED
        sources |= dict.fromkeys(equation.outvars, own)
    like = lambda one: (one.aval.size, one.aval.dtype)
    found = {}
    for one in stored:
        staying = [other for other, stays in sources.get(one, {}).items() if stays]
        if alike := [other for other in staying if like(other) == like(one)]:
            found[one] = alike[0]
    return found


def _carried(equation: Any) -> dict[Any, Any]:
    """What each result of a loop that is updated in place starts from."""
    params = equation.params
    if equation.primitive.name == "while":
        first = params["cond_nconsts"] + params["body_nconsts"]
        return dict(zip(equation.outvars, equation.invars[first:]))
    if equation.primitive.name == "scan":
        first, count = params["num_consts"], params["num_carry"]
        return dict(zip(equation.outvars, equation.invars[first : first + count]))
    return {}


def _read_where_they_lie(equation: Any, makers: dict[Any, Any]) -> set[Any]:
    """Parts of arguments that a loop takes one by one, if it is written out."""
    params = equation.params
    if equation.primitive.name != "scan" or params["unroll"] != params["length"]:
        return set()
    taken = variables(equation.invars[params["num_consts"] + params["num_carry"] :])
    return {one for one in taken if _is_part_of_argument(one, makers)}


def _is_part_of_argument(variable: Any, makers: dict[Any, Any]) -> bool:
    maker = makers.get(variable)
    if maker is None:
        return True
    cut = maker.primitive.name in ("slice", "transpose")
    return cut and _is_part_of_argument(maker.invars[0], makers)


def _sizes(equation: Any, platform: str) -> Iterator[tuple[Any, int]]:
    """The memory of each result.

    A loop that is written out keeps no copies for its later turns: of what a turn leaves for the
    backward pass, only what compilers store gets memory, and that once.
    """
    params = equation.params
    if equation.primitive.name != "scan" or params["unroll"] != params["length"]:
        yield from ((variable, _bytes(variable)) for variable in equation.outvars)
        return
    turn, carried = flat_program(params["jaxpr"].jaxpr, platform), params["num_carry"]
    counted = {*turn.invars[: params["num_consts"]], *turn.invars[params["num_consts"] + carried :]}
    _, stored = _uses(turn, platform)
    roots = _roots(turn, stored)
    for place, (variable, result) in enumerate(zip(equation.outvars, turn.outvars)):
        if place < carried:
            yield variable, _bytes(variable)
            continue
        own = set().union(*(roots.get(one, {one}) for one in variables([result]))) - counted
        counted |= own
        yield variable, params["length"] * sum(map(_bytes, own))


def _roots(program: FlatProgram, stored: set[Any]) -> dict[Any, set[Any]]:
    """What is stored of each value: itself, or what it can be computed from in passing."""
    roots: dict[Any, set[Any]] = {}
    for equation in program.eqns:
        sources = [roots.get(one, {one}) for one in variables(equation.invars)]
        passed = set().union(*sources)
        roots |= {one: {one} if one in stored else passed for one in equation.outvars}
    return roots


def _uses(program: FlatProgram, platform: str) -> tuple[dict[Any, int], set[Any]]:
    """The last equation that needs each variable, and the variables that get memory."""
    last_use: dict[Any, int] = {}
    stored = set()
    users = Counter(one for equation in program.eqns for one in {*variables(equation.invars)})
    makers = {one: equation for equation in program.eqns for one in equation.outvars}
    on_tpu = platform == "tpu"
    reduced, joined = (f(program) if on_tpu else set() for f in (_reduced_at_once, _put_together))
    for position, equation in enumerate(program.eqns):
        name = equation.primitive.name
        # TPUs compute what they multiply on the way into the product, unless it is put together.
        multiplies = on_tpu and name == "dot_general"
        in_passing = multiplies or name in _FUSED or name.startswith("reduce_")
        in_place = _read_where_they_lie(equation, makers) if platform != "cpu" else ()
        for variable in variables(equation.invars):
            last_use[variable] = position
            if variable in joined or not (in_passing or variable in in_place):
                stored.add(variable)
            elif platform == "cpu" and name in ("reduce_sum", "reduce_max"):
                stored |= _factors(variable, makers)
        costly = platform == "cpu" and name in _COSTLY_ON_CPU
        kept_from = 0 if name not in _FUSED else 2 if costly else math.inf  # users
        stored |= {one for one in equation.outvars if users[one] >= kept_from} - reduced
    last_use |= dict.fromkeys(variables(program.outvars), len(program.eqns))
    # What a fused value is computed from must stay until the value is used.
    for equation in reversed(program.eqns):
        for result in equation.outvars:
            if result in last_use and result not in stored:
                for variable in variables(equation.invars):
                    last_use[variable] = max(last_use[variable], last_use[result])
    return last_use, stored


def _reduced_at_once(program: FlatProgram) -> set[Any]:
    """Products that a TPU reduces as it makes them.

    Nothing but reductions reads them, and none of these needs another, as those of a softmax do.
    """
    passed: dict[Any, set[Any]] = {}  # by value, the products that it is computed from in passing
    known: dict[Any, set[Any]] = {}  # and those of which it needs a reduction
    products: set[Any] = set()
    kept = set()
    for equation in program.eqns:
        name, given = equation.primitive.name, variables(equation.invars)
        whole = set().union(*(passed.get(one, ()) for one in given))
        reduced = set().union(*(known.get(one, ()) for one in given))
        if name not in _FUSED:
            reduces = name.startswith("reduce_")
            kept |= whole & reduced if reduces else whole
            own = {*equation.outvars} if name == "dot_general" else set()
            whole, reduced = own, whole | reduced if reduces else reduced
            products |= own
        passed |= dict.fromkeys(equation.outvars, whole)
        known |= dict.fromkeys(equation.outvars, reduced)
    return products - kept.union(*(passed.get(one, ()) for one in variables(program.outvars)))


def _put_together(program: FlatProgram) -> set[Any]:
    """What is stacked to be multiplied, and read by nothing else."""
    stacked = set()
    for equation in program.eqns:
        if equation.primitive.name != "dot_general":
            stacked -= {*variables(equation.invars)}
        if equation.primitive.name == "stack":
            stacked |= {*equation.outvars}
    return stacked - {*variables(program.outvars)}


def _factors(variable: Any, makers: dict[Any, Any]) -> set[Any]:
    """What is stored for a reduction on a CPU: a library takes values, or products' factors."""
    maker = makers.get(variable)
    if maker is None or maker.primitive.name not in ("mul", "square", "integer_pow"):
        return {variable}
    return set(variables(maker.invars))


def _bytes(variable: Any) -> int:
    aval = variable.aval
    return int(np.prod(aval.shape)) * getattr(aval.dtype, "itemsize", 8)  # keys: two words
