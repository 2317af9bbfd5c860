"""Label correlations and what CRAB makes of them (docs/method.md 4, 5 and 6)."""

import functools
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from crabjax.checks import (
    check_labels,
    check_not_empty,
    check_probabilities,
    check_rank,
    check_same_size,
)

AttentionNorm = Literal["column_max", "literal", "row_sum"]


class Correlation(NamedTuple):
    """How labels occur together in the labelled data; rows m, columns n.

    Attributes:
      positive: A(m, n) = P(label m present | label n present), float32 [K, K]; A(n, n) = 1.
      negative: NegA(m, n) = P(label m absent | label n present), float32 [K, K].
      counts: documents that carry both m and n, int32 [K, K]; the diagonal counts each label.
    """

    positive: jax.Array
    negative: jax.Array
    counts: jax.Array


def label_correlation(labels: ArrayLike, min_support: int = 1) -> Correlation:
    """Correlations of labelled documents.

    Args:
      labels: [n, K], each entry 0 or 1. Rows of zeros change nothing, so a labelled set of any
        size fits one compiled program: zero the rows outside it.
      min_support: documents a label needs for its pairs to count, at least 0. Rarer labels give no
        evidence in either direction: zeros off the diagonal of their rows and columns. With 0,
        Eq. 9 holds as it is written: a label nobody has seen is absent wherever another is present.
    """
    check_rank("labels", labels, "nK")
    check_not_empty("labels", labels)
    check_labels("labels", labels)
    _check_support(min_support)
    return _correlation_of_labels(jnp.asarray(labels), min_support)


def update(correlation: Correlation, new_labels: ArrayLike, min_support: int = 1) -> Correlation:
    """The correlations after documents with ``new_labels`` [n, K] join: equal to a rebuild."""
    check_rank("new_labels", new_labels, "nK")
    check_labels("new_labels", new_labels)
    _check_support(min_support)
    new_labels = jnp.asarray(new_labels)
    known = correlation.counts.shape[0]
    check_same_size("K", "correlation", known, "new_labels", new_labels.shape[1])
    return _updated_correlation(correlation.counts, new_labels, min_support)


def _check_support(min_support: int) -> None:
    if min_support < 0:
        raise ValueError(f"min_support: expected at least 0, found {min_support}")


@jax.jit
def _correlation_of_labels(labels: jax.Array, min_support: ArrayLike) -> Correlation:
    return _correlation_of_counts(_pair_counts(labels), min_support)


@jax.jit
def _updated_correlation(
    counts: jax.Array, new_labels: jax.Array, min_support: ArrayLike
) -> Correlation:
    return _correlation_of_counts(counts + _pair_counts(new_labels), min_support)


def _pair_counts(labels: jax.Array) -> jax.Array:
    present = labels.astype(bool).astype(jnp.float32)  # [n, K]; sums are exact up to 2^24
    pairs = jnp.matmul(present.T, present, precision=jax.lax.Precision.HIGHEST)
    return pairs.astype(jnp.int32)  # [K, K]


def _correlation_of_counts(counts: jax.Array, min_support: ArrayLike) -> Correlation:
    same = jnp.eye(counts.shape[0], dtype=bool)
    totals = jnp.diagonal(counts)  # [K]
    supported = totals >= min_support
    pairs = supported[:, None] & supported[None, :] & ~same
    divisor = jnp.maximum(totals, 1).astype(jnp.float32)[None, :]
    positive = counts.astype(jnp.float32) / divisor
    negative = (totals[None, :] - counts).astype(jnp.float32) / divisor
    return Correlation(
        jnp.where(pairs, positive, same.astype(jnp.float32)),
        jnp.where(pairs, negative, 0.0),
        counts,
    )


def correlation_attention(
    positive: ArrayLike, gamma: float = 2.0, norm: AttentionNorm = "column_max"
) -> jax.Array:
    """How much the gain of label m counts for label n (Eq. 13).

    Args:
      positive: A(m, n), [K, K].
      gamma: how far off-diagonal attention stays below the diagonal's 1: at most 1/gamma.
      norm: what A is divided by, besides gamma. "column_max": the largest off-diagonal entry of
        each column. "literal": the largest entry of each column, which is the diagonal's 1.
        "row_sum": the largest off-diagonal row sum of the whole matrix, as in the released code.

    Returns:
      [K, K], ones on the diagonal; zeros off it where there is nothing to divide by.
    """
    check_rank("positive", positive, "KK")
    positive = jnp.asarray(positive)
    check_same_size("K", "its rows", positive.shape[0], "positive", positive.shape[1])
    if not gamma > 0:
        raise ValueError(f"gamma: expected a number > 0, found {gamma}")
    if norm not in (known := get_args(AttentionNorm)):
        raise ValueError(f"norm: expected one of {', '.join(known)}, found {norm!r}")
    return _attention(positive, gamma, norm)


@functools.partial(jax.jit, static_argnames="norm")
def _attention(positive: jax.Array, gamma: ArrayLike, norm: AttentionNorm) -> jax.Array:
    same = jnp.eye(positive.shape[0], dtype=bool)
    others = jnp.where(same, 0.0, positive)
    if norm == "literal":
        largest = jnp.ones_like(positive[:1])  # [1, K]
    elif norm == "column_max":
        largest = jnp.max(others, axis=0, keepdims=True)  # [1, K]
    else:
        largest = jnp.max(jnp.sum(others, axis=1), keepdims=True)[None, :]  # [1, 1]
    scaled = jnp.where(largest > 0, others / (gamma * jnp.where(largest > 0, largest, 1.0)), 0.0)
    return jnp.where(same, 1.0, scaled)


def attention_label_weights(attention: ArrayLike) -> jax.Array:
    """``c_m = sum_n attention(m, n)``, [K, K] -> [K]: the double sum of Eq. 11 as one weight."""
    check_rank("attention", attention, "KK")
    return _row_sums(jnp.asarray(attention))


@jax.jit
def _row_sums(matrix: jax.Array) -> jax.Array:
    return jnp.sum(matrix, axis=1)


def pseudo_labels(probs: ArrayLike, threshold: float = 0.5) -> jax.Array:
    """Labels the model believes in: mean probabilities [X, K] above ``threshold``, bool [X, K]."""
    check_rank("probs", probs, "XK")
    check_probabilities("probs", probs)
    return _above(jnp.asarray(probs), threshold)


@jax.jit
def _above(probs: jax.Array, threshold: ArrayLike) -> jax.Array:
    return probs > threshold


def drop_implied_labels(pseudo: ArrayLike, positive: ArrayLike, sigma: float) -> jax.Array:
    """Removes from each document the labels that another of its labels implies one way.

    Label n is dropped where the document also carries an m with A(n, m) > sigma and
    A(m, n) <= sigma: m a leaf, n its root. Labels that imply each other are one label under two
    names, and both stay.

    Args:
      pseudo: bool [X, K].
      positive: A(m, n), [K, K].
      sigma: how certain an implication must be.

    Returns:
      bool [X, K]: ``pseudo`` without the implied labels.
    """
    return _without_implied(*_checked_pair(pseudo, "positive", positive), sigma)


@jax.jit
def _without_implied(pseudo: jax.Array, positive: jax.Array, sigma: ArrayLike) -> jax.Array:
    implies = positive > sigma  # [n, m]: m implies n
    implied_by = implies & ~implies.T
    return pseudo & ~_any_label(pseudo, implied_by.T)


def has_exclusive_pair(pseudo: ArrayLike, negative: ArrayLike, threshold: float) -> jax.Array:
    """Documents with two labels of which one all but rules out the other.

    Args:
      pseudo: bool [X, K].
      negative: NegA(m, n), [K, K].
      threshold: a pair is exclusive where NegA exceeds it, in either direction.

    Returns:
      bool [X].
    """
    return _with_exclusive(*_checked_pair(pseudo, "negative", negative), threshold)


@jax.jit
def _with_exclusive(pseudo: jax.Array, negative: jax.Array, threshold: ArrayLike) -> jax.Array:
    exclusive = negative > threshold
    return jnp.any(pseudo & _any_label(pseudo, exclusive | exclusive.T), axis=1)


def has_no_label(pseudo: ArrayLike) -> jax.Array:
    """Documents with no pseudo label at all, bool [X, K] -> bool [X]: the hard-to-learn ones."""
    check_rank("pseudo", pseudo, "XK")
    return _without_any(jnp.asarray(pseudo))


@jax.jit
def _without_any(pseudo: jax.Array) -> jax.Array:
    return ~jnp.any(pseudo, axis=1)


def _any_label(pseudo: jax.Array, relation: jax.Array) -> jax.Array:
    """Which labels n have a relation (m, n) to some label m of the document, bool [X, K]."""
    return jnp.matmul(pseudo.astype(jnp.float32), relation.astype(jnp.float32)) > 0.5


def _checked_pair(pseudo: ArrayLike, name: str, matrix: ArrayLike) -> tuple[jax.Array, jax.Array]:
    check_rank("pseudo", pseudo, "XK")
    check_rank(name, matrix, "KK")
    pseudo, matrix = jnp.asarray(pseudo).astype(bool), jnp.asarray(matrix)
    for axis in (0, 1):
        check_same_size("K", "pseudo", pseudo.shape[1], name, matrix.shape[axis])
    return pseudo, matrix
