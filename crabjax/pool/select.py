"""From scored candidates to the query: the best, spread out (docs/method.md 7)."""

import math

import numpy as np

from crabjax.config import StrategyConfig
from crabjax.pool.kmeans import kmeans_picks

_FEW = 100  # labelled documents, up to which nothing falls


def largest(scores: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Positions of the ``count`` largest scores, best first, ties in random order.

    Args:
      scores: float [X] or [X, C]; further columns break ties of the earlier ones.
      count: at most X.
      generator: orders what still ties.
    """
    columns = np.atleast_2d(scores.T)  # [C, X]
    # lexsort is ascending and its last key comes first
    order = np.lexsort((generator.random(columns.shape[1]), *-columns[::-1]))
    return order[:count]


def kept_count(candidates: int, query_size: int, labelled: int, config: StrategyConfig) -> int:
    """How many of X candidates, the best, k-means sees: all, up to twice the query.

    Of more, ``keep_fraction``, and at least the query. Gains of members that have learnt from more
    documents say more, so with more than 100 labelled ones the share falls, if it may, as their
    number grows, to no less than ``keep_least``; twice the query stay for k-means to choose from,
    unless the whole share is fewer.
    """
    if candidates <= 2 * query_size:
        return candidates
    most = max(query_size, math.ceil(config.keep_fraction * candidates))
    if config.keep_least is None:
        return most
    share = max(config.keep_least, config.keep_fraction * _FEW / max(_FEW, labelled))
    return min(most, max(2 * query_size, math.ceil(share * candidates)))


def select_diverse(
    totals: np.ndarray,
    vectors: np.ndarray,
    query_size: int,
    kept: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Positions of ``query_size`` distinct candidates with large gains, and different ones.

    Keeps the best by total gain, normalises their vectors and takes those nearest the k-means
    centres.

    Args:
      totals: float32 [X], the row sums of S.
      vectors: float [X, D], what candidates are told apart by: their gains in the paper.
      query_size: at most ``kept``.
      kept: how many candidates k-means sees, at most X; see :func:`kept_count`.
      generator: orders equal candidates and seeds k-means.

    Returns:
      int64 [query_size].
    """
    best = largest(totals, kept, generator)
    return best[kmeans_picks(normalised(vectors[best]), query_size, generator)]


def normalised(rows: np.ndarray) -> np.ndarray:
    """Rows [X, D] scaled to length one; zero rows stay zero."""
    # Gains can be so small that their squares vanish in float32: scale by the largest first.
    largest_entry = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest_entry > 0, largest_entry, 1)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)
