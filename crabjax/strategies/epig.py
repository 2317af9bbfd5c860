"""EPIG: what a label would say about other documents."""

import jax

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator
from crabjax.pool.score import pool_totals
from crabjax.pool.select import largest
from crabjax.scoring.beta import BetaRule
from crabjax.strategies.base import Selection, register
from crabjax.strategies.given import Pool


@register("epig", needs_disagreement=True, needs_anchors=True, needs_labelled=False)
def epig(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """The largest expected predictive information gain.

    Bickford Smith, Kirsch, Farquhar, Gal, Foster and Rainforth (AISTATS 2023). The mutual
    information of a candidate's and an anchor's label is the gain of the logarithmic rule; it is
    summed over labels and averaged over anchors, which are drawn from the pool itself.
    """
    del config
    anchors = pool.anchors
    totals = pool_totals(pool.logits, pool.candidates, anchors, BetaRule(0.0, 0.0))
    scores = totals / anchors.count
    best = largest(scores, query_size, host_generator(key, "ties"))
    return Selection(pool.candidates[best], {}, scores[best])
