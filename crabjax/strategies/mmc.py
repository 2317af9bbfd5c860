"""MMC: maximum loss reduction with maximal confidence."""

import warnings

import jax
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator
from crabjax.pool.select import largest
from crabjax.strategies.base import Selection, register
from crabjax.strategies.common import mean_probabilities, revealed_labels
from crabjax.strategies.given import Pool


@register("mmc")
def mmc(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """The largest loss reduction if the most confident label set is the true one.

    Yang, Sun, Wang and Chen (KDD 2009). The ensemble's mean probabilities take the place of the
    original support vector machines' sigmoid outputs.
    """
    del config
    probabilities = mean_probabilities(pool)
    unlabelled = probabilities[pool.unlabelled]  # [u, K]
    counts = predict_counts(probabilities[pool.labelled], revealed_labels(pool), unlabelled)
    scores = loss_reduction(unlabelled, counts)
    best = largest(scores, query_size, host_generator(key))
    return Selection(pool.unlabelled[best], {}, scores[best])


def predict_counts(
    labelled_probabilities: np.ndarray, labels: np.ndarray, probabilities: np.ndarray
) -> np.ndarray:
    """The number of labels each document is expected to carry.

    A multinomial logistic regression on the sorted, normalised probabilities; a count that is the
    same for every labelled document is predicted as it is.

    Args:
      labelled_probabilities: float [n, K].
      labels: bool [n, K], of the same documents.
      probabilities: float [u, K].

    Returns:
      int64 [u].
    """
    counts = labels.sum(axis=1)
    if np.all(counts == counts[0]):
        return np.full(len(probabilities), counts[0])
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    regression = LogisticRegression(max_iter=1000)
    with warnings.catch_warnings():
        # A fit that stops early still ranks the counts, and separable counts never converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        regression.fit(_sorted_shares(labelled_probabilities), counts)
    return np.asarray(regression.predict(_sorted_shares(probabilities)))


def loss_reduction(probabilities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """sum_k (1 - yhat_k (2 P_k - 1)) / 2, yhat marking the ``counts`` most probable labels.

    Args:
      probabilities: float [u, K].
      counts: int [u].

    Returns:
      float [u].
    """
    descending = np.argsort(-probabilities, axis=1, kind="stable")
    rank = np.argsort(descending, axis=1, kind="stable")  # [u, K], 0 for the most probable
    predicted = np.where(rank < counts[:, None], 1.0, -1.0)
    return ((1.0 - predicted * (2.0 * probabilities - 1.0)) / 2.0).sum(axis=1)


def _sorted_shares(probabilities: np.ndarray) -> np.ndarray:
    """Rows in descending order, divided by their sums."""
    total = probabilities.sum(axis=1, keepdims=True)
    return -np.sort(-probabilities, axis=1) / np.where(total > 0, total, 1)
