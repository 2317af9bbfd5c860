"""The training of all members as one program: epochs, batches, validation, early stopping."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from crabjax.config import EnsembleConfig
from crabjax.ensemble.optimizer import (
    Trained,
    all_params,
    learn,
    select,
    shrink_idle_words,
    start_training,
)
from crabjax.ensemble.word_rows import WordOrder, order_words
from crabjax.models import Model, Params


class FitInfo(NamedTuple):
    """What happened in training; epochs count from 0.

    Attributes:
      loss: mean training loss [M, epochs], NaN after a member stopped.
      validation_f1: validation micro-F1 [M, epochs], NaN after a member stopped; 0 without
        validation documents.
      best_epoch: epoch [M] whose parameters were kept: the first with the highest F1, or the last
        one without validation documents.
      epochs_run: number of epochs [M] until the member stopped.
      failed_epoch: epoch [M] in which the loss was not finite, -1 where it always was.
    """

    loss: Any
    validation_f1: Any
    best_epoch: Any
    epochs_run: Any
    failed_epoch: Any


class Recipe(NamedTuple):
    """What is trained, and how: all that a compiled training program depends on but shapes.

    Attributes:
      model: the classifier.
      config: batches, epochs, patience, optimiser.
      validation_batch: validation documents predicted at once.
    """

    model: Model
    config: EnsembleConfig
    validation_batch: int


class TrainingData(NamedTuple):
    """Documents, and what each member makes of them.

    Attributes:
      inputs: [N, ...].
      labels: float32 [N, K].
      keys: [M], of batch order and dropout.
      train_rows: int32 [M, C].
      train_counts: int32 [M], the live part of ``train_rows``.
      validation_rows: int32 [M, V]; with V = 0 epochs are not compared.
    """

    inputs: jax.Array
    labels: jax.Array
    keys: jax.Array
    train_rows: jax.Array
    train_counts: jax.Array
    validation_rows: jax.Array


class _Progress(NamedTuple):
    """What one epoch hands to the next; every array but ``epoch`` has a leading axis M."""

    epoch: jax.Array
    trained: Trained
    best_params: Params
    best_f1: jax.Array
    best_epoch: jax.Array
    failed_epoch: jax.Array
    training: jax.Array
    loss: jax.Array
    validation_f1: jax.Array


@functools.partial(jax.jit, static_argnames="recipe", donate_argnames="params")
def train(recipe: Recipe, params: Params, data: TrainingData) -> tuple[Params, FitInfo]:
    """Trains from given parameters [M, ...]; returns those of the best epochs.

    Members that have stopped are masked out until all have; see ``fit_ensemble``.
    """
    model, config, _ = recipe
    members = len(data.train_counts)
    words = _order_words(model, params, data)
    trained = start_training(model, config, params, words)
    by_epoch = jnp.full((members, config.epochs), jnp.nan, jnp.float32)
    none = jnp.full_like(data.train_counts, -1)
    progress = _Progress(
        epoch=jnp.int32(0),
        trained=trained,
        best_params=all_params(model, trained),
        best_f1=jnp.full(members, -1, jnp.float32),
        best_epoch=none,
        failed_epoch=none,
        training=jnp.ones(members, bool),
        loss=by_epoch,
        validation_f1=by_epoch,
    )

    def run_epoch(progress: _Progress) -> _Progress:
        trained, loss = _train_epoch(model, config, progress, data, words)
        f1, finite = _validate(recipe, all_params(model, trained), data, words)
        compared = data.validation_rows.shape[1] > 0
        return _record(model, config, progress, trained, loss, f1, finite, compared)

    def unfinished(progress: _Progress) -> jax.Array:
        return (progress.epoch < config.epochs) & jnp.any(progress.training)

    progress = lax.while_loop(unfinished, run_epoch, progress)
    ran = jnp.sum(~jnp.isnan(progress.validation_f1), axis=1, dtype=jnp.int32)
    info = FitInfo(
        progress.loss, progress.validation_f1, progress.best_epoch, ran, progress.failed_epoch
    )
    return _in_first_order(model, progress.best_params, words), info


def _train_epoch(model, config, progress: _Progress, data: TrainingData, words):
    """One pass over the live rows of every member: what was learnt, mean loss [M]."""
    size, counts = config.batch_size, data.train_counts
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(data.keys, progress.epoch)
    orders = jax.vmap(functools.partial(_shuffled, size))(keys, data.train_rows, counts)

    def gradients(params, words, key, order, count, batch):
        chosen = lax.dynamic_slice_in_dim(order, batch * size, size)
        live = batch * size + jnp.arange(size) < count
        documents = _documents(data, words, chosen)
        return jax.value_and_grad(functools.partial(_loss, model))(
            params, documents, data.labels[chosen], live, jax.random.fold_in(key, batch)
        )

    def step(batch, carry):
        trained, total = carry
        rows = jnp.clip(counts - batch * size, 0, size)  # [M], live rows of this batch
        batched = jax.vmap(gradients, in_axes=(0, _per_member(words), 0, 0, 0, None))
        losses, found = batched(all_params(model, trained), words, keys, orders, counts, batch)
        going = progress.training & (rows > 0)
        trained = learn(model, config, trained, found, counts, going, words)
        return trained, total + jnp.where(going, losses * rows.astype(losses.dtype), 0)

    batches = jnp.max((counts + size - 1) // size)
    start = progress.trained, jnp.zeros(len(counts), jnp.float32)
    trained, total = lax.fori_loop(0, batches, step, start)
    return shrink_idle_words(trained, words), total / counts.astype(total.dtype)


def _validate(recipe: Recipe, params, data: TrainingData, words):
    """Micro-F1 at 0.5 [M] on each member's validation rows, and whether all logits are finite."""
    model, members, documents = recipe.model, *data.validation_rows.shape
    if documents == 0:  # equal F1 throughout: the last epoch is kept
        finite = [
            jnp.isfinite(leaf).reshape(members, -1).all(axis=1) for leaf in jax.tree.leaves(params)
        ]
        return jnp.zeros(members, jnp.float32), jnp.stack(finite).all(axis=0)
    size = documents if model.streaming else min(recipe.validation_batch, documents)
    padding = -documents % size
    live = jnp.arange(documents + padding).reshape(-1, size) < documents  # [chunks, size]
    chunks = jnp.pad(data.validation_rows, ((0, 0), (0, padding))).reshape(members, -1, size)

    def count(params, words, rows, live):
        logits = model.apply(params, _documents(data, words, rows))
        truth, predicted, counted = data.labels[rows] > 0, logits > 0, live[:, None]
        hits = jnp.sum(predicted & truth & counted)
        total = jnp.sum(predicted & counted) + jnp.sum(truth & counted)
        return hits, total, jnp.all(jnp.isfinite(logits))

    def count_chunk(chunk):
        return jax.vmap(count, in_axes=(0, _per_member(words), 0, None))(params, words, *chunk)

    hits, totals, finite = lax.map(count_chunk, (jnp.swapaxes(chunks, 0, 1), live))
    hits, totals = jnp.sum(hits, axis=0), jnp.sum(totals, axis=0)
    return 2 * hits / jnp.maximum(totals, 1), jnp.all(finite, axis=0)


def _record(model, config, progress: _Progress, trained, loss, f1, finite, compared) -> _Progress:
    """Books one epoch: best parameters, failures, and who goes on."""
    good = progress.training & finite & jnp.isfinite(loss)
    improved = good & (f1 > progress.best_f1) if compared else good
    best_epoch = jnp.where(improved, progress.epoch, progress.best_epoch)
    failed = progress.training & ~good
    column = functools.partial(lax.dynamic_update_index_in_dim, index=progress.epoch, axis=1)
    params = all_params(model, trained)
    return _Progress(
        epoch=progress.epoch + 1,
        trained=trained,
        best_params=jax.vmap(select)(improved, params, progress.best_params),
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


def _order_words(model, params, data: TrainingData) -> WordOrder | None:
    if model.table is None:
        return None
    vocabulary = params[model.table].shape[1]
    return order_words(data.inputs, data.train_rows, data.train_counts, vocabulary)


def _in_first_order(model, params: Params, words) -> Params:
    if words is None:
        return params
    table = jax.vmap(lambda table, numbers: table[numbers])(params[model.table], words.numbers)
    return {**params, model.table: table}


def _documents(data: TrainingData, words, rows):
    inputs = data.inputs[rows]
    return inputs if words is None else words.numbers[inputs]


def _per_member(words):
    return None if words is None else WordOrder(0, None)  # type: ignore[arg-type]
