"""BESRA: expected loss reduction by beta scoring rules on the whole pool."""

import jax

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator
from crabjax.pool.score import pool_gains
from crabjax.pool.select import kept_count, select_diverse
from crabjax.scoring.beta import BetaRule
from crabjax.strategies.base import Selection, register
from crabjax.strategies.given import Pool


@register("besra", needs_disagreement=True, needs_anchors=True, needs_labelled=False)
def besra(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """Gains of equal label weight over all candidates, spread out by k-means.

    Tan, Nguyen, Du and Buntine (AAAI 2024), who look at all of U. The gain is Eq. 2 of the CRAB
    paper: the released code's score differs from the published one.
    """
    anchors = pool.anchors
    rule = BetaRule(config.alpha, config.beta)
    gains = pool_gains(pool.logits, pool.candidates, anchors, rule)
    start = host_generator(key, "cluster")
    totals = gains.sum(axis=1)
    kept = kept_count(len(totals), query_size, len(pool.labelled), config)
    picks = select_diverse(totals, gains, query_size, kept, start)
    return Selection(pool.candidates[picks], {}, totals[picks] / anchors.count)
