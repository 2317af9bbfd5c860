"""Training of an ensemble, seconds per epoch, against a plain PyTorch loop over its members.

The corpus is random text with the lengths and word frequencies of news: half of the documents
have fewer than 95 words, one in ten more than 256, and 600 of them hold 12,000 distinct words.
Both sides run the same model, batches and epochs on the same number of threads. Training and
validation are told apart by a second run that validates on one document. `dense GFLOP/s` is the
arithmetic of the plain padded computation divided by the time, whatever was really computed.
"""

import argparse
import os
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crabjax.benchmarks.common import Row, measure, peak_extra_megabytes
from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.ensemble import fit_ensemble, member_keys
from crabjax.models import Model, build_model
from crabjax.models.distilbert import transformer_classifier
from crabjax.models.pretrained import Architecture

CAPACITY = 1100  # labelled documents of the last round of a run


class Corpus(NamedTuple):
    """Random documents int32 [N, T] and labels bool [N, K] that words decide."""

    tokens: np.ndarray
    labels: np.ndarray


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", choices=["text_cnn", "text_rnn", "distilbert"], default="text_cnn"
    )
    parser.add_argument("--against", choices=["torch"], help="also time a plain PyTorch loop")
    parser.add_argument("--labelled", type=int, nargs="+", default=[100, 600])
    parser.add_argument("--validation", type=int, default=600)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=22_000)
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=1)


def run(arguments: argparse.Namespace) -> list[Row]:
    corpus = random_corpus(arguments)
    peak = _matmul_peak()
    rows = []
    for labelled in arguments.labelled:
        config = EnsembleConfig(
            members=arguments.members, epochs=arguments.epochs, patience=arguments.epochs
        )
        work = _dense_gflop(arguments, labelled)
        ours = _crabjax_row(arguments, config, corpus, labelled)
        found = [ours]
        if arguments.against == "torch":
            found.append(_torch_row(arguments, config, corpus, labelled))
        for row in found:
            row["dense GFLOP/s"] = work / row["epoch s"]
            row["of matmul peak"] = row["dense GFLOP/s"] / peak
            row["ratio"] = row["epoch s"] / ours["epoch s"]
        rows += found
    return rows


def random_corpus(arguments: argparse.Namespace, seed: int = 0) -> Corpus:
    """Lengths log-normal around 95 words; word frequencies after Zipf and Mandelbrot."""
    generator = np.random.default_rng(seed)
    documents, longest = CAPACITY + arguments.validation, arguments.tokens
    lengths = np.exp(generator.normal(np.log(95), 0.9, documents)).clip(5, longest)
    frequency = 1 / (np.arange(arguments.vocabulary - 2) + 2.7)
    drawn = generator.choice(
        arguments.vocabulary - 2, (documents, longest), p=frequency / frequency.sum()
    )
    live = np.arange(longest)[None, :] < lengths[:, None]
    tokens = np.where(live, drawn + 2, 0).astype(np.int32)
    words = np.arange(30, 30 + arguments.labels)
    return Corpus(tokens, np.stack([(tokens == word).any(axis=1) for word in words], axis=1))


def _crabjax_row(arguments, config: EnsembleConfig, corpus: Corpus, labelled: int) -> Row:
    model = _model(arguments)
    keys = member_keys(jax.random.split(jax.random.key(0), 1), config.members, "same")

    found = []

    def fit(validation: int):
        rows = np.tile(np.arange(CAPACITY), (config.members, 1))
        held_out = np.tile(np.arange(CAPACITY, CAPACITY + validation), (config.members, 1))
        counts = np.full(config.members, labelled)
        found.append(fit_ensemble(model, config, keys, *corpus, rows, counts, held_out)[1])

    training = measure(fit, 1, repeats=arguments.repeats)
    whole = measure(fit, arguments.validation, repeats=arguments.repeats)
    memory = peak_extra_megabytes(fit, arguments.validation)
    epoch, part = whole.median / config.epochs, training.median / config.epochs
    return {
        "what": f"crabjax {arguments.model}",
        "labelled": labelled,
        "epoch s": epoch,
        "training s": part,
        "validation s": epoch - part,
        "compile s": whole.compile,
        "peak extra MB": memory,
        "best F1": float(np.nanmax(found[-1].validation_f1, axis=1).mean()),
    }


def _torch_row(arguments, config: EnsembleConfig, corpus: Corpus, labelled: int) -> Row:
    try:
        import torch
    except ImportError as error:
        raise SystemExit("--against torch needs PyTorch: pip install 'crabjax[torch]'") from error
    from crabjax.benchmarks import torch_models

    torch.set_num_threads(len(os.sched_getaffinity(0)))  # as many as XLA takes

    def build():
        if arguments.model == "distilbert":
            return torch_models.distilbert(_architecture(arguments), arguments.labels)
        kinds = {"text_cnn": torch_models.TextCNN, "text_rnn": torch_models.TextRNN}
        return kinds[arguments.model](
            ModelConfig(name=arguments.model), arguments.vocabulary, arguments.labels
        )

    found = []

    def train():
        held_out = np.arange(CAPACITY, CAPACITY + arguments.validation)
        found.append(
            torch_models.train_members(build, config, *corpus, np.arange(labelled), held_out)
        )

    memory = peak_extra_megabytes(train)
    for _ in range(arguments.repeats - 1):
        train()
    times = min(found, key=lambda times: times.training + times.validation)
    return {
        "what": f"torch {arguments.model}",
        "labelled": labelled,
        "epoch s": times.training + times.validation,
        "training s": times.training,
        "validation s": times.validation,
        "compile s": 0.0,
        "peak extra MB": memory,
        "best F1": float(np.mean(times.validation_f1)),
    }


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
    model, architecture = ModelConfig(), _architecture(arguments)
    width, inner = architecture.width, architecture.inner
    per_token = {
        "text_cnn": sum(model.widths) * model.embedding * model.kernels,
        "text_rnn": 2 * 3 * model.hidden * (model.embedding + model.hidden),
        "distilbert": architecture.layers
        * (4 * width**2 + 2 * width * inner + 2 * width * arguments.tokens),
    }[arguments.model]
    passes = 3 * labelled + arguments.validation
    return 2e-9 * per_token * arguments.tokens * passes * arguments.members


def _matmul_peak() -> float:
    """GFLOP/s of a large float32 matrix product."""
    size = 2048
    square = jnp.ones((size, size))
    product = jax.jit(jnp.matmul)
    product(square, square).block_until_ready()
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        product(square, square).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return 2e-9 * size**3 / best
