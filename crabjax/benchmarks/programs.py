"""The programs of a configuration as shapes alone: no data, no weights, nothing that runs.

A fit is a loop of training steps and validation batches inside a loop of epochs; compiling all of
a DistilBERT fit takes the compiler a quarter of an hour, so it is compiled by its parts, with one
layer and with two.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from crabjax.benchmarks.shapes import (
    TRAINING_WORDS,
    Sizes,
    axes_of,
    forward_flops,
    labelled_at_most,
    recipe_of,
    validation_documents,
)
from crabjax.config import Config
from crabjax.devices.chips import Chip
from crabjax.devices.program_memory import program_bytes
from crabjax.ensemble.optimizer import start_training
from crabjax.ensemble.plan import Device, FitShapes, plan_fit, recomputing
from crabjax.ensemble.predict import ensemble_logits, predicted_at_once
from crabjax.ensemble.step import Batch, Recipe, training_step, validation_counts
from crabjax.experiments.problem import documents_fitted
from crabjax.models import Model, Recomputed
from crabjax.pool.score import CHUNK_SIZE
from crabjax.scoring import BetaRule
from crabjax.scoring.elr import Kernel, _score_chunk


class Layout(NamedTuple):
    """How members go through a chip.

    Attributes:
      recipe: what is trained, with the model as its steps are compiled.
      trained: members at once.
      predicted: members at once.
      recomputed: by the backward pass; None for models without a choice.
      bytes: that a fit is planned to need.
    """

    recipe: Recipe
    trained: int
    predicted: int
    recomputed: Recomputed | None
    bytes: float


def lay_out(chip: Chip, config: Config, sizes: Sizes) -> Layout:
    """What a run would decide on such a chip, before anything is compiled."""
    recipe = recipe_of(config, sizes)
    row = lambda *shape: _shape(jnp.int32, sizes.members, *shape)
    rows = row(labelled_at_most(config)), row(), row(validation_documents(config))
    if recipe.model.table is not None:
        rows += (row(min(sizes.words, TRAINING_WORDS)),)
    documents = _documents(config, sizes)
    inputs = _shape(jnp.int32, documents, config.data.max_tokens)
    labels = _shape(jnp.float32, documents, sizes.labels)
    shapes = FitShapes(inputs, labels, _keys(1).dtype, rows)
    platform = _backend(chip)
    plan = plan_fit(recipe, config.devices, sizes.members, shapes, Device(platform, chip.memory))
    batch = _shape(jnp.int32, recipe.validation_batch, config.data.max_tokens)
    params = _params(sizes.members, recipe.model)
    predicted = predicted_at_once(recipe.model, params, batch, platform)
    if config.devices.members_at_once is not None:
        predicted = plan.at_once
    return Layout(plan.recipe, plan.at_once, predicted, plan.recomputed, plan.bytes)


def with_layers(config: Config, sizes: Sizes, layout: Layout, layers: int) -> tuple[Sizes, Layout]:
    """The same, as laid out for the whole encoder, with fewer layers of it."""
    sizes = dataclasses.replace(sizes, layers=layers)
    recipe = recomputing(recipe_of(config, sizes), layout.recomputed)
    return sizes, layout._replace(recipe=recipe)


class Program(NamedTuple):
    """Something to compile.

    Attributes:
      name: "step", "validation", "predict" or "score".
      function: under ``jax.jit``.
      arguments: as for a call, shapes in place of arrays.
      flops: of the plain padded computation, counted by hand; 0 where matrix products are not
        what takes the time.
      members: in one run.
      items: in one run: documents that each of them reads, or evaluations of H.
      axes: sizes by name; see ``devices.compile_for``.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    flops: float
    members: int
    items: int
    axes: dict[str, int]


def programs(config: Config, sizes: Sizes, layout: Layout) -> dict[str, Program]:
    """By name: a training step, a validation batch, prediction of a batch, scores of a chunk."""
    made = [_step(config, sizes, layout)]
    if validation_documents(config):
        made.append(_validation(config, sizes, layout))
    made += [_predict(config, sizes, layout), _score(config, sizes)]
    return {one.name: one for one in made}


def _step(config: Config, sizes: Sizes, layout: Layout) -> Program:
    recipe, members, batch = layout.recipe, layout.trained, config.ensemble.batch_size
    params = _params(members, recipe.model)
    if recipe.model.table is not None:  # only words of training documents are trained
        table = params[recipe.model.table]
        own = _shape(table.dtype, members, min(sizes.words, TRAINING_WORDS), table.shape[2])
        params = {**params, recipe.model.table: own}
    arguments = (
        recipe,
        jax.eval_shape(functools.partial(start_training, config.ensemble), params),
        Batch(
            _shape(jnp.int32, members, batch, config.data.max_tokens),
            _shape(jnp.float32, members, batch, sizes.labels),
            _shape(jnp.bool_, members, batch),
            _keys(members),
        ),
        _shape(jnp.int32, members),
        _shape(jnp.bool_, members),
    )
    # The backward pass takes a product for the inputs and one for the weights of each forward.
    flops = 3 * forward_flops(config, sizes, members, batch)
    axes = axes_of(config, sizes, members, batch)
    return Program("step", _training_step, arguments, flops, members, batch, axes)


def _validation(config: Config, sizes: Sizes, layout: Layout) -> Program:
    members, batch = layout.trained, _validation_batch(config, layout)
    arguments = (
        layout.recipe.model,
        _params(members, layout.recipe.model),
        _shape(jnp.int32, members, batch, config.data.max_tokens),
        _shape(jnp.float32, members, batch, sizes.labels),
        _shape(jnp.bool_, batch),
    )
    return _forward("validation", _validation_counts, arguments, config, sizes, members, batch)


def _predict(config: Config, sizes: Sizes, layout: Layout) -> Program:
    model, members, batch = layout.recipe.model, layout.predicted, layout.recipe.validation_batch
    documents = _shape(jnp.int32, batch, config.data.max_tokens)
    arguments = model, _params(members, model), documents
    return _forward("predict", ensemble_logits, arguments, config, sizes, members, batch)


def _forward(name: str, function, arguments, config, sizes, members: int, batch: int) -> Program:
    flops = forward_flops(config, sizes, members, batch)
    axes = axes_of(config, sizes, members, batch)
    return Program(name, function, arguments, flops, members, batch, axes)


def _score(config: Config, sizes: Sizes) -> Program:
    members, labels = config.ensemble.members, sizes.labels
    rows_are_not_read = config.strategy.cluster == "features"
    most = math.ceil(config.strategy.anchor_fraction * sizes.documents)
    anchors = min(most, config.strategy.anchor_limit or most)
    arguments = (
        _shape(jnp.float32, members, CHUNK_SIZE, labels),
        _shape(jnp.float32, members, anchors, labels),
        _shape(jnp.float32, labels),
        Kernel(BetaRule(config.strategy.alpha, config.strategy.beta), total=rows_are_not_read),
    )
    axes = {"members": members, "candidates": CHUNK_SIZE, "anchors": anchors, "labels": labels}
    evaluations = 2 * CHUNK_SIZE * anchors * labels
    return Program("score", _score_chunk, arguments, 0.0, members, evaluations, axes)


_training_step = jax.jit(training_step, static_argnames="recipe", donate_argnames="trained")
_validation_counts = jax.jit(validation_counts, static_argnames="model")


def _validation_batch(config: Config, layout: Layout) -> int:
    """Validation documents of a member that are predicted at once."""
    return min(layout.recipe.validation_batch, validation_documents(config))


def planned_bytes(program: Program, chip: Chip) -> int:
    """What the plan of a run takes a program to need, before it is compiled."""
    return program_bytes(program.function.trace(*program.arguments), _backend(chip))  # type: ignore[attr-defined]


def _backend(chip: Chip) -> str:
    """As ``jax.default_backend`` would call it."""
    return {"cuda": "gpu"}.get(chip.platform, chip.platform)


def steps_of(config: Config, layout: Layout) -> tuple[int, int, int]:
    """How a fit adds up: its most epochs, and the most steps and validation batches in each."""
    steps = -(-labelled_at_most(config) // config.ensemble.batch_size)
    batches = -(-validation_documents(config) // max(_validation_batch(config, layout), 1))
    return config.ensemble.epochs, steps, batches


def bytes_between_steps(config: Config, sizes: Sizes, layout: Layout) -> int:
    """What a fit keeps beside a step's own memory: best parameters, documents and labels."""
    documents = 4 * _documents(config, sizes) * (config.data.max_tokens + sizes.labels)
    return documents + parameter_bytes(layout)


def parameter_bytes(layout: Layout) -> int:
    """All parameters of the members trained at once."""
    params = jax.tree.leaves(_params(layout.trained, layout.recipe.model))
    return sum(math.prod(one.shape) * one.dtype.itemsize for one in params)


def _documents(config: Config, sizes: Sizes) -> int:
    """Those that a fit of all seeds holds on the chip."""
    labelled, validation = labelled_at_most(config), validation_documents(config)
    return documents_fitted(config, sizes.documents, labelled, validation)


def _params(members: int, model: Model) -> Any:
    return jax.eval_shape(jax.vmap(model.init), _keys(members))


def _keys(members: int) -> Any:
    return jax.ShapeDtypeStruct((members,), jax.eval_shape(lambda: jax.random.key(0)).dtype)


def _shape(dtype: Any, *sizes: int) -> Any:
    return jax.ShapeDtypeStruct(sizes, dtype)
