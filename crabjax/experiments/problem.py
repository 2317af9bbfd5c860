"""A data set made ready for a run: arrays, and which documents each seed may query."""

import math
import warnings
from typing import NamedTuple

import numpy as np

from crabjax.config import Config
from crabjax.data.load import Dataset
from crabjax.inputs import classifier, fingerprint, load_dataset, model_inputs
from crabjax.keys import draw_up_to, host_generator, run_key
from crabjax.models import Model
from crabjax.progress import doing


class ProblemError(ValueError):
    """A schedule that the data cannot meet."""


class ProblemWarning(UserWarning):
    """A schedule that the data meet, but otherwise than it reads."""


class Problem(NamedTuple):
    """What stays the same over all rounds. N training documents come before V of validation."""

    model: Model
    label_names: tuple[str, ...]
    inputs: np.ndarray  # [N, ...], or [N + V, ...] with a validation file
    labels: np.ndarray  # bool, as long as inputs
    test_inputs: np.ndarray
    test_labels: np.ndarray  # bool [X, K]
    poolable: np.ndarray  # bool [S, N]; false for documents held out for validation
    validation_rows: np.ndarray  # int32 [S, V], rows of inputs; V = 0: epochs are not compared
    initial: np.ndarray  # bool [S, N], the first labelled set
    rounds: int  # queries until the schedule or the pool ends
    fingerprint: str  # of the data's content

    @property
    def documents(self) -> int:
        """N, the number of training documents."""
        return self.poolable.shape[1]


@doing("preparing the data")
def prepare(config: Config) -> Problem:
    """Loads the data of a config and draws, by seed, the held-out and the first labelled set.

    Raises:
      ProblemError: when the data are too few for the schedule.
    """
    data = load_dataset(config)
    compared = config.ensemble.keep == "best"  # else nobody may look at validation labels
    tokens, labels = data.pool if compared else data.train
    plan = schedule(data, config)
    inputs = model_inputs(config, tokens)
    return Problem(
        model=classifier(config, inputs, data.vocabulary_size, labels.shape[1]),
        label_names=data.label_names,
        inputs=inputs,
        labels=labels,
        test_inputs=model_inputs(config, data.test.tokens),
        test_labels=data.test.labels,
        **plan._asdict(),
        fingerprint=fingerprint(tokens, labels, data.test.tokens, data.test.labels),
    )


class Schedule(NamedTuple):
    """The part of a :class:`Problem` that says which documents each seed begins with."""

    poolable: np.ndarray
    validation_rows: np.ndarray
    initial: np.ndarray
    rounds: int


def schedule(data: Dataset, config: Config) -> Schedule:
    """Draws the held-out and the first labelled set of every seed.

    Raises:
      ProblemError: when the data are too few.
    """
    poolable, validation_rows = _hold_out(data, config)
    return Schedule(poolable, validation_rows, *_first_labelled(poolable, config))


def _hold_out(data: Dataset, config: Config) -> tuple[np.ndarray, np.ndarray]:
    documents, seeds = len(data.train.tokens), config.loop.seeds
    poolable = np.ones((len(seeds), documents), bool)  # [S, N]
    if config.ensemble.keep == "last":
        return poolable, np.zeros((len(seeds), 0), np.int32)
    if data.validation is not None:
        rows = np.arange(documents, documents + len(data.validation.tokens), dtype=np.int32)
        return poolable, np.tile(rows, (len(seeds), 1))
    size = config.data.validation_size
    if size >= documents:
        raise ProblemError(
            f"data.validation_size: expected fewer than the {documents} training documents, "
            f"found {size}"
        )
    if config.data.validation_from == "last":
        rows = np.arange(documents - size, documents, dtype=np.int32)
        return poolable, np.tile(rows, (len(seeds), 1))
    rows = np.stack([_draw(seed, "validation", documents, size) for seed in seeds])  # [S, V]
    np.put_along_axis(poolable, rows, False, axis=1)
    return poolable, rows.astype(np.int32)


def _first_labelled(poolable: np.ndarray, config: Config) -> tuple[np.ndarray, int]:
    loop, available = config.loop, int(poolable[0].sum())
    if loop.initial_size > available:
        raise ProblemError(
            f"loop.initial_size: expected at most the {available} documents of the pool, "
            f"found {loop.initial_size}"
        )
    initial = np.zeros_like(poolable)
    for row, seed in enumerate(loop.seeds):
        pool = np.flatnonzero(poolable[row])
        initial[row, pool[_draw(seed, "initial", available, loop.initial_size)]] = True
    if loop.query_size > (left := available - loop.initial_size):
        asked = f"loop.query_size: {loop.query_size} asked for, found {left} unlabelled documents"
        warnings.warn(f"{asked}: the first query takes them all", ProblemWarning, stacklevel=3)
    until_empty = math.ceil((available - loop.initial_size) / loop.query_size)
    return initial, min(loop.rounds, until_empty)


def _draw(seed: int, purpose: str, documents: int, count: int) -> np.ndarray:
    return np.sort(draw_up_to(host_generator(run_key(seed, purpose)), np.arange(documents), count))
