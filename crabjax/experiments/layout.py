"""How a run would be laid out on the devices that are here, found without training anything."""

from typing import Any, NamedTuple

import jax
import numpy as np

from crabjax.config import Config
from crabjax.devices.batches import LARGEST_BATCH, batches_at_once, usable_cores
from crabjax.devices.memory import memory_limit
from crabjax.devices.mesh import ENSEMBLE, use_devices
from crabjax.devices.program_memory import program_bytes
from crabjax.ensemble.fit import groups_at_once, on_cores
from crabjax.ensemble.plan import Device, FitShapes, members_a_core, plan_fit
from crabjax.ensemble.predict import ensemble_logits
from crabjax.ensemble.step import Recipe
from crabjax.ensemble.word_rows import SMALLEST
from crabjax.experiments.problem import documents_fitted, documents_read, schedule
from crabjax.experiments.seen import samples
from crabjax.inputs import classifier, has_names, load_dataset
from crabjax.models import Model
from crabjax.models.pretrained import read_architecture
from crabjax.models.pretrained_files import find_pretrained


class Program(NamedTuple):
    """A program that a run compiles.

    Attributes:
      at_once: members or documents in one call.
      calls: calls that run side by side on a device.
      bytes: its arguments, results and temporaries, an estimate; of all calls together.
    """

    at_once: int
    calls: int
    bytes: float


class Sizes(NamedTuple):
    """The shapes of a run's arrays: what a Problem has, without the work of making it."""

    model: Model
    inputs: jax.ShapeDtypeStruct  # [N, ...]
    labels: int
    fitted: int  # documents that one fit reads
    test_documents: int
    validation: int  # documents the epochs are compared on
    rounds: int
    capacity: int  # documents labelled in the end
    vocabulary: int
    grows: bool  # whether the table of words outgrows its smallest size
    sampled: bool  # whether queries look at only a part of U: seeds are predicted apart then


class Layout(NamedTuple):
    """What is shared out, and the programs that do it."""

    sizes: Sizes
    devices: int
    ensemble: int  # devices that members are shared out over
    pool: int  # devices that documents are shared out over
    train: Program
    predict: Program
    reason: str  # for how many members train at once


def layout(config: Config) -> Layout:
    """Loads the data of a config and works out what a run would do with them.

    Raises:
      ConfigError: when there are fewer devices than the config asks for.
      DataError, PretrainedNotFoundError: when data or encoder are not there.
    """
    models = len(config.loop.seeds) * config.ensemble.members
    sizes = _sizes(config)
    with use_devices(config.devices, models) as mesh:
        ensemble, pool = (1, 1) if mesh is None else tuple(mesh.shape.values())
        train, reason = _training(config, sizes, mesh, models)
        at_once = config.ensemble.members if sizes.sampled else models
        predict = _prediction(config, sizes, -(-at_once // ensemble))
    return Layout(sizes, jax.device_count(), ensemble, pool, train, predict, reason)


def _sizes(config: Config) -> Sizes:
    data = load_dataset(config)
    tokens = documents_read(data, config).tokens
    (documents, width), kind = tokens.shape, tokens.dtype
    # Encoding the documents would take minutes.
    if config.model.name == "frozen" and config.data.vectors is None:
        width = read_architecture(find_pretrained(config.model.pretrained)).width + config.model.lsa
        kind = np.dtype(np.float32)
    labels = len(data.label_names)
    named = has_names(config, labels)
    width += labels * named
    inputs = jax.ShapeDtypeStruct((documents, width), kind)
    plan = schedule(data, config)
    validation = plan.validation_rows.shape[1]
    sizes = data.vocabulary_size, labels, named
    model = classifier(config, inputs, *sizes)  # type: ignore[arg-type]
    return Sizes(
        model=model,
        inputs=inputs,
        labels=labels,
        fitted=documents_fitted(config, documents, plan.capacity, validation),
        test_documents=len(data.test.tokens),
        validation=validation,
        rounds=plan.rounds,
        capacity=plan.capacity,
        vocabulary=data.vocabulary_size,
        grows=model.table is not None and data.vocabulary_size > SMALLEST,
        sampled=samples(config, plan),
    )


def _training(config: Config, sizes: Sizes, mesh: Any, models: int) -> tuple[Program, str]:
    """The one place that knows how :mod:`crabjax.ensemble.fit` asks for a plan; with its reason."""
    recipe = Recipe(sizes.model, config.ensemble, config.devices.predict_batch or LARGEST_BATCH)
    row = lambda *shape: jax.ShapeDtypeStruct((models, *shape), np.int32)
    rows = (row(sizes.capacity), row(), row(sizes.validation))
    if sizes.model.table is not None:  # at most so many words occur in the labelled documents
        rows += (row(min(sizes.vocabulary, sizes.capacity * sizes.inputs.shape[1])),)
    key = jax.eval_shape(lambda: jax.random.key(0)).dtype
    most = models if mesh is None else -(-models // mesh.shape[ENSEMBLE])
    inputs = jax.ShapeDtypeStruct((sizes.fitted, *sizes.inputs.shape[1:]), sizes.inputs.dtype)
    labels = jax.ShapeDtypeStruct((sizes.fitted, sizes.labels), np.float32)
    shapes = FitShapes(inputs, labels, key, rows)
    a_core = members_a_core(recipe, shapes) if on_cores(mesh) else None
    most = most if a_core is None else min(most, usable_cores() * a_core)
    device = Device(jax.default_backend(), memory_limit(), on_cores(mesh))
    plan = plan_fit(recipe, config.devices, most, shapes, device)
    group = plan.at_once if a_core is None else min(a_core, plan.at_once)
    workers = groups_at_once(models, plan.at_once, group)
    return Program(group, workers, plan.bytes), plan.reason


def _prediction(config: Config, sizes: Sizes, models: int) -> Program:
    batch = config.devices.predict_batch or LARGEST_BATCH
    keys: Any = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), models))
    params = jax.eval_shape(jax.vmap(sizes.model.init), keys)
    rows = jax.ShapeDtypeStruct((batch, *sizes.inputs.shape[1:]), sizes.inputs.dtype)
    traced = ensemble_logits.trace(sizes.model, params, rows)  # type: ignore[attr-defined]
    return Program(batch, batches_at_once(), program_bytes(traced))
