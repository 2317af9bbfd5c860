"""Training and prediction of all members at once: what is asked for, and checked."""

import functools
import logging
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from crabjax.checks import check_not_empty, check_rank, check_same_size
from crabjax.config import EnsembleConfig
from crabjax.groups import fit_members
from crabjax.models import Model, Params
from crabjax.prediction import features_in_batches, logits_in_batches
from crabjax.training import FitInfo

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
      Parameters with a leading axis M, on the device (of several devices, on the host unless
      the members fill them evenly), and a :class:`FitInfo` on the host.

    Raises:
      EnsembleError: the loss of all members became non-finite, or that of one did before its
        first epoch was complete. A member that fails later keeps its best epoch so far.
    """
    _check_fit(keys, inputs, labels, train_rows, train_counts, validation_rows)
    if model.table is not None:
        one = jax.ShapeDtypeStruct((), keys.init.dtype)
        _check_words(model, jax.eval_shape(model.init, one), inputs)
    rows = tuple(np.asarray(a, np.int32) for a in (train_rows, train_counts, validation_rows))
    labels = np.asarray(labels, np.float32)
    params, info = fit_members(model, config, keys, np.asarray(inputs), labels, rows)
    _check_failures(info, config)
    return params, info


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
    _check_words(model, params, inputs)
    logits = logits_in_batches(model, params, inputs, batch_size)
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
    _check_words(model, params, inputs)
    features = features_in_batches(model, params, inputs, batch_size)
    if not np.isfinite(features).all():
        row = np.argwhere(~np.isfinite(features))[0, 0]
        raise EnsembleError(f"the features of document {row} are not finite")
    return features


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
        places = ", ".join(f"{name(int(m))} in epoch {info.failed_epoch[m]}" for m in named)
        raise EnsembleError(
            f"the training loss became non-finite: {places}; "
            f"lower ensemble.learning_rate (now {config.learning_rate})"
        )
    for member in np.flatnonzero(failed):
        log.warning(
            "%s: the loss was not finite in epoch %d; its epoch %d is kept",
            name(int(member)),
            info.failed_epoch[member],
            info.best_epoch[member],
        )


def _member_name(member: int, members: int, of_seed: int) -> str:
    """What to call one of the members; those of a seed lie side by side."""
    if of_seed == 1 or members == of_seed or members % of_seed:
        return f"member {member}"
    return f"member {member} (member {member % of_seed} of seeds[{member // of_seed}])"
