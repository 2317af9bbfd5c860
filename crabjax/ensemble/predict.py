"""Logits and document vectors, batch by batch, on one device or on a mesh."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from crabjax.devices.batches import LARGEST_BATCH, batches_at_once, in_batches
from crabjax.devices.memory import halve_once, halve_until_it_fits
from crabjax.devices.mesh import ENSEMBLE, POOL, current_mesh, place
from crabjax.devices.program_memory import program_bytes
from crabjax.ensemble import on_mesh
from crabjax.ensemble.checks import EnsembleError, check_words
from crabjax.ensemble.plan import fills
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


def predicted_at_once(model: Model, params: Params, batch: Any, platform: str) -> int:
    """How many members go into one program, of parameters [M, ...].

    One, where it fills a TPU by itself: under vmap its compiler copies all that attention reads,
    and by its estimates a v5e takes 1.2 times as long for five DistilBERTs. GPUs start kernels.

    Args:
      model: the classifier.
      params: [M, ...], arrays or shapes.
      batch: shape of the documents of a call.
      platform: "cpu", "gpu" or "tpu".
    """
    members = len(jax.tree.leaves(params)[0])
    if platform != "tpu" or members == 1:
        return members
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), params)
    return 1 if fills(ensemble_logits.trace(model, one, batch), platform) else members


def _logits_in_batches(model: Model, params: Params, inputs: Any, batch_size: int | None):
    """Logits float32 [M, X, K] on the host; see :func:`predict_logits`."""
    mesh, members = current_mesh(), len(jax.tree.leaves(params)[0])
    own = members if mesh is None else -(-members // mesh.shape[ENSEMBLE])
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct((own, *a.shape[1:]), a.dtype), params)
    size = batch_size or _plan(ensemble_logits, model, shapes, inputs)
    if mesh is not None:
        params = on_mesh.place_members(mesh, params)
        call = lambda batch: on_mesh.member_logits(mesh, model, params, place(mesh, batch, POOL))
        parts = mesh.shape[POOL]
        run = lambda size: in_batches(call, inputs, size * parts, axis=1, cut=_cut(model))
        return halve_once(BATCH, size, run)[:members]
    batch = jax.ShapeDtypeStruct((size, *np.shape(inputs)[1:]), inputs.dtype)
    group = predicted_at_once(model, params, batch, jax.default_backend())

    def of_group(size: int, first: int) -> np.ndarray:
        some = params
        if group < members:
            some = jax.tree.map(lambda leaf: leaf[first : first + group], params)
        # Of parameters on the host, no more go to the device than it works with.
        call = functools.partial(ensemble_logits, model, jax.tree.map(jnp.asarray, some))
        return in_batches(call, inputs, size, axis=1, cut=_cut(model))

    firsts = range(0, members, group)
    return halve_once(BATCH, size, lambda size: _join([of_group(size, one) for one in firsts]))


def _join(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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
    return model.ignores_padding and not (model.streaming and jax.default_backend() == "cpu")


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
    shared = sum(one.size * one.dtype.itemsize for one in shapes)

    def needed(size: int) -> int:
        batch = jax.ShapeDtypeStruct((size, *row.shape), row.dtype)
        own = program_bytes(function.trace(model, params, batch)) - shared
        return shared + workers * own

    return halve_until_it_fits("documents predicted at once", LARGEST_BATCH, needed)
