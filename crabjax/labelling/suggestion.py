"""Which documents of a person's pool to label next, and why."""

from typing import NamedTuple

import jax
import numpy as np

from crabjax.pool.diverse import first_batch

DIVERSE, DRAWN = "diverse", "random"


class Suggestion(NamedTuple):
    """The documents to label next.

    Attributes:
      indices: int64 [n], positions in the pool that was given.
      scores: float32 [n], the strategy's score, larger is better; NaN where it has none.
      probabilities: float32 [n, K], the ensemble's; NaN in a cold start.
      predicted: bool [n, K], which labels the ensemble would give; none in a cold start.
      sources: why each document was looked at: "diverse", then "random", in a cold start; for CRAB
        "label_wise" (has a pseudo label), "negative", "hard" (has none) or "fill"; else the
        strategy's name.
    """

    indices: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray
    predicted: np.ndarray
    sources: list[str]


Picks = tuple[np.ndarray, np.ndarray, list[str]]
"""Chosen rows of all texts seen, with the scores and sources of a :class:`Suggestion`."""


def cover(key: jax.Array, inputs: np.ndarray, unlabelled: np.ndarray, n: int) -> Picks:
    """A cold start, without any opinion about labels: half covers all documents, half is drawn.

    Args:
      key: of the draw.
      inputs: [N, ...], all texts seen.
      unlabelled: int64 [u], the rows to choose from.
      n: how many to choose, fewer if there are fewer.
    """
    covering, drawn = first_batch(key, inputs, unlabelled, n)
    rows = np.concatenate([covering, drawn])
    sources = [DIVERSE] * len(covering) + [DRAWN] * len(drawn)
    return rows, np.full(len(rows), np.nan, np.float32), sources
