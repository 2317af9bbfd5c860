"""The training of all members at once: epochs, batches, validation, early stopping.

One program makes everything ready, one trains for some epochs. How many is an argument of it, so
that it is compiled once; between two calls the host can say how far training is.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from crabjax.ensemble.optimizer import Trained, select, start_training
from crabjax.ensemble.step import Batch, Recipe, training_step, validation_counts
from crabjax.ensemble.word_rows import put_rows, renumber, take_rows
from crabjax.models import Params


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


class Fixed(NamedTuple):
    """What all epochs read besides the documents; None each for models without a word table.

    Attributes:
      table: the words' vectors before training [M, V, D].
      inputs: every member's training documents in its own words [M, C, T].
    """

    table: jax.Array | None
    inputs: jax.Array | None


class Training(NamedTuple):
    """What one epoch hands to the next, [M, ...] each; see :class:`FitInfo`.

    Attributes:
      trained: parameters and the state of their optimiser.
      best: parameters of the best epoch so far.
      best_f1: its validation micro-F1.
      best_epoch: its number.
      failed_epoch: -1 so far, or the epoch that failed.
      going: whether the member still trains.
      loss: [M, epochs].
      validation_f1: [M, epochs].
    """

    trained: Trained
    best: Trained
    best_f1: jax.Array
    best_epoch: jax.Array
    failed_epoch: jax.Array
    going: jax.Array
    loss: jax.Array
    validation_f1: jax.Array


@functools.partial(jax.jit, static_argnames="recipe", donate_argnames="params")
def start(recipe: Recipe, params: Params, data: TrainingData) -> tuple[Fixed, Training]:
    """Everything before the first epoch, from first parameters [M, ...]."""
    members, table = len(data.train_counts), recipe.model.table
    if table is None or data.words is None:
        fixed = Fixed(None, None)
    else:
        vocabulary = params[table].shape[1]
        own_numbers = lambda rows, words: renumber(data.inputs[rows], words, vocabulary)
        fixed = Fixed(params[table], jax.vmap(own_numbers)(data.train_rows, data.words))
        params = {**params, table: jax.vmap(take_rows)(params[table], data.words)}
    trained = start_training(recipe.config, params)
    by_epoch = jnp.full((members, recipe.config.epochs), jnp.nan, jnp.float32)
    none = jnp.full_like(data.train_counts, -1)
    return fixed, Training(
        trained=trained,
        best=trained._replace(state=None),
        best_f1=jnp.full(members, -1, jnp.float32),
        best_epoch=none,
        failed_epoch=none,
        going=jnp.ones(members, bool),
        loss=by_epoch,
        validation_f1=by_epoch,
    )


@functools.partial(jax.jit, static_argnames="recipe", donate_argnames="training")
def train(
    recipe: Recipe, fixed: Fixed, training: Training, data: TrainingData, first: Any, end: Any
) -> Training:
    """Trains from epoch ``first`` up to ``end``, or until all members have stopped.

    Members that have stopped are masked out until all have; see ``fit_ensemble``.
    """

    def run_epoch(carry: tuple[jax.Array, Training]) -> tuple[jax.Array, Training]:
        epoch, training = carry
        trained, loss = _train_epoch(recipe, epoch, training, data, fixed.inputs)
        compared = data.validation_rows.shape[1] > 0
        if compared:
            f1, finite = _validate(recipe, _whole(recipe, fixed, trained, data.words), data)
        else:
            f1, finite = jnp.zeros_like(loss), _finite(trained.params)
        booked = _record(recipe.config, epoch, training, trained, loss, f1, finite, compared)
        return epoch + 1, booked

    def unfinished(carry: tuple[jax.Array, Training]) -> jax.Array:
        epoch, training = carry
        return (epoch < end) & jnp.any(training.going)

    return lax.while_loop(unfinished, run_epoch, (jnp.asarray(first, jnp.int32), training))[1]


def trace_training(recipe: Recipe, params: Any, data: TrainingData) -> jax.stages.Traced:
    """The program of :func:`train` for the shapes of first parameters and data."""
    fixed, training = jax.eval_shape(functools.partial(start, recipe), params, data)
    epoch = jax.ShapeDtypeStruct((), jnp.int32)
    return train.trace(recipe, fixed, training, data, epoch, epoch)


@functools.partial(jax.jit, static_argnames="recipe")
def whole(recipe: Recipe, fixed: Fixed, training: Training, data: TrainingData) -> Params:
    """All parameters of the best epochs; only models with a word table train on part of them."""
    return _whole(recipe, fixed, training.best, data.words)


def _whole(recipe: Recipe, fixed: Fixed, trained: Trained, words: jax.Array | None) -> Params:
    table = recipe.model.table
    if table is None or words is None or fixed.table is None:
        return trained.params
    rows = jax.vmap(put_rows)(fixed.table, words, trained.params[table], trained.idle)
    return {**trained.params, table: rows}


def _train_epoch(recipe: Recipe, epoch, training: Training, data: TrainingData, inputs):
    """One pass over the live rows of every member: what was learnt, mean loss [M]."""
    size, counts = recipe.config.batch_size, data.train_counts
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(data.keys, epoch)
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
        trained, losses = training_step(recipe, trained, batch, counts, training.going)
        rows = jnp.sum(batch.live, axis=1, dtype=losses.dtype)
        return trained, total + jnp.where(training.going, losses * rows, 0)

    batches = jnp.max((counts + size - 1) // size)
    before = training.trained, jnp.zeros(len(counts), jnp.float32)
    trained, total = lax.fori_loop(0, batches, step, before)
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


def _record(config, epoch, before: Training, trained, loss, f1, finite, compared) -> Training:
    """Books one epoch: best parameters, failures, and who goes on."""
    good = before.going & finite & jnp.isfinite(loss)
    improved = good & (f1 > before.best_f1) if compared else good
    best_epoch = jnp.where(improved, epoch, before.best_epoch)
    column = functools.partial(lax.dynamic_update_index_in_dim, index=epoch, axis=1)
    return Training(
        trained=trained,
        best=jax.vmap(select)(improved, trained._replace(state=None), before.best),
        best_f1=jnp.where(improved, f1, before.best_f1),
        best_epoch=best_epoch,
        failed_epoch=jnp.where(before.going & ~good, epoch, before.failed_epoch),
        going=good & (epoch - best_epoch < config.patience),
        loss=column(before.loss, jnp.where(before.going, loss, jnp.nan)),
        validation_f1=column(before.validation_f1, jnp.where(before.going, f1, jnp.nan)),
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
