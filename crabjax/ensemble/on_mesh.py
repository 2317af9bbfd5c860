"""Training, prediction and document vectors on a mesh.

Every device runs the program of a single device on its own members and documents.
"""

import functools
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from crabjax.devices.mesh import ENSEMBLE, POOL, fetch, place, place_parts
from crabjax.ensemble.train import FitInfo, Recipe, TrainingData, train
from crabjax.models import Model, Params


def fit_members(
    mesh: Mesh,
    recipe: Recipe,
    inputs: jax.Array,
    labels: jax.Array,
    keys: Any,
    *rows: np.ndarray,
) -> tuple[Params, FitInfo]:
    """Trains M members, a multiple of the ensemble axis; see ``ensemble.fit_ensemble``.

    Args:
      mesh: the devices.
      recipe: what is trained, and how.
      inputs: [N, ...] on every device.
      labels: float32 [N, K] on every device.
      keys: ``MemberKeys`` [M].
      *rows: the training rows, their counts, the validation rows and, with a word table, the
        training words, [M, ...] each.
    """
    params = place_parts(
        mesh, len(rows[0]), lambda own: jax.vmap(recipe.model.init)(keys.init[own])
    )
    own = (place(mesh, one, ENSEMBLE) for one in (jax.random.key_data(keys.train), *rows))
    return _train(mesh, recipe, params, TrainingData(inputs, labels, *own))


# Devices train apart from each other: each stops when its own members have.
@functools.partial(jax.jit, static_argnames=("mesh", "recipe"), donate_argnames="params")
def _train(mesh: Mesh, recipe: Recipe, params: Params, data: TrainingData):
    def train_own(params: Params, data: TrainingData):
        keys = jax.random.wrap_key_data(data.keys)
        return train(recipe, params, data._replace(keys=keys))

    axes: list[Any] = [P(), P(), *[P(ENSEMBLE)] * 5]
    return jax.shard_map(
        train_own,
        mesh=mesh,
        in_specs=(P(ENSEMBLE), TrainingData(*axes)),
        out_specs=P(ENSEMBLE),
        check_vma=False,
    )(params, data)


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
