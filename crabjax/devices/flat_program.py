"""A traced program as its operations, one after another."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from jax.extend.core import Literal, Var

# The same memory, read as another shape.
_RESHAPES = frozenset(("reshape", "squeeze", "expand_dims"))
# Of these there is nothing left in a compiled program but what they call.
_CALLS = frozenset(("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"))


class FlatProgram(NamedTuple):
    """A program without calls, whose insides stand in their place, and without reshapes."""

    invars: list[Any]
    outvars: list[Any]
    eqns: list[Any]


def flat_program(jaxpr: Any, platform: str) -> FlatProgram:
    """The program as a compiler for ``platform`` sees it, every variable made once."""
    equations: list[Any] = []
    # A compiler for TPUs has a product written in the order of axes in which it is read.
    in_any_order: set[Any] = set()

    def inline(jaxpr: Any, names: dict[Any, Any]) -> list[Any]:
        """Adds a program's equations under ``names`` of their own; returns those of its results."""
        here = lambda atoms: [one if isinstance(one, Literal) else names[one] for one in atoms]
        for equation in jaxpr.eqns:
            given = here(equation.invars)
            if equation.primitive.name in _CALLS or "branches_platforms" in equation.params:
                (called,) = inner_programs(equation, platform)
                own = inline(called, _named(called, given))
            elif (name := equation.primitive.name) in _RESHAPES or (
                name == "transpose" and not in_any_order.isdisjoint(variables(given))
            ):
                own = given
            else:
                own = [Var(one.aval) for one in equation.outvars]
                equations.append(equation.replace(invars=given, outvars=own))
                if platform == "tpu" and name == "dot_general":
                    in_any_order.update(own)
            names.update(zip(equation.outvars, own))
        return here(jaxpr.outvars)

    results = inline(jaxpr, _named(jaxpr, jaxpr.invars))
    return FlatProgram(jaxpr.invars, results, equations)


def _named(jaxpr: Any, given: list[Any]) -> dict[Any, Any]:
    """Arguments by what is given for them; a choice is given its number first."""
    first = len(given) - len(jaxpr.invars)
    return dict(zip([*jaxpr.constvars, *jaxpr.invars], [*jaxpr.constvars, *given[first:]]))


def inner_programs(equation: Any, platform: str) -> Iterator[Any]:
    """The programs inside a loop, a branch or a call; of a choice by platform, the one it gets."""
    if choices := equation.params.get("branches_platforms"):
        name = {"gpu": "cuda"}.get(platform, platform)
        chosen = next(i for i, one in enumerate(choices) if one is None or name in one)
        yield equation.params["branches"][chosen].jaxpr
        return
    for value in equation.params.values():
        for one in value if isinstance(value, list | tuple) else (value,):
            one = getattr(one, "jaxpr", one)
            if hasattr(one, "eqns"):
                yield one


def variables(atoms: Any) -> list[Any]:
    """Those of the atoms that are no literals."""
    return [atom for atom in atoms if not isinstance(atom, Literal)]
