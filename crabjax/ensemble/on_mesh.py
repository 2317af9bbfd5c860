"""Training, prediction and document vectors on a mesh.

Every device runs the program of a single device on its own members and documents.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from crabjax.devices.mesh import ENSEMBLE, POOL, fetch, place, place_parts
from crabjax.ensemble.calls import Programs, train_in_calls
from crabjax.ensemble.step import Recipe
from crabjax.ensemble.train import FitInfo, Fixed, Training, TrainingData, start, train, whole
from crabjax.models import Model, Params


def fit_members(
    mesh: Mesh,
    recipe: Recipe,
    inputs: jax.Array,
    labels: jax.Array,
    keys: Any,
    *rows: np.ndarray,
    say: Callable[[str], None] | None,
) -> tuple[Params, FitInfo]:
    """Trains M members, a multiple of the ensemble axis, as ``ensemble.fit`` does on one device.

    ``inputs`` [N, ...] and ``labels`` [N, K] are on every device.
    """
    params = place_parts(
        mesh, len(rows[0]), lambda own: jax.vmap(recipe.model.init)(keys.init[own])
    )
    own = (place(mesh, one, ENSEMBLE) for one in (jax.random.key_data(keys.train), *rows))
    data = TrainingData(inputs, labels, *own)
    bound = (functools.partial(program, mesh, recipe) for program in (_start, _train, _whole))
    return train_in_calls(Programs(*bound), recipe.config, params, data, say)


@functools.partial(jax.jit, static_argnames=("mesh", "recipe"), donate_argnames="params")
def _start(mesh: Mesh, recipe: Recipe, params: Params, data: TrainingData):
    return _apart(mesh, functools.partial(start, recipe), _MEMBERS, _DATA)(params, data)


@functools.partial(jax.jit, static_argnames=("mesh", "recipe"), donate_argnames="training")
def _train(mesh: Mesh, recipe: Recipe, fixed: Fixed, training: Training, data, first, end):
    program, specs = functools.partial(train, recipe), (_MEMBERS, _MEMBERS, _DATA, P(), P())
    return _apart(mesh, program, *specs)(fixed, training, data, first, end)


@functools.partial(jax.jit, static_argnames=("mesh", "recipe"))
def _whole(mesh: Mesh, recipe: Recipe, fixed: Fixed, training: Training, data: TrainingData):
    program = functools.partial(whole, recipe)
    return _apart(mesh, program, _MEMBERS, _MEMBERS, _DATA)(fixed, training, data)


_MEMBERS = P(ENSEMBLE)
_DATA = TrainingData(*[P(), P(), *[P(ENSEMBLE)] * 5])  # pyright: ignore[reportArgumentType]


def _apart(mesh: Mesh, program: Callable[..., Any], *specs: Any) -> Callable[..., Any]:
    """A program that every device runs on its own members: each stops when they have."""

    def on_own(*arguments: Any) -> Any:
        # Keys travel as their numbers.
        keyed = lambda one: one._replace(keys=jax.random.wrap_key_data(one.keys))
        return program(*(keyed(a) if isinstance(a, TrainingData) else a for a in arguments))

    return jax.shard_map(on_own, mesh=mesh, in_specs=specs, out_specs=P(ENSEMBLE), check_vma=False)


def place_members(mesh: Mesh, params: Params) -> Params:
    """Parameters [M, ...] cut over the ensemble axis, the last member repeated to fill it."""
    wanted, size = NamedSharding(mesh, P(ENSEMBLE)), mesh.shape[ENSEMBLE]

    def placed(leaf: Any) -> jax.Array:
        if isinstance(leaf, jax.Array) and leaf.sharding.is_equivalent_to(wanted, leaf.ndim):
            return leaf
        members = np.arange(-(-len(leaf) // size) * size)
        return place(mesh, fetch(leaf)[np.minimum(members, len(leaf) - 1)], ENSEMBLE)

    return jax.tree.map(placed, params)


def place_everywhere(mesh: Mesh, params: Params) -> Params:
    """The parameters of one member on every device."""
    return jax.tree.map(lambda leaf: place(mesh, fetch(leaf)), params)


@functools.partial(jax.jit, static_argnames=("mesh", "model"))
def member_logits(mesh: Mesh, model: Model, params: Params, inputs: jax.Array) -> jax.Array:
    """Logits [M, B, K]: members over ``ensemble``, documents over ``pool``."""
    apply = jax.vmap(model.apply, in_axes=(0, None))
    specs = {"in_specs": (P(ENSEMBLE), P(POOL)), "out_specs": P(ENSEMBLE, POOL)}
    return jax.shard_map(apply, mesh=mesh, check_vma=False, **specs)(params, inputs)


@functools.partial(jax.jit, static_argnames=("mesh", "model"))
def member_features(mesh: Mesh, model: Model, params: Params, inputs: jax.Array) -> jax.Array:
    """Document vectors [B, D] of one member: documents over all devices."""
    specs = {"in_specs": (P(), P((ENSEMBLE, POOL))), "out_specs": P((ENSEMBLE, POOL))}
    return jax.shard_map(model.features, mesh=mesh, check_vma=False, **specs)(params, inputs)
