"""BALD: where the members disagree."""

import jax
import numpy as np
from scipy.special import expit

from crabjax.config import StrategyConfig
from crabjax.pool.randomness import host_generator
from crabjax.pool.select import largest
from crabjax.strategies.base import Pool, Selection, register
from crabjax.strategies.common import mean_probabilities
from crabjax.strategies.entropy import binary_entropy


@register("bald")
def bald(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """The largest mutual information between label and member, averaged over labels.

    Houlsby, Huszar, Ghahramani and Lengyel (2011), with the ensemble in place of the posterior.
    """
    del config
    scores = mutual_information(pool).mean(axis=1)
    best = largest(scores, query_size, host_generator(key))
    return Selection(pool.unlabelled[best], {})


def mutual_information(pool: Pool) -> np.ndarray:
    """Entropy of the mean minus mean entropy of the members, [u, K]."""
    mean = mean_probabilities(pool)[pool.unlabelled]
    members = sum(binary_entropy(expit(member[pool.unlabelled])) for member in pool.logits)
    return binary_entropy(mean) - members / len(pool.logits)
