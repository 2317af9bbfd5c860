"""Training of an ensemble, seconds per epoch, against a plain PyTorch loop over its members.

The corpus is random text with the lengths and word frequencies of news: half of the documents
have fewer than 95 words, one in ten more than 256, and 600 of them hold 12,000 distinct words.
Both sides run the same model, batches and epochs on the same number of threads, in turns; times
are medians of --repeats after a warm-up. An epoch is a whole fit, set-up included, divided by its
epochs. Training and validation of crabjax are told apart by a second run that validates on one
document. `dense GFLOP/s` is the arithmetic of the plain padded computation divided by the time,
whatever was really computed.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from crabjax.benchmarks.arguments import FIT_SIZES, FIT_SMALLER
from crabjax.benchmarks.common import Row, peak_extra_megabytes, seconds_of
from crabjax.benchmarks.corpus import Corpus, random_corpus
from crabjax.benchmarks.shapes import multiplications
from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.devices.batches import usable_cores
from crabjax.ensemble import fit_ensemble, member_keys
from crabjax.models import Model, build_model
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier

CAPACITY = 1100  # labelled documents of the last round of a run


class Epoch(NamedTuple):
    """Seconds of an epoch of all members, of its training alone, their mean best validation F1."""

    whole: float
    training: float
    f1: float


class Side(NamedTuple):
    """What is timed: a first call, and the calls that count."""

    name: str
    warm_up: Callable[[], Any]
    run: Callable[[], Epoch]


def run(arguments: argparse.Namespace) -> list[Row]:
    """For each number of labelled documents, a row for crabjax and for what it is set against."""
    for name, value in (FIT_SMALLER if arguments.model == "distilbert" else FIT_SIZES).items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    corpus = random_corpus(
        CAPACITY + arguments.validation, arguments.tokens, arguments.vocabulary, arguments.labels
    )
    config = EnsembleConfig(
        members=arguments.members, epochs=arguments.epochs, patience=arguments.epochs
    )
    rows = []
    for labelled in arguments.labelled:
        sides = [_crabjax_side(arguments, config, corpus, labelled)]
        if arguments.against == "torch":
            sides.append(_torch_side(arguments, config, corpus, labelled))
        rows += _in_turns(sides, arguments.repeats, _dense_gflop(arguments, labelled), labelled)
    return rows


def _in_turns(sides: list[Side], repeats: int, gflop: float, labelled: int) -> list[Row]:
    """Times every side once, then every side again: what disturbs the machine disturbs all."""
    found, memory = [[] for _ in sides], [0.0 for _ in sides]
    first = [seconds_of(side.warm_up) for side in sides]
    for _ in range(repeats):
        for place, side in enumerate(sides):
            extra = peak_extra_megabytes(lambda side=side, to=found[place]: to.append(side.run()))
            memory[place] = max(memory[place], extra or 0.0)
    rows: list[Row] = []
    for side, warm_up, epochs, extra in zip(sides, first, found, memory):
        seconds, training, f1 = map(statistics.median, zip(*epochs))
        rows.append(
            {
                "what": side.name,
                "labelled": labelled,
                "epoch s": seconds,
                "training s": training,
                "validation s": seconds - training,
                "warm-up s": warm_up,
                "peak extra MB": extra,
                "best F1": f1,
                "dense GFLOP/s": gflop / seconds,
                "ratio": seconds / rows[0]["epoch s"] if rows else 1.0,
            }
        )
    return rows


def _crabjax_side(arguments, config, corpus: Corpus, labelled: int) -> Side:
    keys = member_keys(jax.random.split(jax.random.key(0), 1), config.members, "independent")
    rows = np.tile(np.arange(CAPACITY), (config.members, 1))
    counts = np.full(config.members, labelled)
    model = _model(arguments)

    def fit(validation: int) -> tuple[float, float]:
        held_out = np.tile(np.arange(CAPACITY, CAPACITY + validation), (config.members, 1))
        start = time.perf_counter()
        _, info = fit_ensemble(model, config, keys, *corpus, rows, counts, held_out)
        seconds = (time.perf_counter() - start) / config.epochs
        return seconds, float(np.nanmax(info.validation_f1, axis=1).mean())

    def run() -> Epoch:
        training, _ = fit(1)
        whole, f1 = fit(arguments.validation)
        return Epoch(whole, training, f1)

    return Side(f"crabjax {arguments.model}", run, run)


def _torch_side(arguments, config: EnsembleConfig, corpus: Corpus, labelled: int) -> Side:
    try:
        import torch
    except ImportError as error:
        raise SystemExit("--against torch needs PyTorch: pip install 'crabjax[torch]'") from error
    from crabjax.benchmarks import torch_models

    torch.set_num_threads(usable_cores())  # as many as XLA takes

    def build():
        if arguments.model == "distilbert":
            return torch_models.distilbert(_architecture(arguments), arguments.labels)
        kinds = {"text_cnn": torch_models.TextCNN, "text_rnn": torch_models.TextRNN}
        return kinds[arguments.model](
            ModelConfig(name=arguments.model), arguments.vocabulary, arguments.labels
        )

    held_out = np.arange(CAPACITY, CAPACITY + arguments.validation)

    def run() -> Epoch:
        times = torch_models.train_members(build, config, *corpus, np.arange(labelled), held_out)
        whole = times.training + times.validation
        return Epoch(whole, times.training, float(np.mean(times.validation_f1)))

    def warm_up():
        one = EnsembleConfig(members=1, epochs=1)
        torch_models.train_members(build, one, *corpus, np.arange(labelled), held_out)

    return Side(f"torch {arguments.model}", warm_up, run)


def _model(arguments) -> Model:
    if arguments.model == "distilbert":
        return transformer_classifier(_architecture(arguments), arguments.labels)
    return build_model(ModelConfig(name=arguments.model), arguments.vocabulary, arguments.labels)


def _architecture(arguments) -> Architecture:
    return Architecture(
        "distilbert", arguments.vocabulary, arguments.tokens, width=64, inner=256, heads=4, layers=2
    )


def _dense_gflop(arguments, labelled: int) -> float:
    """Multiply-adds, twice, of one epoch of all members: forward once, backward twice that."""
    model, encoder = ModelConfig(name=arguments.model), _architecture(arguments)
    per_token = multiplications(model, encoder, arguments.tokens)
    passes = 3 * labelled + arguments.validation
    return 2e-9 * per_token * arguments.tokens * passes * arguments.members
