"""Training and prediction of all members at once, each as one compiled program."""

import dataclasses
import functools
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from crabjax.checks import check_not_empty, check_rank, check_same_size
from crabjax.config import EnsembleConfig
from crabjax.models import Model, Params
from crabjax.training import FitInfo, TrainingData, train

log = logging.getLogger(__name__)


class EnsembleError(RuntimeError):
    """Training or prediction gave numbers that are not finite."""


class MemberKeys(NamedTuple):
    """Random keys of every member, seed-major: M = seeds x members.

    Attributes:
      init: keys [M] of the initial parameters.
      train: keys [M] of batch order and dropout.
    """

    init: jax.Array
    train: jax.Array


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
      validation_rows: int32 [M, V], rows the epochs are compared on.

    Returns:
      Parameters with a leading axis M, on the device, and a :class:`FitInfo` on the host.

    Raises:
      EnsembleError: the loss of all members became non-finite, or that of one did before its
        first epoch was complete. A member that fails later keeps its best epoch so far.
    """
    _check_fit(keys, inputs, labels, train_rows, train_counts, validation_rows)
    members = len(train_rows)
    workers, group = _share_members(members, config.members_at_once)
    shared = jnp.asarray(inputs), jnp.asarray(labels, jnp.float32)
    own = keys, *(jnp.asarray(a, jnp.int32) for a in (train_rows, train_counts, validation_rows))
    program = dataclasses.replace(config, members_at_once=None)  # the same for groups of any run

    def fit_group(start: int):
        # The last group repeats its last member, so that every group has the same shape.
        chosen = np.minimum(np.arange(start, start + group), members - 1)
        found = _fit_group(model, program, *shared, *jax.tree.map(itemgetter(chosen), own))
        return jax.block_until_ready(found)

    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(fit_group, range(0, members, group)))
    params, info = jax.tree.map(lambda *leaves: _join(leaves, members), *parts)
    info = FitInfo(*(np.asarray(leaf) for leaf in info))
    _check_failures(info, config)
    return params, info


def predict_logits(model: Model, params: Params, inputs: Any, batch_size: int) -> np.ndarray:
    """Logits float32 [M, X, K] of every member, in host memory.

    Args:
      model: the classifier.
      params: parameters with a leading axis M.
      inputs: documents [X, ...]; a batch at a time is moved to the device.
      batch_size: rows a compiled call takes; the last batch is padded.

    Raises:
      EnsembleError: a logit is not finite.
    """
    logits = _in_batches(_ensemble_logits, model, params, inputs, batch_size, axis=1)
    if not np.isfinite(logits).all():
        member, row, _ = np.argwhere(~np.isfinite(logits))[0]
        raise EnsembleError(f"member {member}: the logits of document {row} are not finite")
    return logits


def predict_proba(model: Model, params: Params, inputs: Any, batch_size: int) -> np.ndarray:
    """Probabilities float32 [M, X, K]; see :func:`predict_logits`."""
    return scipy.special.expit(predict_logits(model, params, inputs, batch_size))


def predict_features(model: Model, params: Params, inputs: Any, batch_size: int) -> np.ndarray:
    """Document vectors float32 [X, D] of one member, its parameters without the axis M.

    Raises:
      EnsembleError: a feature is not finite.
    """
    features = _in_batches(_member_features, model, params, inputs, batch_size, axis=0)
    if not np.isfinite(features).all():
        row = np.argwhere(~np.isfinite(features))[0, 0]
        raise EnsembleError(f"the features of document {row} are not finite")
    return features


def _share_members(members: int, members_at_once: int | None) -> tuple[int, int]:
    """How many groups train at the same time, and the members of a group.

    On CPU the steps of small models are too short to be shared out, so each core takes a group.
    """
    if members_at_once is not None:
        return 1, min(members_at_once, members)
    cores = _cores() if jax.default_backend() == "cpu" else 1
    group = -(-members // cores)
    return -(-members // group), group


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _fit_group(model, config, inputs, labels, keys, *rows):
    # Outside the compiled program: pretrained weights would become constants inside it.
    params = jax.vmap(model.init)(keys.init)
    _check_words(model, params, inputs)
    return train(model, config, params, TrainingData(inputs, labels, keys.train, *rows))


def _join(leaves, members: int):
    return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)[:members]


@functools.partial(jax.jit, static_argnames="model")
def _ensemble_logits(model: Model, params: Params, inputs: jax.Array) -> jax.Array:
    return jax.vmap(model.apply, in_axes=(0, None))(params, inputs)


@functools.partial(jax.jit, static_argnames="model")
def _member_features(model: Model, params: Params, inputs: jax.Array) -> jax.Array:
    return model.features(params, inputs)


def _in_batches(
    function: Callable[..., jax.Array], model, params, inputs, batch_size: int, axis: int
) -> np.ndarray:
    """Applies a compiled function batch by batch; rows lie on ``axis`` of its result.

    The next batch is started before the last is fetched, so that copies and work overlap.
    """
    check_not_empty("inputs", inputs)
    inputs = np.asarray(inputs)  # cut on the host: on a device every length of the last is compiled
    _check_words(model, params, inputs)
    results, waiting = [], None
    for start in range(0, len(inputs), batch_size):
        batch = inputs[start : start + batch_size]
        padding = [(0, batch_size - len(batch))] + [(0, 0)] * (batch.ndim - 1)
        result = function(model, params, np.pad(batch, padding))
        if waiting is not None:
            results.append(np.asarray(waiting, np.float32))
        waiting = result
    results.append(np.asarray(waiting, np.float32))
    joined = np.concatenate(results, axis=axis)
    return joined[:, : len(inputs)] if axis == 1 else joined[: len(inputs)]


def _check_fit(keys, inputs, labels, train_rows, train_counts, validation_rows) -> None:
    check_rank("labels", labels, "NK")
    check_rank("train_rows", train_rows, "MC")
    check_rank("train_counts", train_counts, "M")
    check_rank("validation_rows", validation_rows, "MV")
    check_not_empty("validation_rows", validation_rows)
    check_same_size("N", "inputs", len(inputs), "labels", len(labels))
    for name, array in (
        ("keys.init", keys.init),
        ("keys.train", keys.train),
        ("train_counts", train_counts),
        ("validation_rows", validation_rows),
    ):
        check_same_size("M", "train_rows", len(train_rows), name, len(array))
    counts = np.asarray(train_counts)
    if counts.min() < 1 or counts.max() > train_rows.shape[1]:
        raise ValueError(
            f"train_counts: expected 1 to {train_rows.shape[1]}, the capacity of train_rows, "
            f"found {counts.min()} to {counts.max()}"
        )
    for name, rows in (("train_rows", train_rows), ("validation_rows", validation_rows)):
        rows = np.asarray(rows)
        if rows.min() < 0 or rows.max() >= len(inputs):
            raise ValueError(
                f"{name}: expected rows 0 to {len(inputs) - 1} of inputs, "
                f"found {rows.min()} to {rows.max()}"
            )


def _check_words(model: Model, params: Params, inputs: Any) -> None:
    """Raises if a word id has no row in the model's table; compiled gathers would not notice."""
    if model.table is None:
        return
    words, largest = params[model.table].shape[-2], int(np.max(inputs))
    if largest >= words:
        raise ValueError(f"inputs: expected word ids below {words}, found {largest}")


def _check_failures(info: FitInfo, config: EnsembleConfig) -> None:
    name = functools.partial(_member_name, members=len(info.best_epoch), of_seed=config.members)
    failed = info.failed_epoch >= 0
    unusable = info.best_epoch < 0
    if failed.all() or unusable.any():
        named = np.flatnonzero(failed if failed.all() else unusable)
        places = ", ".join(f"{name(m)} in epoch {info.failed_epoch[m]}" for m in named)
        raise EnsembleError(
            f"the training loss became non-finite: {places}; "
            f"lower ensemble.learning_rate (now {config.learning_rate})"
        )
    for member in np.flatnonzero(failed):
        log.warning(
            "%s: the loss was not finite in epoch %d; its epoch %d is kept",
            name(member),
            info.failed_epoch[member],
            info.best_epoch[member],
        )


def _member_name(member: int, members: int, of_seed: int) -> str:
    """What to call one of the members; those of a seed lie side by side."""
    if of_seed == 1 or members == of_seed or members % of_seed:
        return f"member {member}"
    return f"member {member} (member {member % of_seed} of seeds[{member // of_seed}])"
