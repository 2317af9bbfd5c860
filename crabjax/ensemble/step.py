"""One training step, and one batch of validation, of all members at once."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from crabjax.config import EnsembleConfig
from crabjax.ensemble.optimizer import Trained, learn
from crabjax.models import Model, Params


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


def _loss(model: Model, params: Params, batch: Batch):
    """Binary cross-entropy of one member, averaged over the live rows of a batch and all labels."""
    logits = model.apply(params, batch.inputs, batch.keys)
    rows = jnp.mean(optax.sigmoid_binary_cross_entropy(logits, batch.labels), axis=1)
    return jnp.sum(jnp.where(batch.live, rows, 0)) / jnp.maximum(
        jnp.sum(batch.live, dtype=rows.dtype), 1
    )
