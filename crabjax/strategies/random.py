"""Random sampling, the baseline."""

import jax

from crabjax.config import StrategyConfig
from crabjax.keys import draw_up_to, host_generator
from crabjax.strategies.base import Selection, register
from crabjax.strategies.given import Pool


@register("random", needs_labelled=False)
def random(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """``query_size`` unlabelled documents, uniformly without replacement."""
    del config
    return Selection(draw_up_to(host_generator(key), pool.unlabelled, query_size), {})
