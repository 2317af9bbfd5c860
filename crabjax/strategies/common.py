"""What several strategies read from the pool."""

import numpy as np
from scipy.special import expit

from crabjax.config import StrategyConfig
from crabjax.pool.refine import Beliefs, pool_traits
from crabjax.scoring.correlation import Correlation, label_correlation
from crabjax.strategies.given import Pool


def revealed_labels(pool: Pool) -> np.ndarray:
    """The labels of the labelled documents, bool [n, K].

    Raises:
      ValueError: if there is no labelled document.
    """
    if len(pool.labelled) == 0:
        raise ValueError("pool.labelled: expected at least one labelled document, found none")
    return pool.labels[pool.labelled].astype(bool)


def revealed_correlation(pool: Pool, config: StrategyConfig) -> Correlation:
    """Label correlations of the labelled documents, [K, K] each."""
    # Rows without labels count for nothing, and a fixed N spares a compilation every round.
    labels = np.zeros(pool.labels.shape, dtype=bool)
    labels[pool.labelled] = revealed_labels(pool)
    return label_correlation(labels, config.min_support)


def mean_cardinality(pool: Pool) -> float:
    """The mean number of labels of a labelled document."""
    return float(revealed_labels(pool).sum(axis=1).mean())


def mean_probabilities(pool: Pool) -> np.ndarray:
    """The ensemble's prediction for every training document, float32 [N, K]."""
    members = (expit(member) for member in pool.logits)  # one at a time: [N, K] can be large
    return sum(members, np.zeros(pool.labels.shape, np.float32)) / np.float32(len(pool.logits))


def beliefs_of(pool: Pool, config: StrategyConfig) -> Beliefs:
    """Correlations and pseudo labels of a pool: those it brings along, else worked out here."""
    if pool.beliefs is not None:
        return pool.beliefs
    correlation = revealed_correlation(pool, config)
    traits = pool_traits(mean_probabilities(pool), correlation, pool.unlabelled, config)
    return Beliefs(correlation, traits)
