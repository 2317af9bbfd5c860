"""Members trained in groups: as many as the memory takes, or one a core.

On an accelerator, and on every device of a mesh, a group is one program under vmap. On CPU its
steps are too short to be shared out over cores, and it lasts as long as its slowest member; there
every core trains one member after another instead, by the same program.
"""

import dataclasses
import functools
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from crabjax import sharded
from crabjax.batches import LARGEST_BATCH
from crabjax.config import EnsembleConfig
from crabjax.cores import usable_cores
from crabjax.memory import halve_once, halve_until_it_fits, program_bytes
from crabjax.models import Model, Params
from crabjax.sharding import ENSEMBLE, current_mesh, fetch, place
from crabjax.training import FitInfo, TrainingData, train

AT_ONCE = "ensemble.members_at_once"


def fit_members(
    model: Model, config: EnsembleConfig, keys: Any, inputs: Any, labels: Any, rows: Any
) -> tuple[Params, FitInfo]:
    """Trains the M members of checked arguments; see ``ensemble.fit_ensemble``.

    Args:
      model: the classifier.
      config: of the training.
      keys: ``MemberKeys`` [M].
      inputs: [N, ...].
      labels: float32 [N, K].
      rows: training rows, their counts and validation rows, int32 [M, ...] each.
    """
    mesh, members = current_mesh(), len(rows[0])
    # The same program for groups of any run.
    program = dataclasses.replace(
        config, members_at_once=None, predict_batch=config.predict_batch or LARGEST_BATCH
    )
    most = members if mesh is None else -(-members // mesh.shape[ENSEMBLE])
    if one_a_core(mesh):
        most = min(most, usable_cores())
    if config.members_at_once is not None:
        at_once = min(config.members_at_once, most)
    else:
        shapes = tuple(jax.ShapeDtypeStruct(np.shape(a), a.dtype) for a in (inputs, labels, *rows))
        at_once = _plan(model, program, mesh, most, keys.train.dtype, shapes)
    shared = tuple(jax.device_put(a) if mesh is None else place(mesh, a) for a in (inputs, labels))
    fit = functools.partial(_fit, model, program, mesh, shared, (keys, *rows))
    return halve_once(AT_ONCE, at_once, fit)


def one_a_core(mesh: Mesh | None) -> bool:
    """Whether members trained at once are each in a program of their own."""
    return mesh is None and jax.default_backend() == "cpu"


def _fit(model, config, mesh, shared, own, at_once: int) -> tuple[Params, FitInfo]:
    members = len(own[1])
    workers, group = (at_once, 1) if one_a_core(mesh) else (1, at_once)
    if mesh is not None:
        group *= mesh.shape[ENSEMBLE]

    def fit_group(start: int):
        # The last group repeats its last member, so that every group has the same shape.
        chosen = np.minimum(np.arange(start, start + group), members - 1)
        keys, *rows = _of_members(own, chosen)
        if mesh is None:
            found = _fit_group(model, config, *shared, keys, *rows)
        else:
            found = sharded.fit_members(mesh, model, config, *shared, keys, *rows)
        return jax.block_until_ready(found)

    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(fit_group, range(0, members, group)))
    params, info = jax.tree.map(lambda *leaves: _join(leaves, members, mesh), *parts)
    return params, FitInfo(*(fetch(leaf) for leaf in info))


# Operation by operation there would be a dozen programs to compile, or read, before the first fit.
@jax.jit
def _of_members(own, chosen):
    return jax.tree.map(itemgetter(chosen), own)


def _fit_group(model, config, inputs, labels, keys, *rows) -> tuple[Params, FitInfo]:
    # Outside the compiled program: pretrained weights would become constants inside it.
    params = jax.vmap(model.init)(keys.init)
    return train(model, config, params, TrainingData(inputs, labels, keys.train, *rows))


def _join(leaves, members: int, mesh: Mesh | None):
    """The members of all groups; from a mesh, on the host unless they fill its devices evenly."""
    if len(leaves) == 1 and len(leaves[0]) == members:
        return leaves[0]
    if mesh is None:
        return jnp.concatenate(leaves)[:members]
    return np.concatenate([fetch(leaf) for leaf in leaves])[:members]


@functools.cache
def _plan(model, config, mesh, most: int, key, shapes) -> int:
    """Members that a device can train at once; decided, and said, once for the same shapes."""
    documents = sum(one.size * one.dtype.itemsize for one in shapes[:2])
    needed_by = functools.partial(_fit_bytes, model, config, key, shapes)

    def needed(at_once: int) -> float:
        if not one_a_core(mesh):
            return needed_by(at_once)
        # All cores read the same documents.
        return documents + at_once * (needed_by(1) - documents)

    return halve_until_it_fits("members trained at once", most, needed)


def _fit_bytes(model, config, key, shapes, members: int) -> int:
    inputs, labels, *rows = shapes
    keys: Any = jax.ShapeDtypeStruct((members,), key)
    params = jax.eval_shape(jax.vmap(model.init), keys)
    own: list[Any] = [jax.ShapeDtypeStruct((members, *one.shape[1:]), one.dtype) for one in rows]
    return program_bytes(
        train.trace(model, config, params, TrainingData(inputs, labels, keys, *own))
    )
