"""Multi-label measures of predicted probabilities against labels, for many models at once."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from crabjax.checks import check_rank, check_same_size


class Scores(NamedTuple):
    """Measures at a threshold, and mean average precision, each of the leading shape of probs."""

    micro_f1: jax.Array
    macro_f1: jax.Array
    precision: jax.Array
    recall: jax.Array
    mean_average_precision: jax.Array


def evaluate(probs: ArrayLike, labels: ArrayLike, threshold: ArrayLike = 0.5) -> Scores:
    """Scores predictions.

    Precision, recall and micro-F1 pool the decisions of all labels. Macro-F1 is the mean over all
    K labels, with 0 for a label that is neither present nor predicted. Mean average precision
    needs no threshold; it is the mean over the labels that occur.

    Args:
      probs: [M, X, K], one set of probabilities a model.
      labels: [X, K], true where the document carries the label.
      threshold: a label is predicted when its probability exceeds this; one for all, or [M].

    Returns:
      Scores of shape [M] each.
    """
    check_rank("probs", probs, "MXK")
    check_rank("labels", labels, "XK")
    probs, labels = jnp.asarray(probs), jnp.asarray(labels)
    check_same_size("X", "probs", probs.shape[1], "labels", labels.shape[0])
    check_same_size("K", "probs", probs.shape[2], "labels", labels.shape[1])
    thresholds = jnp.broadcast_to(jnp.asarray(threshold, probs.dtype), probs.shape[:1])
    return _evaluate(probs, labels.astype(bool), thresholds)


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, None, 0))
def _evaluate(probs: jax.Array, labels: jax.Array, threshold: jax.Array) -> Scores:
    predicted = probs > threshold  # [X, K]
    hits = jnp.sum(predicted & labels, axis=0, dtype=jnp.float32)  # [K]
    claimed = jnp.sum(predicted, axis=0, dtype=jnp.float32)
    present = jnp.sum(labels, axis=0, dtype=jnp.float32)
    precisions = jax.vmap(_average_precision, in_axes=1)(probs, labels)  # [K]
    return Scores(
        micro_f1=_ratio(2 * hits.sum(), claimed.sum() + present.sum()),
        macro_f1=jnp.mean(_ratio(2 * hits, claimed + present)),
        precision=_ratio(hits.sum(), claimed.sum()),
        recall=_ratio(hits.sum(), present.sum()),
        mean_average_precision=_ratio(precisions.sum(), jnp.sum(present > 0, dtype=jnp.float32)),
    )


def _average_precision(probs: jax.Array, labels: jax.Array) -> jax.Array:
    """Average precision of one label; documents of equal probability enter together.

    0 when the label never occurs.
    """
    count = probs.shape[0]
    order = jnp.argsort(-probs)
    sorted_probs, sorted_labels = probs[order], labels[order].astype(jnp.float32)
    hits = jnp.cumsum(sorted_labels)
    ranks = jnp.arange(count)
    last_of_tie = jnp.append(sorted_probs[1:] != sorted_probs[:-1], True)
    tie_end = jax.lax.cummin(jnp.where(last_of_tie, ranks, count), reverse=True)
    precision = hits[tie_end] / (tie_end + 1).astype(jnp.float32)
    return _ratio(jnp.sum(precision * sorted_labels), hits[-1])


def _ratio(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
    """Of counts; 0 where nothing was counted, which leaves nothing to divide."""
    return numerator / jnp.maximum(denominator, 1)
