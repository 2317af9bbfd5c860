"""From scored candidates to the query: the best, spread out (docs/method.md 7)."""

import math

import numpy as np

from crabjax.pool.kmeans import kmeans_picks


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


def select_diverse(
    totals: np.ndarray,
    vectors: np.ndarray,
    query_size: int,
    keep_fraction: float,
    generator: np.random.Generator,
) -> np.ndarray:
    """Positions of ``query_size`` distinct candidates with large gains, and different ones.

    Keeps the best ``keep_fraction`` by total gain where there are more than ``2 * query_size``
    candidates, normalises their vectors and takes those nearest the k-means centres.

    Args:
      totals: float32 [X], the row sums of S.
      vectors: float [X, D], what candidates are told apart by: their gains in the paper.
      query_size: at most X.
      keep_fraction: share of the candidates that k-means sees.
      generator: orders equal candidates and seeds k-means.

    Returns:
      int64 [query_size].
    """
    count = len(totals)
    if count > 2 * query_size:
        count = max(query_size, math.ceil(keep_fraction * count))
    kept = largest(totals, count, generator)
    return kept[kmeans_picks(normalised(vectors[kept]), query_size, generator)]


def normalised(rows: np.ndarray) -> np.ndarray:
    """Rows [X, D] scaled to length one; zero rows stay zero."""
    # Gains can be so small that their squares vanish in float32: scale by the largest first.
    largest_entry = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest_entry > 0, largest_entry, 1)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)
