"""AdamW for all members at once; of a word table, only on the rows that training can change."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from crabjax.config import EnsembleConfig
from crabjax.ensemble.word_rows import WordOrder, renumbered, scale_other_rows, update_rows
from crabjax.models import Model, Params


class WordTable(NamedTuple):
    """The word table of every member, and what shrinks the rows that no step visits.

    Attributes:
      rows: [M, V, D] in the order of training.
      state: their optimiser state.
      idle: [M], what 1 in a row without gradient has become in this epoch.
      idle_state: its optimiser state.
    """

    rows: jax.Array
    state: Any
    idle: jax.Array
    idle_state: Any


class Trained(NamedTuple):
    """What a step changes, [M, ...] each.

    Attributes:
      params: all parameters but the word table.
      state: their optimiser state.
      table: None for models without one.
    """

    params: Params
    state: Any
    table: WordTable | None


def start_training(
    model: Model, config: EnsembleConfig, params: Params, words: WordOrder | None
) -> Trained:
    """Parameters [M, ...] before the first step; ``words`` is None for models without a table."""
    init = jax.vmap(_adamw(config, jnp.int32(1)).init)
    if words is None or model.table is None:
        return Trained(params, init(params), None)
    rows = jax.vmap(renumbered)(params[model.table], words.numbers)
    idle = jnp.ones(len(rows), rows.dtype)
    others = _others(model, params)
    return Trained(others, init(others), WordTable(rows, init(rows), idle, init(idle)))


def learn(
    model: Model,
    config: EnsembleConfig,
    trained: Trained,
    gradients: Params,
    counts: jax.Array,
    going: jax.Array,
    words: WordOrder | None,
) -> Trained:
    """One step of the members that are ``going`` bool [M].

    Args:
      model: says which parameter is the word table.
      config: of the optimiser.
      trained: before the step.
      gradients: of all parameters, the word table's in the order of training.
      counts: int32 [M], training documents; with the epochs they make the steps of a schedule.
      going: the others are left as they are.
      words: the order of training.
    """

    def member(count, going, whole, gradients):
        batches = (count + config.batch_size - 1) // config.batch_size
        params, state = whole
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer power
            adamw = _adamw(config, config.epochs * batches)
            updates, state = adamw.update(gradients, state, params)
        return select(going, (optax.apply_updates(params, updates), state), whole)

    def update(whole, gradients):
        return jax.vmap(member)(counts, going, whole, gradients)

    params, state = update((trained.params, trained.state), _others(model, gradients))
    table = trained.table
    if words is not None and model.table is not None and table is not None:
        table = _update_table(update, table, gradients[model.table], words)
    return Trained(params, state, table)


def _update_table(
    update: Callable[..., Any], table: WordTable, gradient: jax.Array, words: WordOrder
) -> WordTable:
    rows = update_rows(update, (table.rows, table.state), gradient, words.tiles)
    return WordTable(*rows, *update((table.idle, table.idle_state), jnp.zeros_like(table.idle)))


def shrink_idle_words(trained: Trained, words: WordOrder | None) -> Trained:
    """Applies the epoch's weight decay to words that are in no training document."""
    if words is None or trained.table is None:
        return trained
    rows, _, idle, _ = trained.table
    rows = jax.vmap(scale_other_rows, in_axes=(0, None, 0))(rows, words.tiles, idle)
    return trained._replace(table=trained.table._replace(rows=rows, idle=jnp.ones_like(idle)))


def all_params(model: Model, trained: Trained) -> Params:
    """All parameters, the word table in the order of training."""
    if trained.table is None or model.table is None:
        return trained.params
    return {**trained.params, model.table: trained.table.rows}


def select(chosen: jax.Array, new: Any, old: Any) -> Any:
    """One tree or the other, by a bool scalar."""
    return jax.tree.map(lambda a, b: jnp.where(chosen, a, b), new, old)


def learning_rate(config: EnsembleConfig, step: jax.Array, steps: jax.Array) -> jax.Array:
    """``warmup_linear``: rises over the first steps, then falls to zero at the last.

    Args:
      config: the highest rate, and the fraction of the steps in which it rises to it.
      step: from 0.
      steps: of the whole training.
    """
    done, last = step.astype(jnp.float32), steps.astype(jnp.float32)
    warmup = config.warmup_fraction * last
    rising = done / jnp.maximum(warmup, 1)
    falling = (last - done) / jnp.maximum(last - warmup, 1)
    return config.learning_rate * jnp.where(done < warmup, rising, jnp.clip(falling, 0, 1))


def _adamw(config: EnsembleConfig, steps: jax.Array) -> optax.GradientTransformation:
    rate: Any = config.learning_rate
    if config.schedule == "warmup_linear":
        rate = lambda step: learning_rate(config, step, steps)
    return optax.adamw(rate, weight_decay=config.weight_decay)


def _others(model: Model, tree: Params) -> Params:
    return {name: leaf for name, leaf in tree.items() if name != model.table}
