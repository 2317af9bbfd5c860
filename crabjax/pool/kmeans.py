"""k-means on the host, and the distinct documents that stand for its centres."""

import math
import warnings

import numpy as np

# Each thread adds its share of a centre in the order it finishes. Two shares add up to the same
# float either way, three do not: more threads would make equal runs differ.
_DETERMINISTIC_THREADS = 2


def kmeans_picks(embeddings: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Positions of ``count`` distinct rows, each the nearest one left to a k-means centre.

    Args:
      embeddings: float [X, D]; rows may be equal or zero.
      count: the number of clusters and of picks; all X rows are picked if it is larger.
      generator: draws the starting centres.

    Returns:
      int64 [min(count, X)].
    """
    if count == 0 or count >= len(embeddings):
        return np.arange(min(count, len(embeddings)))
    # Here, because loading it takes a second that a run spends better on its first fit.
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    start = embeddings[starting_rows(embeddings, count, generator)]
    clusters = KMeans(count, init=start, random_state=0)  # pyright: ignore[reportArgumentType]
    with warnings.catch_warnings(), threadpool_limits(_DETERMINISTIC_THREADS, user_api="openmp"):
        # Fewer distinct rows than clusters is no fault here: the picks below stay distinct.
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters.fit(embeddings)
    return _nearest_distinct(embeddings, clusters.cluster_centers_)


def starting_rows(embeddings: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Greedy k-means++ (Arthur and Vassilvitskii 2007): far rows are likely, the best of a few.

    scikit-learn's own takes some twenty times as long as the clustering itself on float32 rows:
    it converts them to float64 for every centre.

    Returns:
      int64 [count]; may repeat where fewer rows are distinct.
    """
    lengths = np.sum(embeddings**2, axis=1)  # [X]
    trials = 2 + int(math.log(count))
    rows = np.empty(count, dtype=np.int64)
    tried, nearest = generator.integers(len(embeddings), size=1), np.full_like(lengths, np.inf)
    for position in range(count):
        products = (embeddings @ embeddings[tried].T).T  # this order is twice as fast
        distances = lengths[tried, None] + lengths - 2 * products
        nearer = np.minimum(nearest, np.maximum(distances, 0))  # [trials, X]
        best = np.argmin(nearer.sum(axis=1))
        rows[position], nearest = tried[best], nearer[best]
        cumulative = np.cumsum(nearest, dtype=np.float64)
        tried = np.searchsorted(cumulative, generator.random(trials) * cumulative[-1])
    return rows


def _nearest_distinct(embeddings: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """For each centre in turn, the nearest row that no earlier centre took."""
    # |row - centre|^2 without |centre|^2, which is the same for every row
    distances = np.sum(embeddings**2, axis=1) - (2 * centres) @ embeddings.T  # [count, X]
    picks = np.empty(len(centres), dtype=np.int64)
    for position, row in enumerate(distances):
        picks[position] = np.argmin(row)
        distances[:, picks[position]] = np.inf
    return picks
