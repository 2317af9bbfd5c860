"""BALD: where the members disagree."""

import jax
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator
from crabjax.pool.select import largest
from crabjax.scoring.beta import BetaRule, beta_entropy
from crabjax.strategies.base import Selection, register
from crabjax.strategies.given import Pool


@register("bald", needs_disagreement=True, needs_labelled=False)
def bald(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """The largest mutual information between label and member, averaged over labels.

    Houlsby, Huszar, Ghahramani and Lengyel (2011), with the ensemble in place of the posterior.
    """
    del config
    scores = np.asarray(mutual_information(pool.logits))[pool.unlabelled]
    best = largest(scores, query_size, host_generator(key))
    return Selection(pool.unlabelled[best], {}, scores[best])


@jax.jit
def mutual_information(logits: jax.Array) -> jax.Array:
    """Entropy of the mean minus the members' mean entropy, over labels, [E, N, K] -> [N]."""
    shannon = BetaRule(0.0, 0.0)
    members = jax.nn.sigmoid(logits)
    disagreement = beta_entropy(members.mean(axis=0), shannon) - beta_entropy(
        members, shannon
    ).mean(axis=0)
    return disagreement.mean(axis=1)
