"""A data set made ready for a run: arrays, and which documents each seed may query."""

import math
import warnings
from typing import NamedTuple

import numpy as np

from crabjax.config import Config
from crabjax.data.load import Dataset, Encoded
from crabjax.data.lsa import LatentWords
from crabjax.devices.processes import array_of_first, check_agreement
from crabjax.files.store import fingerprint
from crabjax.inputs import (
    classifier,
    encoder_used,
    first_inputs,
    load_dataset,
    model_inputs,
    pool_words,
    without_names,
)
from crabjax.keys import draw_up_to, host_generator, run_key
from crabjax.models import Model
from crabjax.pool.diverse import first_batch
from crabjax.pool.look import AllBut
from crabjax.progress import doing


class ProblemError(ValueError):
    """A schedule that the data cannot meet."""


class ProblemWarning(UserWarning):
    """A schedule that the data meet, but otherwise than it reads."""


class Problem(NamedTuple):
    """What stays the same over all rounds. N training documents come before V of validation."""

    model: Model
    inputs: np.ndarray  # [N, ...], or [N + V, ...] with a validation file
    labels: np.ndarray  # bool, as long as inputs
    test_inputs: np.ndarray
    test_labels: np.ndarray  # bool [X, K]
    documents: int  # N
    held_out: np.ndarray  # int64 [S, H], sorted: documents that may not be queried
    validation_rows: np.ndarray  # int32 [S, V], rows of inputs; V = 0: epochs are not compared
    initial: np.ndarray  # int64 [S, n], sorted: the first labelled set
    rounds: int  # queries until the schedule or the pool ends
    capacity: int  # the most documents a seed will have labelled
    fingerprint: str  # of the data's content and, after a hyphen, of the encoder's files


@doing("preparing the data")
def prepare(config: Config) -> Problem:
    """Loads the data of a config and draws, by seed, the held-out and the first labelled set.

    Raises:
      ProblemError: when the data are too few for the schedule.
    """
    data = load_dataset(config)
    tokens, labels = documents_read(data, config)
    plan = schedule(data, config)
    of_data = fingerprint(tokens, labels, data.test.tokens, data.test.labels)
    words = pool_words(config, tokens[: data.documents])
    if words is not None:  # directions may turn on another machine; of other data, there are others
        check_agreement("data", of_data)
        words = LatentWords(*map(array_of_first, words))
    inputs, beside = first_inputs(config, tokens, data.label_names, words, data.documents)
    # Only these have document vectors before anything is trained.
    if config.model.name == "frozen" and config.loop.first_batch == "half_covering":
        plan = plan._replace(initial=_half_covering(config, plan, without_names(inputs, beside)))
    sizes = data.vocabulary_size, labels.shape[1]
    return Problem(
        model=classifier(config, inputs, *sizes, named=beside.names is not None),
        inputs=inputs,
        labels=labels,
        test_inputs=model_inputs(config, data.test.tokens, beside),
        test_labels=data.test.labels,
        **plan._asdict(),
        fingerprint="-".join(filter(None, (of_data, encoder_used(config)))),
    )


def documents_read(data: Dataset, config: Config) -> Encoded:
    """The documents a run chooses from and, where epochs are compared, those of validation."""
    # Else nobody may look at validation labels.
    return data.pool if config.ensemble.keep == "best" else data.train


def documents_fitted(config: Config, documents: int, capacity: int, validation: int) -> int:
    """The most documents that one fit of all seeds reads: the same in all rounds of a run.

    Args:
      config: of the run.
      documents: those it reads at all.
      capacity: the most documents a seed will have labelled.
      validation: documents that the epochs of a seed are compared on.
    """
    return min(documents, len(config.loop.seeds) * (capacity + validation))


class Schedule(NamedTuple):
    """The part of a :class:`Problem` that says which documents each seed begins with."""

    documents: int
    held_out: np.ndarray
    validation_rows: np.ndarray
    initial: np.ndarray
    rounds: int
    capacity: int


def schedule(data: Dataset, config: Config) -> Schedule:
    """Draws the held-out and the first labelled set of every seed.

    Raises:
      ProblemError: when the data are too few.
    """
    documents = len(data.train.tokens)
    held_out, validation_rows = _hold_out(data, config)
    rest = _first_labelled(documents, held_out, config)
    return Schedule(documents, held_out, validation_rows, *rest)


def _hold_out(data: Dataset, config: Config) -> tuple[np.ndarray, np.ndarray]:
    documents, seeds = len(data.train.tokens), config.loop.seeds
    nothing = np.zeros((len(seeds), 0), np.int64)
    if config.ensemble.keep == "last":
        return nothing, nothing.astype(np.int32)
    if data.validation is not None:
        rows = np.arange(documents, documents + len(data.validation.tokens), dtype=np.int32)
        return nothing, np.tile(rows, (len(seeds), 1))
    size = config.data.validation_size
    if size >= documents:
        raise ProblemError(
            f"data.validation_size: expected fewer than the {documents} training documents, "
            f"found {size}"
        )
    if config.data.validation_from == "last":
        rows = np.arange(documents - size, documents, dtype=np.int32)
        return nothing, np.tile(rows, (len(seeds), 1))
    rows = np.stack([_draw(seed, "validation", documents, size) for seed in seeds])  # [S, V]
    return rows, rows.astype(np.int32)


def _first_labelled(
    documents: int, held_out: np.ndarray, config: Config
) -> tuple[np.ndarray, int, int]:
    """The first labelled set [S, n], the number of queries, and the most labelled documents."""
    loop, available = config.loop, documents - held_out.shape[1]
    if loop.initial_size > available:
        raise ProblemError(
            f"loop.initial_size: expected at most the {available} documents of the pool, "
            f"found {loop.initial_size}"
        )
    first = [
        AllBut(documents, own)[_draw(seed, "initial", available, loop.initial_size)]
        for seed, own in zip(loop.seeds, held_out)
    ]
    if loop.query_size > (left := available - loop.initial_size):
        asked = f"loop.query_size: {loop.query_size} asked for, found {left} unlabelled documents"
        warnings.warn(f"{asked}: the first query takes them all", ProblemWarning, stacklevel=3)
    rounds = min(loop.rounds, math.ceil(left / loop.query_size))
    most = min(loop.initial_size + rounds * loop.query_size, available)
    return np.stack(first), rounds, most


def _half_covering(config: Config, plan: Schedule, vectors: np.ndarray) -> np.ndarray:
    """The first labelled set [S, n], half of it drawn as the whole would be; see `first_batch`."""
    first = []
    for seed, own in zip(config.loop.seeds, plan.held_out):
        key, pool = run_key(seed, "initial"), AllBut(plan.documents, own)
        chosen = first_batch(key, vectors, pool, config.loop.initial_size)
        first.append(np.sort(np.concatenate(chosen)))
    return array_of_first(np.stack(first))  # k-means may round otherwise on another machine


def _draw(seed: int, purpose: str, documents: int, count: int) -> np.ndarray:
    return np.sort(draw_up_to(host_generator(run_key(seed, purpose)), np.arange(documents), count))
