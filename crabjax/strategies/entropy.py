"""Entropy sampling."""

import jax
import numpy as np
from scipy.special import entr

from crabjax.config import StrategyConfig
from crabjax.pool.randomness import host_generator
from crabjax.pool.select import largest
from crabjax.strategies.base import Pool, Selection, register
from crabjax.strategies.common import mean_probabilities


@register("entropy")
def entropy(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """The largest entropy of the ensemble's prediction, summed over labels.

    Lewis and Gale (SIGIR 1994) proposed uncertainty sampling; Settles (2009) reviews its entropy
    form. Each label is a binary variable of its own, so there is no softmax over labels.
    """
    del config
    scores = binary_entropy(mean_probabilities(pool)[pool.unlabelled]).sum(axis=1)
    best = largest(scores, query_size, host_generator(key))
    return Selection(pool.unlabelled[best], {})


def binary_entropy(probabilities: np.ndarray) -> np.ndarray:
    """-p log p - (1-p) log(1-p), in nats, elementwise."""
    return entr(probabilities) + entr(1 - probabilities)
