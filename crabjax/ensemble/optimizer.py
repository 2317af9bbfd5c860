"""AdamW for all members at once, and what it makes of parameters that never have a gradient."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

from crabjax.config import EnsembleConfig
from crabjax.models import Params


class Trained(NamedTuple):
    """What a step changes, [M, ...] each.

    Attributes:
      params: all parameters; of a word table, the rows [M, W, D] of words in training documents.
      idle: [M], what 1 in a row without gradient has become.
      state: their optimiser state.
    """

    params: Params
    idle: jax.Array
    state: Any


def start_training(config: EnsembleConfig, params: Params) -> Trained:
    """Parameters [M, ...] before the first step."""
    idle = jnp.ones(len(jax.tree.leaves(params)[0]), jnp.float32)
    return Trained(params, idle, jax.vmap(_adamw(config, jnp.int32(1)).init)((params, idle)))


def learn(
    config: EnsembleConfig, trained: Trained, gradients: Params, counts: jax.Array, going: jax.Array
) -> Trained:
    """One step of the members that are ``going`` bool [M].

    Args:
      config: of the optimiser.
      trained: before the step.
      gradients: of the parameters.
      counts: int32 [M], training documents; with the epochs they make the steps of a schedule.
      going: the others are left as they are.
    """

    def member(old: Trained, gradients, count, going):
        batches = (count + config.batch_size - 1) // config.batch_size
        whole = old.params, old.idle
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer power
            adamw = _adamw(config, config.epochs * batches)
            updates, state = adamw.update((gradients, jnp.zeros_like(old.idle)), old.state, whole)
        params, idle = cast(tuple[Params, jax.Array], optax.apply_updates(whole, updates))
        return select(going, Trained(params, idle, state), old)

    return jax.vmap(member)(trained, gradients, counts, going)


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
