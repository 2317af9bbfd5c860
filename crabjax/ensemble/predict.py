"""Logits and document vectors, batch by batch, on one device or on a mesh."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from crabjax.devices.batches import LARGEST_BATCH, batches_at_once, in_batches
from crabjax.devices.memory import halve_once, halve_until_it_fits, program_bytes
from crabjax.devices.mesh import ENSEMBLE, POOL, current_mesh, place
from crabjax.ensemble import on_mesh
from crabjax.ensemble.checks import EnsembleError, check_words
from crabjax.models import Model, Params

BATCH = "devices.predict_batch"


def predict_logits(
    model: Model, params: Params, inputs: Any, batch_size: int | None = None
) -> np.ndarray:
    """Logits float32 [M, X, K] of every member, in host memory.

    Args:
      model: the classifier.
      params: parameters with a leading axis M.
      inputs: documents [X, ...]; a batch at a time is moved to the device.
      batch_size: rows a compiled call takes on a device, or on each core of a CPU; the last batch
        is padded. None for 256, or as many as there is memory for.

    Raises:
      EnsembleError: a logit is not finite.
    """
    check_words(model, params, inputs)
    logits = _logits_in_batches(model, params, inputs, batch_size)
    if not np.isfinite(logits).all():
        member, row, _ = np.argwhere(~np.isfinite(logits))[0]
        raise EnsembleError(f"member {member}: the logits of document {row} are not finite")
    return logits


def predict_proba(
    model: Model, params: Params, inputs: Any, batch_size: int | None = None
) -> np.ndarray:
    """Probabilities float32 [M, X, K]; see :func:`predict_logits`."""
    return scipy.special.expit(predict_logits(model, params, inputs, batch_size))


def predict_features(
    model: Model, params: Params, inputs: Any, batch_size: int | None = None
) -> np.ndarray:
    """Document vectors float32 [X, D] of one member, its parameters without the axis M.

    Raises:
      EnsembleError: a feature is not finite.
    """
    check_words(model, params, inputs)
    features = _features_in_batches(model, params, inputs, batch_size)
    if not np.isfinite(features).all():
        row = np.argwhere(~np.isfinite(features))[0, 0]
        raise EnsembleError(f"the features of document {row} are not finite")
    return features


@functools.partial(jax.jit, static_argnames="model")
def ensemble_logits(model: Model, params: Params, inputs: jax.Array) -> jax.Array:
    """Logits [M, B, K] of parameters [M, ...] on documents [B, ...]."""
    return jax.vmap(model.apply, in_axes=(0, None))(params, inputs)


@functools.partial(jax.jit, static_argnames="model")
def member_features(model: Model, params: Params, inputs: jax.Array) -> jax.Array:
    """Document vectors [B, D] of one member."""
    return model.features(params, inputs)


def _logits_in_batches(model: Model, params: Params, inputs: Any, batch_size: int | None):
    """Logits float32 [M, X, K] on the host; see :func:`predict_logits`."""
    mesh, members = current_mesh(), len(jax.tree.leaves(params)[0])
    if mesh is None:
        params, parts = jax.tree.map(jnp.asarray, params), 1
        call = functools.partial(ensemble_logits, model, params)
    else:
        params, parts = on_mesh.place_members(mesh, params), mesh.shape[POOL]
        call = lambda batch: on_mesh.member_logits(mesh, model, params, place(mesh, batch, POOL))
    own = members if mesh is None else -(-members // mesh.shape[ENSEMBLE])
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct((own, *a.shape[1:]), a.dtype), params)
    size = batch_size or _plan(ensemble_logits, model, shapes, inputs)
    run = lambda size: in_batches(call, inputs, size * parts, axis=1, cut=_cut(model))
    return halve_once(BATCH, size, run)[:members]


def _features_in_batches(model: Model, params: Params, inputs: Any, batch_size: int | None):
    """Document vectors float32 [X, D] on the host; see :func:`predict_features`."""
    mesh = current_mesh()
    size = batch_size or _plan(member_features, model, params, inputs)
    if mesh is None:
        params, parts = jax.tree.map(jnp.asarray, params), 1
        call = functools.partial(member_features, model, params)
    else:
        params, parts = on_mesh.place_everywhere(mesh, params), mesh.size
        axes = (ENSEMBLE, POOL)
        call = lambda batch: on_mesh.member_features(mesh, model, params, place(mesh, batch, axes))
    run = lambda size: in_batches(call, inputs, size * parts, cut=_cut(model))
    return halve_once(BATCH, size, run)


def _cut(model: Model) -> bool:
    """Whether short documents are predicted in narrower batches.

    Not on a CPU by models that leave out padding themselves: it takes as long, and more to compile.
    """
    return not (model.streaming and jax.default_backend() == "cpu")


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
