"""k-means on the host, and the distinct documents that stand for its centres."""

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

# Each thread adds its share of a centre in the order it finishes. Two shares add up to the same
# float either way, three do not: more threads would make equal runs differ.
_DETERMINISTIC_THREADS = 2


def kmeans_picks(embeddings: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Positions of ``count`` distinct rows, each the nearest one left to a k-means centre.

    Args:
      embeddings: float [X, D]; rows may be equal or zero.
      count: the number of clusters and of picks; all X rows are picked if it is larger.
      generator: seeds the k-means++ start.

    Returns:
      int64 [min(count, X)].
    """
    if count == 0 or count >= len(embeddings):
        return np.arange(min(count, len(embeddings)))
    clusters = KMeans(count, n_init="auto", random_state=int(generator.integers(2**31)))
    with warnings.catch_warnings(), threadpool_limits(_DETERMINISTIC_THREADS, user_api="openmp"):
        # Fewer distinct rows than clusters is no fault here: the picks below stay distinct.
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters.fit(embeddings)
    return _nearest_distinct(embeddings, clusters.cluster_centers_)


def _nearest_distinct(embeddings: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """For each centre in turn, the nearest row that no earlier centre took."""
    # |row - centre|^2 without |centre|^2, which is the same for every row
    distances = np.sum(embeddings**2, axis=1) - 2.0 * centres @ embeddings.T  # [count, X]
    picks = np.empty(len(centres), dtype=np.int64)
    for position, row in enumerate(distances):
        picks[position] = np.argmin(row)
        distances[:, picks[position]] = np.inf
    return picks
