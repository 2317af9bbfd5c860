"""Core-set selection: cover the feature space."""

import jax
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.strategies.base import Selection, register
from crabjax.strategies.given import Pool

_LABELLED_AT_ONCE = 256


@register("coreset", needs_features=True)
def coreset(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """Greedy k-centre: always the document farthest from everything labelled or chosen.

    Sener and Savarese (ICLR 2018), the greedy form without the mixed-integer refinement.
    Nothing is drawn at random: the labelled documents are the first centres.
    """
    del key, config
    assert pool.features is not None
    features = pool.features[pool.unlabelled]  # [u, D]
    lengths = np.sum(features**2, axis=1)  # [u]
    nearest = np.full(len(features), np.inf, dtype=features.dtype)  # squared distances
    for start in range(0, len(pool.labelled), _LABELLED_AT_ONCE):
        centres = pool.features[pool.labelled[start : start + _LABELLED_AT_ONCE]]
        distances = np.sum(centres**2, axis=1)[:, None] - (2 * centres) @ features.T + lengths
        nearest = np.minimum(nearest, distances.min(axis=0))
    picks = np.empty(query_size, dtype=np.int64)
    for position in range(query_size):
        pick = picks[position] = np.argmax(nearest)
        distances = lengths[pick] - features @ (2 * features[pick]) + lengths
        nearest = np.minimum(nearest, distances)
        nearest[picks[: position + 1]] = -np.inf
    return Selection(pool.unlabelled[picks], {})
