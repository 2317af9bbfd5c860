"""Training and prediction of all members at once, each as one compiled program."""

import functools
import operator
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.special
from jax import lax

from crabjax.checks import check_not_empty, check_rank, check_same_size
from crabjax.config import EnsembleConfig
from crabjax.models import Model, Params


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


class FitInfo(NamedTuple):
    """What happened in training; epochs count from 0.

    Attributes:
      loss: mean training loss [M, epochs], NaN after a member stopped.
      validation_f1: validation micro-F1 [M, epochs], NaN after a member stopped.
      best_epoch: epoch [M] whose parameters were kept: the first with the highest F1.
      epochs_run: number of epochs [M] until the member stopped.
      failed_epoch: epoch [M] in which the loss was not finite, -1 where it always was.
    """

    loss: Any
    validation_f1: Any
    best_epoch: Any
    epochs_run: Any
    failed_epoch: Any


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
    group = min(config.members_at_once or members, members)
    shared = jnp.asarray(inputs), jnp.asarray(labels, jnp.float32)
    own = keys, *(jnp.asarray(a, jnp.int32) for a in (train_rows, train_counts, validation_rows))
    # The last group repeats its last member, so that every group has the same shape.
    groups = [
        np.minimum(np.arange(start, start + group), members - 1)
        for start in range(0, members, group)
    ]
    parts = [
        _fit_group(model, config, *shared, *jax.tree.map(operator.itemgetter(chosen), own))
        for chosen in groups
    ]
    params, info = jax.tree.map(lambda *leaves: _join(leaves, members), *parts)
    info = FitInfo(*(np.asarray(leaf) for leaf in info))
    _check_failures(info, config)
    return params, info


def predict_logits(model: Model, params: Params, inputs: Any, batch_size: int) -> np.ndarray:
    """Logits float32 [M, X, K] of every member, in host memory.

    Args:
      model: the classifier.
      params: parameters with a leading axis M.
      inputs: documents [X, ...], in host or device memory; only a batch at a time is moved.
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
    """Document vectors float32 [X, D] of one member, its parameters without the axis M."""
    return _in_batches(_member_features, model, params, inputs, batch_size, axis=0)


class _Progress(NamedTuple):
    """What one epoch hands to the next; every array but ``epoch`` has a leading axis M."""

    epoch: jax.Array
    params: Params
    optimizer: Any
    best_params: Params
    best_f1: jax.Array
    best_epoch: jax.Array
    failed_epoch: jax.Array
    training: jax.Array
    loss: jax.Array
    validation_f1: jax.Array


def _fit_group(model, config, inputs, labels, keys, *rows):
    # Outside the compiled program: pretrained weights would become constants inside it.
    params = jax.vmap(model.init)(keys.init)
    return _fit(model, config, params, inputs, labels, keys.train, *rows)


@functools.partial(jax.jit, static_argnames=("model", "config"), donate_argnames="params")
def _fit(model, config, params, inputs, labels, keys, train_rows, train_counts, validation_rows):
    """The whole training of a group of members; see :func:`fit_ensemble`."""
    epochs = jnp.full((len(train_rows), config.epochs), jnp.nan, jnp.float32)
    none = jnp.full_like(train_counts, -1)
    progress = _Progress(
        epoch=jnp.int32(0),
        params=params,
        optimizer=jax.vmap(_optimizer(config, jnp.int32(1)).init)(params),
        best_params=params,
        best_f1=jnp.full(len(train_rows), -1, jnp.float32),
        best_epoch=none,
        failed_epoch=none,
        training=jnp.ones(len(train_rows), bool),
        loss=epochs,
        validation_f1=epochs,
    )

    def run_epoch(progress: _Progress) -> _Progress:
        trained = _train_epoch(
            model, config, progress, inputs, labels, keys, train_rows, train_counts
        )
        f1, finite = _validate(model, config, trained[0], inputs, labels, validation_rows)
        return _record(config, progress, *trained, f1, finite)

    def unfinished(progress: _Progress) -> jax.Array:
        return (progress.epoch < config.epochs) & jnp.any(progress.training)

    progress = lax.while_loop(unfinished, run_epoch, progress)
    ran = jnp.sum(~jnp.isnan(progress.validation_f1), axis=1, dtype=jnp.int32)
    info = FitInfo(
        progress.loss, progress.validation_f1, progress.best_epoch, ran, progress.failed_epoch
    )
    return progress.best_params, info


def _train_epoch(model, config, progress, inputs, labels, keys, rows, counts):
    """One pass over the live rows of every member: parameters, optimiser state, mean loss [M]."""
    size = config.batch_size
    epoch_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, progress.epoch)
    orders = jax.vmap(functools.partial(_shuffled, size))(epoch_keys, rows, counts)
    batches = (counts + size - 1) // size  # [M]

    def member_step(carry, key, order, count, training, batch):
        params, optimizer_state, total_loss = carry
        chosen = lax.dynamic_slice(order, (batch * size,), (size,))
        live = batch * size + jnp.arange(size) < count
        loss, gradients = jax.value_and_grad(functools.partial(_loss, model))(
            params, inputs[chosen], labels[chosen], live, jax.random.fold_in(key, batch)
        )
        optimizer = _optimizer(config, config.epochs * ((count + size - 1) // size))
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an int power
            updates, new_state = optimizer.update(gradients, optimizer_state, params)
        total = total_loss + loss * jnp.sum(live, dtype=loss.dtype)
        new = optax.apply_updates(params, updates), new_state, total
        return _select(training & (batch * size < count), new, carry)

    def step(batch, carry):
        in_axes = (0, 0, 0, 0, 0, None)
        return jax.vmap(member_step, in_axes)(
            carry, epoch_keys, orders, counts, progress.training, batch
        )

    start = progress.params, progress.optimizer, jnp.zeros(len(rows), jnp.float32)
    params, optimizer, total = lax.fori_loop(0, jnp.max(batches), step, start)
    return params, optimizer, total / counts.astype(total.dtype)


def _validate(model, config, params, inputs, labels, rows):
    """Micro-F1 at 0.5 [M] on each member's validation rows, and whether all logits are finite."""
    members, documents = rows.shape
    size = min(config.predict_batch, documents)
    padding = -documents % size
    live = jnp.arange(documents + padding).reshape(-1, size) < documents  # [chunks, size]
    chunks = jnp.pad(rows, ((0, 0), (0, padding))).reshape(members, -1, size).swapaxes(0, 1)

    def member_counts(params, rows, live):
        logits = model.apply(params, inputs[rows])
        truth = labels[rows] > 0
        predicted, counted = logits > 0, live[:, None]
        hits = jnp.sum(predicted & truth & counted)
        total = jnp.sum(predicted & counted) + jnp.sum(truth & counted)
        return hits, total, jnp.all(jnp.isfinite(logits))

    def chunk_counts(_, chunk):
        return None, jax.vmap(member_counts, in_axes=(0, 0, None))(params, *chunk)

    _, (hits, totals, finite) = lax.scan(chunk_counts, None, (chunks, live))
    hits, totals = jnp.sum(hits, axis=0), jnp.sum(totals, axis=0)
    return 2 * hits / jnp.maximum(totals, 1), jnp.all(finite, axis=0)


def _record(config, progress: _Progress, params, optimizer, loss, f1, finite) -> _Progress:
    """Books one epoch: best parameters, failures, and who goes on."""
    good = progress.training & finite & jnp.isfinite(loss)
    improved = good & (f1 > progress.best_f1)
    best_epoch = jnp.where(improved, progress.epoch, progress.best_epoch)
    failed = progress.training & ~good
    column = functools.partial(lax.dynamic_update_index_in_dim, index=progress.epoch, axis=1)
    return _Progress(
        epoch=progress.epoch + 1,
        params=params,
        optimizer=optimizer,
        best_params=jax.vmap(_select)(improved, params, progress.best_params),
        best_f1=jnp.where(improved, f1, progress.best_f1),
        best_epoch=best_epoch,
        failed_epoch=jnp.where(failed, progress.epoch, progress.failed_epoch),
        training=good & (progress.epoch - best_epoch < config.patience),
        loss=column(progress.loss, jnp.where(progress.training, loss, jnp.nan)),
        validation_f1=column(progress.validation_f1, jnp.where(progress.training, f1, jnp.nan)),
    )


def _loss(model, params, inputs, labels, live, key):
    """Binary cross-entropy averaged over the live rows of a batch and all labels."""
    logits = model.apply(params, inputs, key)
    rows = jnp.mean(optax.sigmoid_binary_cross_entropy(logits, labels), axis=1)
    return jnp.sum(jnp.where(live, rows, 0)) / jnp.maximum(jnp.sum(live, dtype=rows.dtype), 1)


def _shuffled(batch_size: int, key, rows, count):
    """A random order of the live rows [C + batch_size]; padding last.

    Every row has its own random number, so the order does not depend on the capacity C.
    """
    places = jnp.arange(len(rows))
    # Batches take the keys folded with 0, 1, ...; the shuffle takes a key none of them has.
    shuffle_key = jax.random.fold_in(key, 2**31 - 1)
    draws = jax.vmap(lambda place: jax.random.bits(jax.random.fold_in(shuffle_key, place)))(places)
    _, _, order = lax.sort((places >= count, draws, rows), num_keys=2)
    return jnp.pad(order, (0, batch_size))


def _optimizer(config: EnsembleConfig, steps: jax.Array) -> optax.GradientTransformation:
    """AdamW; with ``warmup_linear``, rising then falling to zero over ``steps`` (traced)."""

    def rate(count: Any) -> jax.Array:
        done, last = count.astype(jnp.float32), steps.astype(jnp.float32)
        warmup = config.warmup_fraction * last
        rising = done / jnp.maximum(warmup, 1)
        falling = (last - done) / jnp.maximum(last - warmup, 1)
        return config.learning_rate * jnp.clip(jnp.minimum(rising, falling), 0, 1)

    constant = config.schedule == "constant"
    return optax.adamw(config.learning_rate if constant else rate, weight_decay=config.weight_decay)


def _select(chosen: jax.Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(chosen, a, b), new, old)


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
    results, waiting = [], None
    for start in range(0, len(inputs), batch_size):
        batch = np.asarray(inputs[start : start + batch_size])
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


def _check_failures(info: FitInfo, config: EnsembleConfig) -> None:
    failed = info.failed_epoch >= 0
    unusable = info.best_epoch < 0
    if failed.all() or unusable.any():
        named = np.flatnonzero(failed if failed.all() else unusable)
        places = ", ".join(f"member {m} in epoch {info.failed_epoch[m]}" for m in named)
        raise EnsembleError(
            f"the training loss became non-finite: {places}; "
            f"lower ensemble.learning_rate (now {config.learning_rate})"
        )
