"""Which documents of a person's pool to label next, and why."""

from typing import NamedTuple

import jax
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.ensemble import gather
from crabjax.keys import host_generator
from crabjax.pool.diverse import diverse_picks
from crabjax.pool.look import draw_look
from crabjax.strategies import Pool, get_strategy

DIVERSE = "diverse"


class Suggestion(NamedTuple):
    """The documents to label next.

    Attributes:
      indices: int64 [n], positions in the pool that was given.
      scores: float32 [n], the strategy's score, larger is better; NaN where it has none.
      probabilities: float32 [n, K], the ensemble's; NaN in a cold start.
      predicted: bool [n, K], which labels the ensemble would give; none in a cold start.
      sources: why each document was looked at: "diverse" in a cold start; for CRAB "label_wise"
        (has a pseudo label), "negative", "hard" (has none) or "fill"; else the strategy's name.
    """

    indices: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray
    predicted: np.ndarray
    sources: list[str]


class Picks(NamedTuple):
    """Chosen rows of all texts seen, with the scores and sources of a :class:`Suggestion`."""

    rows: np.ndarray
    scores: np.ndarray
    sources: list[str]


def cover(
    key: jax.Array, inputs: np.ndarray, unlabelled: np.ndarray, n: int, config: StrategyConfig
) -> Picks:
    """A cold start: documents that cover all of them, without any opinion about labels.

    Of many documents, a sample is covered, drawn as for a query.

    Args:
      key: of the draw.
      inputs: [N, ...], all texts seen.
      unlabelled: int64 [u], the rows to choose from.
      n: how many to choose, fewer if there are fewer.
      config: of the strategy: how many are looked at.
    """
    needs = {"all_candidates": False, "with_anchors": False}
    looked_at = draw_look(key, unlabelled, n, config, len(inputs), **needs).candidates
    picks = diverse_picks(gather(inputs, looked_at), n, host_generator(key))
    no_scores = np.full(len(picks), np.nan, np.float32)
    return Picks(looked_at[picks], no_scores, [DIVERSE] * len(picks))


def query(key: jax.Array, pool: Pool, n: int, config: StrategyConfig) -> Picks:
    """What the strategy of a config chooses from the pool."""
    strategy = get_strategy(config.name)
    rows, _, scores, sources = strategy(key, pool, n, config)
    if scores is None:
        scores = np.full(len(rows), np.nan)
    return Picks(rows, np.asarray(scores, np.float32), sources or [config.name] * len(rows))
