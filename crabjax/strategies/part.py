"""Pools of a part of the training set: what a query looks at, and the labelled documents."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crabjax.config import StrategyConfig
from crabjax.pool.look import Look
from crabjax.strategies.base import Strategy
from crabjax.strategies.given import Pool


class Part(NamedTuple):
    """The documents that a query knows of; all are rows of the training set.

    Attributes:
      look: what it looks at.
      labelled: int64 [n], sorted.
      rows: int64 [r], sorted, all of these.
      predicted: int64 [p], sorted, those whose logits are read.
      size: of the axis N of a pool: as many as there can be, so that shapes stay the same.
    """

    look: Look
    labelled: np.ndarray
    rows: np.ndarray
    predicted: np.ndarray
    size: int

    def pool(self, logits: np.ndarray, labels: np.ndarray, round: int, rounds: int) -> Pool:
        """The pool of these documents.

        Args:
          logits: float32 [E, p, K], of ``predicted``.
          labels: bool [n, K], of ``labelled``.
          round: of the query, from 0.
          rounds: how many there will be.
        """
        place = lambda documents: np.searchsorted(self.rows, documents)
        members, _, classes = logits.shape
        known = np.zeros((members, self.size, classes), np.float32)
        known[:, place(self.predicted)] = logits
        revealed = np.zeros((self.size, classes), bool)
        revealed[place(self.labelled)] = labels
        look = self.look.at(self.rows)
        return Pool(
            logits=known,
            labels=revealed,
            labelled=place(self.labelled),
            unlabelled=look.documents,
            round=round,
            rounds=rounds,
            look=look,
            rows=self.rows,
        )


def part_of(
    strategy: Strategy,
    look: Look,
    labelled: np.ndarray,
    most_labelled: int,
    documents: int,
    query_size: int,
    config: StrategyConfig,
) -> Part:
    """What has to be known of a sample of U.

    Args:
      strategy: that will be asked.
      look: what it looks at.
      labelled: int64 [n], sorted.
      most_labelled: how many there can be in any round.
      documents: N, of the whole training set.
      query_size: documents to choose.
      config: of the strategy.
    """
    seen = look.documents
    rows = np.union1d(seen, labelled)
    candidates = strategy.most_candidates(query_size, config) or documents
    most = most_labelled + candidates + look.anchor_capacity
    predicted = rows if strategy.needs_labelled else seen
    return Part(look, labelled, rows, predicted, min(documents, most))


def with_features(
    pool: Pool, strategy: Strategy, features_of: Callable[[np.ndarray], np.ndarray]
) -> Pool:
    """The pool with document vectors of what the strategy reads, zeros elsewhere.

    Args:
      pool: that has been drawn from.
      strategy: that will be asked.
      features_of: from rows of the training set [X] to their vectors [X, D].
    """
    places = pool.candidates
    if strategy.needs_labelled:
        places = np.union1d(places, pool.labelled)
    found = features_of(places if pool.rows is None else pool.rows[places])
    features = np.zeros((pool.logits.shape[1], found.shape[1]), np.float32)
    features[places] = found
    return pool._replace(features=features)
