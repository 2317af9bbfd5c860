"""The programs of a configuration as shapes alone: no data, no weights, nothing that runs.

A fit is a loop of training steps and validation batches inside a loop of epochs; compiling all of
a DistilBERT fit takes the compiler a quarter of an hour, so it is compiled by its parts.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from crabjax.benchmarks.roofline import forward_work
from crabjax.config import Config, ConfigError
from crabjax.devices.batches import LARGEST_BATCH
from crabjax.ensemble.optimizer import start_training
from crabjax.ensemble.predict import ensemble_logits
from crabjax.ensemble.train import Batch, Recipe, training_step, validation_counts
from crabjax.models import Model, build_model
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier
from crabjax.pool.score import CHUNK_SIZE
from crabjax.scoring import BetaRule
from crabjax.scoring.elr import Kernel, _score_chunk

PRETRAINED = {
    "distilbert-base-uncased": Architecture(
        "distilbert", 30_522, positions=512, width=768, inner=3072, heads=12, layers=6
    )
}
# Training documents, distinct words and labels of the paper's data (docs/method.md 9).
DATA = {
    "rcv1": (24_891, 104_619, 102),
    "uklex": (20_000, 63_157, 18),
    "eurlex": (55_000, 160_211, 21),
    "mimic": (29_999, 137_678, 19),
    **{f"rcv1_t10_{ratio}": (1_200, 25_000, 10) for ratio in (5, 10, 20, 50)},
}


TRAINING_WORDS = 16_384  # rows of the table that the paper's 1,100 labelled documents train


@dataclass(frozen=True)
class Sizes:
    """What the shapes of a configuration's programs depend on besides the configuration.

    Attributes:
      documents: N, to train on and to choose from.
      words: of the vocabulary.
      labels: K.
      members: M, trained and predicted at once.
      layers: of a pretrained encoder, None for as many as it has.
    """

    documents: int
    words: int
    labels: int
    members: int
    layers: int | None = None


class Program(NamedTuple):
    """Something to compile.

    Attributes:
      name: "step", "validation", "predict" or "score".
      function: under ``jax.jit``.
      arguments: as for a call, shapes in place of arrays.
      flops: of the plain padded computation, counted by hand; 0 where matrix products are not
        what takes the time.
      items: in one run: documents that all members read, or evaluations of H.
      axes: sizes by name; see ``devices.compile_for``.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    flops: float
    items: int
    axes: dict[str, int]


def sizes_of(config: Config, **given: int | None) -> Sizes:
    """The sizes of a configuration, each replaced by that in ``given`` unless it is None.

    Members are ``devices.members_at_once`` if that is stated; else those of all seeds, of a
    pretrained encoder those of one.

    Raises:
      ConfigError: for a classifier that is not compiled here, a size below 1, or data that are not
        the paper's, naming what must be given.
    """
    if config.model.name not in ("text_cnn", "text_rnn", "distilbert"):
        raise ConfigError(
            f"model.name: expected text_cnn, text_rnn or distilbert, found {config.model.name!r}"
        )
    data, synthetic = config.data, config.data.synthetic
    known: tuple[int | None, ...] = (None, None, None)
    if data.train is None:
        labels = synthetic.roots * (1 + synthetic.leaves_per_root)
        known = synthetic.documents, synthetic.vocabulary, labels
    known = DATA.get(data.name, known)
    seeds = 1 if config.model.name == "distilbert" else len(config.loop.seeds)
    members = config.devices.members_at_once or seeds * config.ensemble.members
    found = dict(zip(("documents", "words", "labels"), known), members=members, layers=None)
    found |= {name: size for name, size in given.items() if size is not None}
    for name, size in found.items():
        if size is not None and size < 1:
            raise ConfigError(f"--{name}: expected a number above 0, found {size}")
    missing = [f"--{name}" for name in ("documents", "words", "labels") if found[name] is None]
    if missing:
        raise ConfigError(
            f"data.name: expected one of {', '.join(DATA)}, found {data.name!r}; "
            f"say {', '.join(missing)}"
        )
    return Sizes(**found)  # type: ignore[arg-type]


def recipe_of(config: Config, sizes: Sizes) -> Recipe:
    """What is trained, and how."""
    batch = config.devices.predict_batch or LARGEST_BATCH
    return Recipe(model_of(config, sizes), config.ensemble, batch)


def labelled_at_most(config: Config) -> int:
    """Labelled documents of the last round."""
    return config.loop.initial_size + config.loop.rounds * config.loop.query_size


def model_of(config: Config, sizes: Sizes) -> Model:
    """The classifier; a pretrained encoder by its shapes, without its weights."""
    model = config.model
    if model.name != "distilbert":
        return build_model(model, sizes.words, sizes.labels)
    # What accelerators get where nothing is said.
    encoder, precision = encoder_of(config, sizes), model.on("tpu").precision
    made = transformer_classifier(encoder, sizes.labels, None, precision)
    if config.devices.rematerialise and made.recomputing is not None:
        return made.recomputing("layers")
    return made


def encoder_of(config: Config, sizes: Sizes) -> Architecture:
    """The sizes of the pretrained encoder of a configuration."""
    if config.model.pretrained not in PRETRAINED:
        known = ", ".join(PRETRAINED)
        raise ConfigError(f"model.pretrained: expected {known}, found {config.model.pretrained!r}")
    encoder = PRETRAINED[config.model.pretrained]
    return encoder if sizes.layers is None else dataclasses.replace(encoder, layers=sizes.layers)


def programs(config: Config, sizes: Sizes) -> dict[str, Program]:
    """By name: a training step, a validation batch, prediction of a batch, scores of a chunk."""
    recipe = recipe_of(config, sizes)
    made = (
        _step(config, sizes, recipe),
        _validation(config, sizes, recipe),
        _predict(config, sizes, recipe),
        _score(config, sizes),
    )
    return {one.name: one for one in made}


def _step(config: Config, sizes: Sizes, recipe: Recipe) -> Program:
    members, batch = sizes.members, config.ensemble.batch_size
    params = _params(sizes, recipe.model)
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
    flops = 3 * forward_flops(config, sizes, batch)
    return Program("step", _training_step, arguments, flops, batch, axes_of(config, sizes, batch))


def _validation(config: Config, sizes: Sizes, recipe: Recipe) -> Program:
    members, batch = sizes.members, validation_batch_size(config, recipe)
    arguments = (
        recipe.model,
        _params(sizes, recipe.model),
        _shape(jnp.int32, members, batch, config.data.max_tokens),
        _shape(jnp.float32, members, batch, sizes.labels),
        _shape(jnp.bool_, batch),
    )
    flops, axes = forward_flops(config, sizes, batch), axes_of(config, sizes, batch)
    return Program("validation", _validation_counts, arguments, flops, batch, axes)


def _predict(config: Config, sizes: Sizes, recipe: Recipe) -> Program:
    batch = recipe.validation_batch
    documents = _shape(jnp.int32, batch, config.data.max_tokens)
    arguments = recipe.model, _params(sizes, recipe.model), documents
    flops, axes = forward_flops(config, sizes, batch), axes_of(config, sizes, batch)
    return Program("predict", ensemble_logits, arguments, flops, batch, axes)


def _score(config: Config, sizes: Sizes) -> Program:
    members, labels = config.ensemble.members, sizes.labels
    rows_are_not_read = config.strategy.cluster == "features"
    anchors = math.ceil(config.strategy.anchor_fraction * sizes.documents)
    arguments = (
        _shape(jnp.float32, members, CHUNK_SIZE, labels),
        _shape(jnp.float32, members, anchors, labels),
        _shape(jnp.float32, labels),
        Kernel(BetaRule(config.strategy.alpha, config.strategy.beta), total=rows_are_not_read),
    )
    axes = {"members": members, "candidates": CHUNK_SIZE, "anchors": anchors, "labels": labels}
    evaluations = 2 * CHUNK_SIZE * anchors * labels
    return Program("score", _score_chunk, arguments, 0.0, evaluations, axes)


_training_step = jax.jit(training_step, static_argnames="recipe", donate_argnames="trained")
_validation_counts = jax.jit(validation_counts, static_argnames="model")


def validation_batch_size(config: Config, recipe: Recipe) -> int:
    """Validation documents of a member that are predicted at once."""
    return min(recipe.validation_batch, config.data.validation_size)


def steps_of(config: Config, sizes: Sizes) -> tuple[int, int, int]:
    """How a fit adds up: its most epochs, and the most steps and validation batches in each."""
    steps = -(-labelled_at_most(config) // config.ensemble.batch_size)
    batch = validation_batch_size(config, recipe_of(config, sizes))
    batches = -(-config.data.validation_size // batch)
    return config.ensemble.epochs, steps, batches


def bytes_between_steps(config: Config, sizes: Sizes) -> int:
    """What a fit keeps beside a step's own memory: best parameters, documents and labels."""
    params = jax.tree.leaves(_params(sizes, model_of(config, sizes)))
    documents = 4 * sizes.documents * (config.data.max_tokens + sizes.labels)
    return documents + sum(math.prod(one.shape) * one.dtype.itemsize for one in params)


def forward_flops(config: Config, sizes: Sizes, batch: int) -> float:
    """The plain padded forward pass of all members on ``batch`` documents each."""
    tokens = config.data.max_tokens
    if config.model.name != "distilbert":
        work = forward_work(config.model, tokens, batch, sizes.members, sizes.labels)
        return work.flops
    encoder = encoder_of(config, sizes)
    width = encoder.width
    linear = 4 * width * width + 2 * width * encoder.inner
    attention = 2 * tokens * width  # queries with keys, and weights with values
    return 2.0 * encoder.layers * (linear + attention) * tokens * batch * sizes.members


def axes_of(config: Config, sizes: Sizes, batch: int) -> dict[str, int]:
    """Sizes by name, to tell what loops and scatters run over."""
    axes = {
        "members": sizes.members,
        "documents": batch,
        "tokens": config.data.max_tokens,
        "labels": sizes.labels,
        "words": sizes.words,
    }
    if config.model.name == "distilbert":
        encoder = encoder_of(config, sizes)
        axes |= {"words": encoder.vocabulary, "layers": encoder.layers, "heads": encoder.heads}
    return axes


def _params(sizes: Sizes, model: Model) -> Any:
    return jax.eval_shape(jax.vmap(model.init), _keys(sizes.members))


def _keys(members: int) -> Any:
    return jax.ShapeDtypeStruct((members,), jax.eval_shape(lambda: jax.random.key(0)).dtype)


def _shape(dtype: Any, *sizes: int) -> Any:
    return jax.ShapeDtypeStruct(sizes, dtype)
