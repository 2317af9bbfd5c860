"""Training of all members: what is asked for is checked, then shared out.

On an accelerator, and on every device of a mesh, a group of members is one program under vmap, as
large as the memory takes. On CPU its steps are too short to be shared out over cores, and it lasts
as long as its slowest member; there every core trains one small group after another instead, by
the same program: groups of one, unless members are so light that they had better share its costs.
"""

import functools
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from crabjax.config import DevicesConfig, EnsembleConfig
from crabjax.devices.batches import LARGEST_BATCH, usable_cores
from crabjax.devices.memory import halve_once
from crabjax.devices.mesh import ENSEMBLE, current_mesh, fetch, place
from crabjax.ensemble import on_mesh
from crabjax.ensemble.calls import Programs, train_in_calls
from crabjax.ensemble.checks import check_failures, check_fit, check_words
from crabjax.ensemble.plan import FitShapes, members_a_core, plan_here
from crabjax.ensemble.step import Recipe
from crabjax.ensemble.train import FitInfo, TrainingData, start, train, whole
from crabjax.ensemble.word_rows import training_words
from crabjax.models import Model, Params
from crabjax.progress import counting, heard

AT_ONCE = "devices.members_at_once"


class MemberKeys(NamedTuple):
    """Random keys of every member, seed-major: M = seeds x members.

    Attributes:
      init: keys [M] of the initial parameters.
      train: keys [M] of batch order and dropout.
    """

    init: jax.Array
    train: jax.Array


@functools.partial(jax.jit, static_argnames=("members", "member_init"))
def member_keys(
    seed_keys: jax.Array, members: int, member_init: Literal["same", "independent"]
) -> MemberKeys:
    """Keys for ``members`` members of every seed.

    Args:
      seed_keys: keys [S].
      members: E; the keys of a member do not depend on it.
      member_init: whether the members of a seed start from the same parameters.
    """

    def of_seed(seed_key: jax.Array) -> MemberKeys:
        init, train = jax.random.split(seed_key)
        member = jnp.arange(members)
        start = jnp.zeros_like(member) if member_init == "same" else member
        fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
        return MemberKeys(fold(init, start), fold(train, member))

    return jax.tree.map(lambda keys: keys.reshape(-1), jax.vmap(of_seed)(seed_keys))


def fit_ensemble(
    model: Model,
    config: EnsembleConfig,
    keys: MemberKeys,
    inputs: Any,
    labels: Any,
    train_rows: Any,
    train_counts: Any,
    validation_rows: Any,
    devices: DevicesConfig = DevicesConfig(),  # noqa: B008
) -> tuple[Params, FitInfo]:
    """Trains every member from scratch and keeps the parameters of its best epoch.

    One program is compiled per set of shapes. The live part of ``train_rows`` may grow from call
    to call: its width is a capacity, and costs memory, not time.

    Args:
      model: the classifier.
      config: batches, epochs, patience, optimiser.
      keys: keys of the M members.
      inputs: documents [N, ...], token ids or features.
      labels: bool [N, K].
      train_rows: int32 [M, C], rows of ``inputs`` each member trains on.
      train_counts: int32 [M], how many of them, from the left, are live.
      validation_rows: int32 [M, V], rows the epochs are compared on; with V = 0 the parameters of
        the last epoch are kept.
      devices: how many members train, and how many validation documents are predicted, at once.

    Returns:
      Parameters with a leading axis M, on the device if it trained all at once, else on the host
      (of several devices, on the device if the members fill them evenly); on CPU there is no
      difference. And a :class:`FitInfo` on the host.

    Raises:
      EnsembleError: the loss of all members became non-finite, or that of one did before its
        first epoch was complete. A member that fails later keeps its best epoch so far.
    """
    check_fit(keys, inputs, labels, train_rows, train_counts, validation_rows)
    inputs, labels = np.asarray(inputs), np.asarray(labels, np.float32)
    rows = tuple(np.asarray(a, np.int32) for a in (train_rows, train_counts, validation_rows))
    if model.table is not None:
        params = jax.eval_shape(model.init, jax.ShapeDtypeStruct((), keys.init.dtype))
        check_words(model, params, inputs)
        rows += (training_words(inputs, rows[0], rows[1], len(params[model.table])),)
    batch = devices.predict_batch or LARGEST_BATCH
    if model.streaming and on_cores(current_mesh()):
        batch = rows[2].shape[1]
    recipe = Recipe(model, config, batch)
    params, info = _fit_members(recipe, keys, inputs, labels, rows, devices)
    check_failures(info, config)
    return params, info


def _fit_members(
    recipe: Recipe, keys: MemberKeys, inputs: Any, labels: Any, rows: Any, devices: DevicesConfig
) -> tuple[Params, FitInfo]:
    """Trains the M members of checked arguments; see :func:`fit_ensemble`.

    Args:
      recipe: what is trained, and how.
      keys: [M].
      inputs: [N, ...].
      labels: float32 [N, K].
      rows: training rows, their counts, validation rows and, with a word table, training words,
        int32 [M, ...] each.
      devices: what is stated of how to lay the work out.
    """
    mesh, members = current_mesh(), len(rows[0])
    most = members if mesh is None else -(-members // mesh.shape[ENSEMBLE])
    shapes = [jax.ShapeDtypeStruct(np.shape(a), a.dtype) for a in (inputs, labels, *rows)]
    known = FitShapes(shapes[0], shapes[1], keys.train.dtype, tuple(shapes[2:]))
    a_core = members_a_core(recipe, known) if on_cores(mesh) else None
    most = most if a_core is None else min(most, usable_cores() * a_core)
    plan = plan_here(recipe, devices, most, known, on_cores(mesh))
    shared = tuple(jax.device_put(a) if mesh is None else place(mesh, a) for a in (inputs, labels))
    fit = functools.partial(_fit, plan.recipe, mesh, a_core, shared, (keys, *rows))
    return halve_once(AT_ONCE, plan.at_once, fit)


def on_cores(mesh: Mesh | None) -> bool:
    """Whether members are shared out over cores, each of which runs a program of its own."""
    return mesh is None and jax.default_backend() == "cpu"


def groups_at_once(members: int, at_once: int, group: int) -> int:
    """How many groups train side by side: with all members at once the last may be filled up."""
    return -(-members // group) if at_once >= members else max(1, at_once // group)


def _fit(recipe: Recipe, mesh, a_core, shared, own, at_once: int) -> tuple[Params, FitInfo]:
    members = len(own[1])
    # The same groups on any number of cores: their size may change the last bits of a result.
    group = at_once if a_core is None else min(a_core, at_once)
    workers = groups_at_once(members, at_once, group)
    if mesh is not None:
        group *= mesh.shape[ENSEMBLE]
    one_group = group >= members
    fit_group = _fit_group if mesh is None else functools.partial(on_mesh.fit_members, mesh)

    def fit_from(first: int) -> tuple[Params, FitInfo]:
        # The last group repeats its last member, so that every group has the same shape.
        chosen = np.minimum(np.arange(first, first + group), members - 1)
        say = functools.partial(advance, 0) if heard() else None
        params, info = fit_group(recipe, *shared, *_of_members(own, chosen), say=say)
        params = jax.block_until_ready(params)
        # A device holds the members it trains and no others: those that are done wait on the host.
        return params if one_group or on_cores(mesh) else jax.tree.map(fetch, params), info

    firsts, parts = range(0, members, group), []
    with counting("training members", members) as advance, ThreadPoolExecutor(workers) as pool:
        for first, part in zip(firsts, pool.map(fit_from, firsts)):
            parts.append(part)
            advance(min(group, members - first))
    params, infos = zip(*parts)
    joined = jax.tree.map(lambda *leaves: _join(leaves, members, mesh), *params)
    return joined, FitInfo(*(np.concatenate(found)[:members] for found in zip(*infos)))


# Operation by operation there would be a dozen programs to compile, or read, before the first fit.
@jax.jit
def _of_members(own, chosen):
    return jax.tree.map(itemgetter(chosen), own)


def _fit_group(recipe: Recipe, inputs, labels, keys, *rows, say) -> tuple[Params, FitInfo]:
    # Outside the compiled program: pretrained weights would become constants inside it.
    params = jax.vmap(recipe.model.init)(keys.init)
    data = TrainingData(inputs, labels, keys.train, *rows)
    bound = (functools.partial(program, recipe) for program in (start, train, whole))
    packs = not on_cores(None)
    return train_in_calls(Programs(*bound), recipe.config, params, data, say, packs)


def _join(leaves, members: int, mesh: Mesh | None):
    """The members of all groups, on the host unless one group is all of them."""
    if len(leaves) == 1 and len(leaves[0]) == members:
        return leaves[0]
    if on_cores(mesh):
        return jnp.concatenate(leaves)[:members]
    return np.concatenate([fetch(leaf) for leaf in leaves])[:members]
