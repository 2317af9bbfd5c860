"""The training of all members as one program: epochs, batches, validation, early stopping."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from crabjax.config import EnsembleConfig
from crabjax.ensemble.optimizer import Trained, learn, select, start_training
from crabjax.ensemble.word_rows import own_numbers, with_all_words, with_training_words
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
      words: int32 [M, W] of ``word_rows.training_words``; None for models without a word table.
    """

    inputs: jax.Array
    labels: jax.Array
    keys: jax.Array
    train_rows: jax.Array
    train_counts: jax.Array
    validation_rows: jax.Array
    words: jax.Array | None = None


class Batch(NamedTuple):
    """What a training step reads.

    Attributes:
      inputs: [M, B, ...]; word ids count the member's own training words.
      labels: float32 [M, B, K].
      live: bool [M, B], false for rows that fill up the last batch of an epoch.
      keys: [M], of dropout.
    """

    inputs: jax.Array
    labels: jax.Array
    live: jax.Array
    keys: jax.Array


class _Progress(NamedTuple):
    """What one epoch hands to the next; every array but ``epoch`` has a leading axis M."""

    epoch: jax.Array
    trained: Trained
    best: Trained
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
    config, members = recipe.config, len(data.train_counts)
    table = None if data.words is None else recipe.model.table
    trained = start_training(config, with_training_words(table, params, data.words))
    inputs = own_numbers(table, params, data.inputs, data.train_rows, data.words)
    whole = lambda now: with_all_words(table, params, data.words, now.params, now.idle)
    by_epoch = jnp.full((members, config.epochs), jnp.nan, jnp.float32)
    none = jnp.full_like(data.train_counts, -1)
    progress = _Progress(
        epoch=jnp.int32(0),
        trained=trained,
        best=trained._replace(state=None),
        best_f1=jnp.full(members, -1, jnp.float32),
        best_epoch=none,
        failed_epoch=none,
        training=jnp.ones(members, bool),
        loss=by_epoch,
        validation_f1=by_epoch,
    )

    def run_epoch(progress: _Progress) -> _Progress:
        trained, loss = _train_epoch(recipe, progress, data, inputs)
        compared = data.validation_rows.shape[1] > 0
        if compared:
            f1, finite = _validate(recipe, whole(trained), data)
        else:
            f1, finite = jnp.zeros_like(loss), _finite(trained.params)
        return _record(config, progress, trained, loss, f1, finite, compared)

    def unfinished(progress: _Progress) -> jax.Array:
        return (progress.epoch < config.epochs) & jnp.any(progress.training)

    progress = lax.while_loop(unfinished, run_epoch, progress)
    ran = jnp.sum(~jnp.isnan(progress.validation_f1), axis=1, dtype=jnp.int32)
    info = FitInfo(
        progress.loss, progress.validation_f1, progress.best_epoch, ran, progress.failed_epoch
    )
    return whole(progress.best), info


def training_step(
    recipe: Recipe, trained: Trained, batch: Batch, counts: jax.Array, training: jax.Array
) -> tuple[Trained, jax.Array]:
    """One step of all members: gradients of the batch, then AdamW.

    Args:
      recipe: what is trained, and how.
      trained: before the step.
      batch: a batch of each member.
      counts: int32 [M], training documents of each member.
      training: bool [M]; the others, and members whose batch has no live row, stay as they are.

    Returns:
      What was learnt, and the loss [M] before the step.
    """
    gradients = jax.vmap(jax.value_and_grad(functools.partial(_loss, recipe.model)))
    losses, found = gradients(trained.params, batch)
    going = training & jnp.any(batch.live, axis=1)
    return learn(recipe.config, trained, found, counts, going), losses


def validation_counts(
    model: Model, params: Params, inputs: jax.Array, labels: jax.Array, live: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """What micro-F1 at 0.5 is made of, for a batch of each member.

    Args:
      model: the classifier.
      params: all parameters, [M, ...].
      inputs: [M, B, ...].
      labels: float32 [M, B, K].
      live: bool [B]; other rows do not count.

    Returns:
      Labels that are predicted and true [M], labels predicted plus labels true [M], whether all
      logits are finite [M].
    """
    logits = jax.vmap(model.apply)(params, inputs)  # [M, B, K]
    counted = live[None, :, None]
    predicted, truth = (logits > 0) & counted, (labels > 0) & counted
    axes = (1, 2)
    total = jnp.sum(predicted, axis=axes) + jnp.sum(truth, axis=axes)
    return jnp.sum(predicted & truth, axis=axes), total, jnp.all(jnp.isfinite(logits), axis=axes)


def _train_epoch(recipe: Recipe, progress: _Progress, data: TrainingData, inputs):
    """One pass over the live rows of every member: what was learnt, mean loss [M]."""
    size, counts = recipe.config.batch_size, data.train_counts
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(data.keys, progress.epoch)
    shuffled = functools.partial(_shuffled, size, data.train_rows.shape[1])
    orders = jax.vmap(shuffled)(keys, counts)  # [M, C + B]

    def batch_of(inputs, rows, count, key, order, index) -> Batch:
        chosen = lax.dynamic_slice_in_dim(order, index * size, size)
        live = index * size + jnp.arange(size) < count
        documents = data.inputs[rows[chosen]] if inputs is None else inputs[chosen]
        return Batch(documents, data.labels[rows[chosen]], live, jax.random.fold_in(key, index))

    def step(index, carry):
        trained, total = carry
        of_members = jax.vmap(batch_of, in_axes=(0, 0, 0, 0, 0, None))
        batch = of_members(inputs, data.train_rows, counts, keys, orders, index)
        trained, losses = training_step(recipe, trained, batch, counts, progress.training)
        rows = jnp.sum(batch.live, axis=1, dtype=losses.dtype)
        return trained, total + jnp.where(progress.training & (rows > 0), losses * rows, 0)

    batches = jnp.max((counts + size - 1) // size)
    start = progress.trained, jnp.zeros(len(counts), jnp.float32)
    trained, total = lax.fori_loop(0, batches, step, start)
    return trained, total / counts.astype(total.dtype)


def _validate(recipe: Recipe, params, data: TrainingData):
    """Micro-F1 at 0.5 [M] on each member's validation rows, and whether all logits are finite."""
    members, documents = data.validation_rows.shape
    size = min(recipe.validation_batch, documents)
    padding = -documents % size
    live = jnp.arange(documents + padding).reshape(-1, size) < documents  # [chunks, size]
    chunks = jnp.pad(data.validation_rows, ((0, 0), (0, padding))).reshape(members, -1, size)

    def count_chunk(chunk):
        rows, live = chunk
        return validation_counts(recipe.model, params, data.inputs[rows], data.labels[rows], live)

    hits, totals, finite = lax.map(count_chunk, (jnp.swapaxes(chunks, 0, 1), live))
    hits, totals = jnp.sum(hits, axis=0), jnp.sum(totals, axis=0)
    return 2 * hits / jnp.maximum(totals, 1), jnp.all(finite, axis=0)


def _finite(params: Params) -> jax.Array:
    """Whether all parameters [M, ...] of a member are finite, [M]."""
    leaves = [jnp.isfinite(leaf) for leaf in jax.tree.leaves(params)]
    return jnp.stack([leaf.reshape(len(leaf), -1).all(axis=1) for leaf in leaves]).all(axis=0)


def _record(config, progress: _Progress, trained: Trained, loss, f1, finite, compared) -> _Progress:
    """Books one epoch: best parameters, failures, and who goes on."""
    good = progress.training & finite & jnp.isfinite(loss)
    improved = good & (f1 > progress.best_f1) if compared else good
    best_epoch = jnp.where(improved, progress.epoch, progress.best_epoch)
    failed = progress.training & ~good
    column = functools.partial(lax.dynamic_update_index_in_dim, index=progress.epoch, axis=1)
    return _Progress(
        epoch=progress.epoch + 1,
        trained=trained,
        best=jax.vmap(select)(improved, trained._replace(state=None), progress.best),
        best_f1=jnp.where(improved, f1, progress.best_f1),
        best_epoch=best_epoch,
        failed_epoch=jnp.where(failed, progress.epoch, progress.failed_epoch),
        training=good & (progress.epoch - best_epoch < config.patience),
        loss=column(progress.loss, jnp.where(progress.training, loss, jnp.nan)),
        validation_f1=column(progress.validation_f1, jnp.where(progress.training, f1, jnp.nan)),
    )


def _loss(model: Model, params: Params, batch: Batch):
    """Binary cross-entropy of one member, averaged over the live rows of a batch and all labels."""
    logits = model.apply(params, batch.inputs, batch.keys)
    rows = jnp.mean(optax.sigmoid_binary_cross_entropy(logits, batch.labels), axis=1)
    return jnp.sum(jnp.where(batch.live, rows, 0)) / jnp.maximum(
        jnp.sum(batch.live, dtype=rows.dtype), 1
    )


def _shuffled(batch_size: int, capacity: int, key, count):
    """A random order of the live rows' places [C + batch_size]; padding last.

    Every row has its own random number, so the order does not depend on the capacity C.
    """
    places = jnp.arange(capacity)
    # Batches take the keys folded with 0, 1, ...; the shuffle takes a key none of them has.
    shuffle_key = jax.random.fold_in(key, 2**31 - 1)
    draws = jax.vmap(lambda place: jax.random.bits(jax.random.fold_in(shuffle_key, place)))(places)
    _, _, order = lax.sort((places >= count, draws, places), num_keys=2)
    return jnp.pad(order, (0, batch_size))
