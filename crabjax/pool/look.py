"""Which documents a round looks at, drawn before anything is predicted (docs/method.md 6).

Neither draw depends on a prediction, so only what is drawn need be predicted: a round costs the
same however large U is. Only a refinement that goes by the pseudo labels of all of U must see it.
Of a wide draw, predictions then say which part is scored.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import expit

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator

_AT_ONCE = 500  # documents, with all members and labels


@dataclass(frozen=True)
class AllBut:
    """The documents 0 to N - 1 but for some, in order, without a list of them: N may be large.

    Attributes:
      documents: N.
      without: int64 [n], sorted and distinct.
    """

    documents: int
    without: np.ndarray

    def __len__(self) -> int:
        return self.documents - len(self.without)

    def __getitem__(self, positions: np.ndarray) -> np.ndarray:
        """The documents at some positions [X] among those that are left."""
        left_before = self.without - np.arange(len(self.without))
        return positions + np.searchsorted(left_before, positions, side="right")


class Look(NamedTuple):
    """What a query looks at: rows of the training set.

    Attributes:
      candidates: int64 [X], sorted.
      anchors: int64 [P], in the order they were drawn; empty for strategies without.
      unlabelled: u, the documents of U, looked at or not.
      anchor_capacity: the most anchors there can be in any round.
    """

    candidates: np.ndarray
    anchors: np.ndarray
    unlabelled: int
    anchor_capacity: int

    @property
    def documents(self) -> np.ndarray:
        """Candidates and anchors together, int64 [X to X + P], sorted: a uniform sample of U."""
        if len(self.candidates) == self.unlabelled:
            return self.candidates
        return np.union1d(self.candidates, self.anchors)

    def at(self, rows: np.ndarray) -> "Look":
        """The same by places in ``rows``, sorted, which has all of them."""
        candidates, anchors = (np.searchsorted(rows, one) for one in self[:2])
        return self._replace(candidates=candidates, anchors=anchors)


def sample_size(query_size: int, config: StrategyConfig) -> int | None:
    """The most candidates that are drawn from U, never fewer than the query; None for all."""
    return config.candidate_limit and max(config.candidate_limit, query_size)


def first_size(query_size: int, config: StrategyConfig, documents: int) -> int | None:
    """The same where some of them are chosen: more, but of N documents only if N is larger yet."""
    size, first = sample_size(query_size, config), config.first_look
    return size if size is None or first is None or documents <= first else max(size, first)


def draw_look(
    key: jax.Array,
    unlabelled: np.ndarray | AllBut,
    limit: int | None,
    config: StrategyConfig,
    documents: int,
    *,
    with_anchors: bool,
) -> Look:
    """Draws candidates and anchors, each uniformly without replacement.

    Args:
      key: of the query.
      unlabelled: U, sorted rows of the training set.
      limit: the most candidates; None for all.
      config: how many anchors there are.
      documents: N; U never has more.
      with_anchors: whether the strategy has anchors.
    """
    size = len(unlabelled)
    if limit is None or size <= limit:
        candidates = unlabelled[np.arange(size)]
    else:
        places = host_generator(key, "limit").choice(size, limit, replace=False)
        candidates = unlabelled[np.sort(places)]
    if not with_anchors or size == 0:
        return Look(candidates, np.zeros(0, np.int64), size, 0)
    most = math.ceil(config.anchor_fraction * documents)
    capacity = min(most, config.anchor_limit or most)
    count = min(max(1, round(config.anchor_fraction * size)), capacity)
    places = host_generator(key, "anchors").choice(size, count, replace=False)
    return Look(candidates, unlabelled[places], size, capacity)


def disagreement(logits: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The variance of the members' probabilities, summed over labels, of some documents.

    Args:
      logits: of the members, [E, N, K].
      rows: int [X].
    """
    blocks = np.array_split(rows, -(-len(rows) // _AT_ONCE))
    return np.concatenate([expit(logits[:, some]).var(axis=0).sum(axis=1) for some in blocks])


def narrow(key: jax.Array, look: Look, spread: np.ndarray, limit: int) -> Look:
    """Keeps some candidates: half where members disagree most, half at random from the others.

    A pool of millions has few documents of a rare label, a uniform sample next to none. Where
    members disagree, labels are at stake; the others are for what no member knows of.

    Args:
      key: of the query.
      look: what was drawn, with X candidates.
      spread: how much members disagree on each, [X]; see :func:`disagreement`.
      limit: how many are kept.
    """
    generator = host_generator(key, "narrow")
    order = generator.permutation(len(spread))  # those that are disputed alike: in no order
    order = order[np.argsort(-spread[order], kind="stable")]
    disputed, others = np.split(order, [limit // 2])
    chance = generator.choice(others, limit - len(disputed), replace=False)
    return look._replace(candidates=look.candidates[np.sort([*disputed, *chance])])
