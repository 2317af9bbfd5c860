"""Entropy sampling."""

import jax
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator
from crabjax.pool.select import largest
from crabjax.scoring.beta import BetaRule, beta_entropy
from crabjax.strategies.base import Selection, register
from crabjax.strategies.given import Pool


@register("entropy", needs_labelled=False)
def entropy(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """The largest entropy of the ensemble's prediction, summed over labels.

    Lewis and Gale (SIGIR 1994) proposed uncertainty sampling; Settles (2009) reviews its entropy
    form. Each label is a binary variable of its own, so there is no softmax over labels.
    """
    del config
    scores = np.asarray(predictive_entropy(pool.logits))[pool.unlabelled]
    best = largest(scores, query_size, host_generator(key))
    return Selection(pool.unlabelled[best], {}, scores[best])


@jax.jit
def predictive_entropy(logits: jax.Array) -> jax.Array:
    """Entropy of the members' mean in nats, summed over labels, [E, N, K] -> [N]."""
    mean = jax.nn.sigmoid(logits).mean(axis=0)
    return beta_entropy(mean, BetaRule(0.0, 0.0)).sum(axis=1)
