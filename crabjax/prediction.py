"""Logits and document vectors, batch by batch, on one device or on a mesh."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crabjax import sharded
from crabjax.batches import LARGEST_BATCH, batches_at_once, in_batches
from crabjax.memory import halve_once, halve_until_it_fits, program_bytes
from crabjax.models import Model, Params
from crabjax.sharding import ENSEMBLE, POOL, current_mesh, place

BATCH = "ensemble.predict_batch"


@functools.partial(jax.jit, static_argnames="model")
def ensemble_logits(model: Model, params: Params, inputs: jax.Array) -> jax.Array:
    """Logits [M, B, K] of parameters [M, ...] on documents [B, ...]."""
    return jax.vmap(model.apply, in_axes=(0, None))(params, inputs)


@functools.partial(jax.jit, static_argnames="model")
def member_features(model: Model, params: Params, inputs: jax.Array) -> jax.Array:
    """Document vectors [B, D] of one member."""
    return model.features(params, inputs)


def logits_in_batches(model: Model, params: Params, inputs: Any, batch_size: int | None):
    """Logits float32 [M, X, K] on the host; see ``ensemble.predict_logits``."""
    mesh, members = current_mesh(), len(jax.tree.leaves(params)[0])
    if mesh is None:
        params, parts = jax.tree.map(jnp.asarray, params), 1
        call = functools.partial(ensemble_logits, model, params)
    else:
        params, parts = sharded.place_members(mesh, params), mesh.shape[POOL]
        call = lambda batch: sharded.member_logits(mesh, model, params, place(mesh, batch, POOL))
    own = members if mesh is None else -(-members // mesh.shape[ENSEMBLE])
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct((own, *a.shape[1:]), a.dtype), params)
    size = batch_size or _plan(ensemble_logits, model, shapes, inputs)
    run = lambda size: in_batches(call, inputs, size * parts, axis=1)
    return halve_once(BATCH, size, run)[:members]


def features_in_batches(model: Model, params: Params, inputs: Any, batch_size: int | None):
    """Document vectors float32 [X, D] on the host; see ``ensemble.predict_features``."""
    mesh = current_mesh()
    size = batch_size or _plan(member_features, model, params, inputs)
    if mesh is None:
        params, parts = jax.tree.map(jnp.asarray, params), 1
        call = functools.partial(member_features, model, params)
    else:
        params, parts = sharded.place_everywhere(mesh, params), mesh.size
        axes = (ENSEMBLE, POOL)
        call = lambda batch: sharded.member_features(mesh, model, params, place(mesh, batch, axes))
    return halve_once(BATCH, size, lambda size: in_batches(call, inputs, size * parts))


def _plan(function: Callable[..., Any], model: Model, params: Params, inputs: Any) -> int:
    leaves, tree = jax.tree.flatten(params)
    shapes = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)
    row = jax.ShapeDtypeStruct(np.shape(inputs)[1:], inputs.dtype)
    # Elsewhere than on the cores of one CPU, batches take turns with the memory they work in.
    on_cores = current_mesh() is None and jax.default_backend() == "cpu"
    workers = batches_at_once() if on_cores else 1
    return _largest_batch(function, model, tree, shapes, row, workers)


@functools.cache
def _largest_batch(function: Any, model: Model, tree, shapes, row, workers: int) -> int:
    """Decided, and said, once for the same shapes."""
    params = jax.tree.unflatten(tree, shapes)
    shared = sum(math.prod(one.shape) * one.dtype.itemsize for one in shapes)

    def needed(size: int) -> int:
        batch = jax.ShapeDtypeStruct((size, *row.shape), row.dtype)
        own = program_bytes(function.trace(model, params, batch)) - shared
        return shared + workers * own

    return halve_until_it_fits("documents predicted at once", LARGEST_BATCH, needed)
