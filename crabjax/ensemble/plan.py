"""How training is laid out on a device, decided from work and memory before anything is compiled.

Members under one vmap share the cost of starting a kernel. Where a matrix product of one member
takes long enough by itself they gain nothing by that, and their activations shrink, and a member
that has stopped costs nothing, if they come one after another.
"""

import functools
import logging
import math
from typing import Any, NamedTuple

import jax

from crabjax.config import DevicesConfig
from crabjax.devices.flat_program import inner_programs
from crabjax.devices.memory import fits, memory_limit
from crabjax.devices.program_memory import program_bytes
from crabjax.ensemble.step import Recipe
from crabjax.ensemble.train import TrainingData, trace_training
from crabjax.models import Recomputed

log = logging.getLogger(__name__)

# Operations of a product that keeps a chip busy for longer than it takes to start: 100 microseconds
# at 200 TFLOP/s, 20 at 1,000.
_FILLS = 2e10
# Operations of a product that a core does about as fast as it starts one, and how many members
# whose products are no larger share the starts. Heads on frozen vectors, 20 members, 1,100
# documents, two cores: 2.2 s with five at a time on each, 3.9 s with one, 2.7 s with ten.
_LIGHT, _LIGHT_ONES = 1e7, 5
_SET, _FILLED = "as set", "one after another, as the products of one fill the device"


class Device(NamedTuple):
    """What a plan is made for.

    Attributes:
      platform: "cpu", "gpu" or "tpu".
      bytes: memory there is.
      on_cores: whether members at once are in programs of their own that share the documents.
    """

    platform: str
    bytes: float
    on_cores: bool = False


class FitShapes(NamedTuple):
    """Shapes of the documents, their labels and each member's rows; see ``TrainingData``."""

    inputs: Any
    labels: Any
    key: Any  # the dtype
    rows: tuple[jax.ShapeDtypeStruct, ...]


class FitPlan(NamedTuple):
    """How members are trained on a device.

    Attributes:
      recipe: what is trained, with the model as its steps are compiled.
      at_once: members.
      recomputed: by the backward pass; None for models without a choice.
      bytes: needed, estimated.
      fits: whether they are there.
      reason: for ``at_once``.
    """

    recipe: Recipe
    at_once: int
    recomputed: Recomputed | None
    bytes: float
    fits: bool
    reason: str


@functools.cache
def plan_here(
    recipe: Recipe, devices: DevicesConfig, most: int, shapes: FitShapes, on_cores: bool
) -> FitPlan:
    """The plan for a device of this process: decided, and said, once for the same arguments."""
    device = Device(jax.default_backend(), memory_limit(), on_cores)
    plan = plan_fit(recipe, devices, most, shapes, device)
    _say(plan, most, device)
    return plan


def plan_fit(
    recipe: Recipe, devices: DevicesConfig, most: int, shapes: FitShapes, device: Device
) -> FitPlan:
    """How a device, here or not, is to train members; what ``devices`` states is left so.

    Args:
      recipe: what is trained, and how.
      devices: ``members_at_once`` and ``rematerialise``.
      most: members that the device could train at once.
      shapes: of what it is trained on.
      device: of which kind, with how much memory.
    """
    sizes, reason = _sizes(recipe, devices, most, shapes, device)
    for recomputed in _levels(recipe, devices):
        laid_out = recomputing(recipe, recomputed)
        for size in sizes:
            needed = _needed(laid_out, shapes, device, size)
            why = "all" if size == most and reason != _SET else reason
            plan = FitPlan(laid_out, size, recomputed, needed, fits(needed, device.bytes), why)
            if plan.fits:
                return plan
    return plan


def fit_bytes(recipe: Recipe, shapes: FitShapes, members: int, platform: str) -> int:
    """Memory that training needs, estimated; see ``program_bytes``."""
    return program_bytes(_trace(recipe, shapes, members), platform)


@functools.cache
def members_a_core(recipe: Recipe, shapes: FitShapes) -> int:
    """How many members a core had better train at once."""
    products = _products(_trace(recipe, shapes, 1).jaxpr.jaxpr, "cpu")
    return _LIGHT_ONES if max(products, default=0) < _LIGHT else 1


def _levels(recipe: Recipe, devices: DevicesConfig) -> list[Recomputed | None]:
    """What the backward pass may compute again: the first that fits is taken, else the last."""
    if recipe.model.recomputing is None:
        return [None]
    if devices.rematerialise is not None:
        return ["layers" if devices.rematerialise else "nothing"]
    return ["nothing", "cheap", "layers"]


def recomputing(recipe: Recipe, recomputed: Recomputed | None) -> Recipe:
    """The same with a model whose backward pass computes so much again, if it has a choice."""
    if recomputed is None or recipe.model.recomputing is None:
        return recipe
    return recipe._replace(model=recipe.model.recomputing(recomputed))


def _sizes(recipe, devices: DevicesConfig, most: int, shapes, device) -> tuple[list[int], str]:
    """How many members at once, the first that fits, and the reason for fewer than all."""
    if devices.members_at_once is not None:
        return [min(devices.members_at_once, most)], _SET
    if most > 1 and fills(_trace(recipe, shapes, 1), device.platform):
        # By the compiler's estimates five DistilBERTs at once, with nothing computed again, take
        # 0.92 times as long on an H100 as one after another. On a v5e they fit only if some of it
        # is computed again, and take 1.5 times as long.
        return ([1], _FILLED) if device.platform == "tpu" else ([most, 1], "memory")
    halved = [most]
    while halved[-1] > 1:
        halved.append(-(-halved[-1] // 2))
    return halved, "memory"


def _needed(recipe: Recipe, shapes: FitShapes, device: Device, members: int) -> float:
    if not device.on_cores:
        return fit_bytes(recipe, shapes, members, device.platform)
    # All cores read the same documents.
    documents = sum(one.size * one.dtype.itemsize for one in (shapes.inputs, shapes.labels))
    return documents + members * (fit_bytes(recipe, shapes, 1, device.platform) - documents)


def fills(program: jax.stages.Traced, platform: str) -> bool:
    """Whether most of the arithmetic of one member is in products that fill an accelerator."""
    if platform == "cpu":  # its cores share members out
        return False
    products = list(_products(program.jaxpr.jaxpr, platform))
    return sum(one for one in products if one >= _FILLS) > sum(products) / 2


def _products(jaxpr: Any, platform: str):
    """Operations of every matrix product in a program; of a loop, those of one turn."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            summed = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            yield 2 * summed * math.prod(equation.outvars[0].aval.shape)
        for inner in inner_programs(equation, platform):
            yield from _products(inner, platform)


@functools.lru_cache(maxsize=2)  # of one member twice: what its products are, what it needs
def _trace(recipe: Recipe, shapes: FitShapes, members: int) -> jax.stages.Traced:
    struct: Any = jax.ShapeDtypeStruct
    keys = struct((members,), shapes.key)
    params = jax.eval_shape(jax.vmap(recipe.model.init), keys)
    own = [struct((members, *one.shape[1:]), one.dtype) for one in shapes.rows]
    data = TrainingData(shapes.inputs, shapes.labels, keys, *own)
    return trace_training(recipe, params, data)


def _say(plan: FitPlan, most: int, device: Device) -> None:
    again = {"cheap": ", what is cheap", "layers": ", whole layers"}.get(plan.recomputed or "", "")
    log.log(
        logging.INFO if plan.fits and plan.reason != "memory" else logging.WARNING,
        "members trained at once: %d%s (%s)%s; about %.1f MB of the %.0f MB there are%s",
        *(plan.at_once, "" if plan.at_once == most else f" instead of {most}", plan.reason),
        again and f"{again} computed again in the backward pass",
        *(plan.bytes / 1e6, device.bytes / 1e6),
        "" if plan.fits else ": too much; a smaller ensemble.batch_size would need less",
    )
