"""Early stopping and honest estimates when all there is are the labelled documents."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from crabjax.config import EnsembleConfig
from crabjax.ensemble import fit_ensemble, member_keys, predict_logits
from crabjax.models import Model
from crabjax.pool.randomness import host_generator

FOLDS = 5
# With 60 to 600 documents, two corpora and two classifiers, an epoch chosen on held-out documents
# was never better in F1 than one chosen on the training documents. With 1000 to 4000, two other
# corpora and a frozen encoder, it was better by 0.004 to 0.035 micro-F1 in 13 runs of 13.
_ALL_TRAIN = 600
_MOST_COMPARED = 1024  # documents; more would tell epochs apart no better, at more cost
_SMALLEST_CAPACITY = 64
_SMALLEST = 20  # documents that a curve begins with
_RESAMPLES = 200


class Rows(NamedTuple):
    """Which documents each of M models trains on, and which its epochs are compared on."""

    train_rows: np.ndarray  # int32 [M, C]
    train_counts: np.ndarray  # int32 [M]
    validation_rows: np.ndarray  # int32 [M, V]


class LearningCurve(NamedTuple):
    """Scores by the number of labels learnt from, all on the same documents.

    Attributes:
      labelled: documents learnt from, increasing; the last is all of them.
      micro_f1: one a point.
      macro_f1: one a point.
      micro_error: standard error of each micro-F1, over documents.
      label_f1: of each label at the last point.
      gain: micro-F1 that the last doubling of the labels brought; NaN with one point only.
      gain_error: its standard error.
    """

    labelled: list[int]
    micro_f1: list[float]
    macro_f1: list[float]
    micro_error: list[float]
    label_f1: list[float]
    gain: float
    gain_error: float


def held_out_size(documents: int) -> int:
    """None of the first 600, half of what comes after them, until that is an eighth of all."""
    return min(max(0, documents - _ALL_TRAIN) // 2, _enough(documents))


def member_rows(rows: np.ndarray, members: int, generator: np.random.Generator) -> Rows:
    """Every member holds out another part, as far as the documents go round.

    Args:
      rows: int [n], the labelled documents.
      members: E.
      generator: shuffles them.
    """
    shuffled = generator.permutation(rows)
    size = held_out_size(len(rows))
    return split_rows([np.roll(shuffled, -size * m) for m in range(members)], len(rows))


def split_rows(parts: Sequence[np.ndarray], largest: int) -> Rows:
    """Each model holds out the first documents of its part and trains on the rest.

    Epochs are compared on the training documents as long as nothing is held out; then held-out
    documents take their places, one by one: a label more never changes the rule at once. Widths
    are powers of two, so that a program is compiled for each doubling of the labels only.

    Args:
      parts: int [n] for each of M models, shuffled.
      largest: at least the longest part.
    """
    capacity = 1 << (max(largest, _SMALLEST_CAPACITY) - 1).bit_length()
    train = np.zeros((len(parts), capacity), np.int32)
    counts, validation = np.zeros(len(parts), np.int32), []
    for model, part in enumerate(parts):
        size = held_out_size(len(part))
        counts[model] = len(part) - size
        train[model, : counts[model]] = part[size:]
        validation.append(_compared(part, size, min(capacity, _MOST_COMPARED)))
    return Rows(train, counts, np.stack(validation).astype(np.int32))


def learning_curve(
    model: Model,
    config: EnsembleConfig,
    key: jax.Array,
    inputs: np.ndarray,
    labels: np.ndarray,
    rows: np.ndarray,
) -> LearningCurve:
    """Cross-validates on all labelled documents, learning from the first n, n/2, n/4, ...

    Each of the five folds is predicted by one model that has not seen it, so the estimate is a
    little lower than what the ensemble reaches.

    Args:
      model: the classifier.
      config: how it is trained.
      key: of folds and training.
      inputs: [N, ...].
      labels: bool [N, K].
      rows: int [n], the labelled documents in the order they were labelled; at least 10.
    """
    fold_key, fit_key = jax.random.split(key)
    generator = host_generator(fold_key)
    folds = generator.permutation(np.arange(len(rows)) % FOLDS)  # [n]
    keys = member_keys(fit_key[None], FOLDS, "independent")
    sizes = curve_sizes(len(rows))
    predicted = []
    for size in sizes:
        early = np.arange(len(rows)) < size
        parts = [generator.permutation(rows[early & (folds != fold)]) for fold in range(FOLDS)]
        params, _ = fit_ensemble(model, config, keys, inputs, labels, *split_rows(parts, len(rows)))
        logits = predict_logits(model, params, inputs[rows], config.predict_batch)  # [F, n, K]
        predicted.append(logits[folds, np.arange(len(rows))] > 0)
    return score_curve(sizes, np.stack(predicted), labels[rows], generator)


def curve_sizes(documents: int) -> list[int]:
    """n and its halves down to the smallest, increasing."""
    sizes = [documents]
    while sizes[0] // 2 >= _SMALLEST:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def score_curve(
    sizes: list[int], predicted: np.ndarray, labels: np.ndarray, generator: np.random.Generator
) -> LearningCurve:
    """F1 of each point, with standard errors from documents drawn again with replacement.

    Args:
      sizes: of the points.
      predicted: bool [points, n, K].
      labels: bool [n, K].
      generator: draws the documents.
    """
    count = len(labels)
    weights = generator.multinomial(count, np.full(count, 1 / count), _RESAMPLES)  # [R, n]
    hits = (predicted & labels[None]).astype(np.float64)  # [points, n, K]
    marks = predicted.astype(np.float64) + labels[None]
    micro = _f1(hits.sum((1, 2)), marks.sum((1, 2)))
    drawn = _f1(hits.sum(2) @ weights.T, marks.sum(2) @ weights.T)  # [points, R]
    by_label = _f1(hits.sum(1), marks.sum(1))  # [points, K]
    several = len(sizes) > 1
    return LearningCurve(
        labelled=sizes,
        micro_f1=micro.tolist(),
        macro_f1=by_label.mean(axis=1).tolist(),
        micro_error=drawn.std(axis=1).tolist(),
        label_f1=by_label[-1].tolist(),
        gain=float(micro[-1] - micro[-2]) if several else float("nan"),
        gain_error=float((drawn[-1] - drawn[-2]).std()) if several else float("nan"),
    )


def _enough(documents: int) -> int:
    """Held-out documents with which no training document is needed to compare epochs."""
    return min(documents // 8, _MOST_COMPARED)


def _compared(part: np.ndarray, held_out: int, width: int) -> np.ndarray:
    """The rows that epochs are compared on, int [width].

    Where they are fewer than their places they are repeated, some once more than others.
    """
    places = width * held_out // max(_enough(len(part)), 1)
    return np.concatenate(
        [np.resize(part[:held_out], places), np.resize(part[held_out:], width - places)]
    )


def _f1(hits: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """2 hits / (predicted + present), 0 where nothing was predicted or present."""
    return 2 * hits / np.maximum(marks, 1)
