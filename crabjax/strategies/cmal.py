"""CMAL: uncertain labels that the confident ones do not already explain."""

import jax
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator
from crabjax.pool.select import largest
from crabjax.strategies.base import Selection, register
from crabjax.strategies.common import mean_probabilities, revealed_labels
from crabjax.strategies.given import Pool

_CONFIDENT = 0.5  # |2p - 1| at least this: p outside (0.25, 0.75)
_EPSILON = 1e-12


@register("cmal", needs_labelled=False)
def cmal(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """Uncertainty, weighted down where correlated labels are present, up for rare labels.

    Yu et al. (TKDE 2020) query pairs of a document and a label and published no code; this is a
    reconstruction for whole documents: the pair scores are summed over labels. A label is
    confidently predicted where its probability is at most 0.25 or at least 0.75.
    """
    del config
    scores = cmal_scores(mean_probabilities(pool)[pool.unlabelled], revealed_labels(pool))
    best = largest(scores, query_size, host_generator(key))
    return Selection(pool.unlabelled[best], {}, scores[best])


def cmal_scores(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """sum_k u_k (1 - r_k) z_k of docs/method.md 12.

    Args:
      probabilities: float [u, K].
      labels: bool [n, K], of the labelled documents.

    Returns:
      float [u].
    """
    present = labels.astype(np.float64)
    pairs = present.T @ present  # [K, K]
    counts = np.diagonal(pairs)
    cosine = pairs / np.maximum(np.sqrt(np.outer(counts, counts)), 1.0)
    margin = np.abs(2.0 * probabilities - 1.0)
    confident = (margin >= _CONFIDENT).astype(np.float64)
    positive = confident * (probabilities > 0.5)
    explained = positive @ cosine / (confident @ cosine + _EPSILON)
    rarity = 1.0 / (1.0 + counts / len(labels))
    return ((1.0 - margin) * (1.0 - explained)) @ rarity
