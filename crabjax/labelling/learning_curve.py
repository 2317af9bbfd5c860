"""Honest estimates from the labelled documents alone, by cross-validation."""

from typing import NamedTuple

import jax
import numpy as np
from scipy.special import expit

from crabjax.config import DevicesConfig, EnsembleConfig
from crabjax.ensemble import fit_ensemble, member_keys, needed_rows, predict_logits
from crabjax.files.store import gather
from crabjax.keys import host_generator
from crabjax.labelling.held_out import split_rows
from crabjax.models import Model
from crabjax.thresholds import HALF, expected_f1_threshold

FOLDS = 5
_SMALLEST = 20  # documents that a curve begins with
_RESAMPLES = 200


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


class Cases(NamedTuple):
    """Documents to learn from and to be tested on, and who learns.

    Attributes:
      model: the classifier.
      config: how it is trained.
      devices: how the work is laid out.
      key: of folds and training.
      inputs: [N, ...].
      labels: bool [N, K].
      rows: int [n], the labelled documents in the order they were labelled; at least 10.
    """

    model: Model
    config: EnsembleConfig
    devices: DevicesConfig
    key: jax.Array
    inputs: np.ndarray
    labels: np.ndarray
    rows: np.ndarray


def learning_curve(cases: Cases) -> LearningCurve:
    """Cross-validates on all labelled documents, learning from the first n, n/2, n/4, ...

    Each of the five folds is predicted by one model that has not seen it, so the estimate is a
    little lower than what the ensemble reaches. The threshold is learnt from the same
    predictions, which takes no label.
    """
    sizes, predicted = curve_sizes(len(cases.rows)), []
    for size in sizes:
        unseen = out_of_fold(cases, size)
        learnt = cases.config.threshold == "learnt"
        predicted.append(unseen > (expected_f1_threshold(unseen).value if learnt else HALF))
    labels, generator = cases.labels[cases.rows], host_generator(cases.key)
    return score_curve(sizes, np.stack(predicted), labels, generator)


def out_of_fold(cases: Cases, size: int | None = None) -> np.ndarray:
    """Probabilities [n, K] of the labelled documents by models that have not seen them.

    Args:
      cases: whose folds are the same for every size.
      size: the first so many documents are learnt from; None for all of them.
    """
    model, config, devices, key, inputs, labels, rows = cases
    fold_key, fit_key = jax.random.split(key)
    generator = host_generator(fold_key)
    folds = generator.permutation(np.arange(len(rows)) % FOLDS)  # [n]
    early = np.arange(len(rows)) < (size or len(rows))
    parts = [generator.permutation(rows[early & (folds != fold)]) for fold in range(FOLDS)]
    split = split_rows(parts, len(rows), config.keep)
    keys = member_keys(fit_key[None], FOLDS, "independent")
    needed = needed_rows(inputs, labels, *split, capacity=split.train_rows.shape[1])
    params, _ = fit_ensemble(model, config, keys, *needed, devices=devices)
    logits = predict_logits(model, params, gather(inputs, rows), devices.predict_batch)  # [F, n, K]
    return expit(logits[folds, np.arange(len(rows))])


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


def _f1(hits: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """2 hits / (predicted + present), 0 where nothing was predicted or present."""
    return 2 * hits / np.maximum(marks, 1)
