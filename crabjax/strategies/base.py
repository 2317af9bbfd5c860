"""What every query strategy gives back, and how it is found by name.

A strategy is a function ``(key, pool, query_size, config) -> Selection``::

    @register("mine")
    def mine(key, pool, query_size, config):
        return Selection(pool.unlabelled[:query_size], {})
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.files import did_you_mean
from crabjax.pool.look import (
    AllBut,
    Look,
    disagreement,
    draw_look,
    first_size,
    narrow,
    sample_size,
)
from crabjax.strategies.given import Pool, PoolError


class EmptyPoolError(ValueError):
    """There is no unlabelled document left to query."""


class UnknownStrategyError(ValueError):
    """No strategy is registered under this name."""


class SelectionError(ValueError):
    """A strategy chose what cannot be labelled next: its own fault, not the pool's."""


class StrategyWarning(UserWarning):
    """A query that will be answered, but cannot be meant."""


class Selection(NamedTuple):
    """The documents to label next, and what the record of the round says about them."""

    indices: np.ndarray  # int64 [query_size], rows of the training set
    info: dict[str, Any]
    scores: np.ndarray | None = None  # float [query_size], larger is better, where there are any
    sources: list[str] | None = None  # why each was looked at, where the strategy says


Select = Callable[[jax.Array, Pool, int, StrategyConfig], Selection]


@dataclass(frozen=True)
class Strategy:
    """A registered strategy; calling it checks the pool and caps the query at its size.

    See :func:`register` for the attributes.
    """

    name: str
    select: Select
    needs_features: Callable[[StrategyConfig], bool]
    needs_disagreement: bool
    needs_anchors: bool
    needs_labelled: bool
    needs_all: Callable[[StrategyConfig], bool]
    narrows: bool

    def check_members(self, members: int) -> None:
        """Warns where a strategy could only pick arbitrary documents.

        Warns:
          StrategyWarning: if it scores by what members disagree on, and there is one member.
        """
        if self.needs_disagreement and members == 1:
            warnings.warn(
                f"ensemble.members: {self.name} scores by what members disagree on; 1 member "
                "never does, so its picks are arbitrary: use 2 or more",
                StrategyWarning,
                stacklevel=2,
            )

    def samples(
        self, unlabelled: int, query_size: int, config: StrategyConfig, documents: int
    ) -> bool:
        """Whether it looks at only a part of the unlabelled ones of so many documents."""
        limit = self.most_drawn(query_size, config, documents)
        return limit is not None and unlabelled > limit

    def most_drawn(self, query_size: int, config: StrategyConfig, documents: int) -> int | None:
        """How many of N documents it draws from U at most; None for all."""
        if self.needs_all(config):
            return None
        if self.narrows:
            return first_size(query_size, config, documents)
        return sample_size(query_size, config)

    def look(
        self,
        key: jax.Array,
        unlabelled: np.ndarray | AllBut,
        query_size: int,
        config: StrategyConfig,
        documents: int,
    ) -> Look:
        """Draws what a query of ``key`` looks at; see :func:`crabjax.pool.look.draw_look`."""
        limit = self.most_drawn(query_size, config, documents)
        anchors = self.needs_anchors
        return draw_look(key, unlabelled, limit, config, documents, with_anchors=anchors)

    def narrowed(self, key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Pool:
        """The pool with as many candidates as are scored; see :func:`crabjax.pool.look.narrow`."""
        limit = sample_size(query_size, config)
        if not self.narrows or self.needs_all(config) or not limit or len(pool.candidates) <= limit:
            return pool
        spread = disagreement(pool.logits, pool.candidates)
        return pool._replace(look=narrow(key, pool.looked, spread, limit))

    def __call__(
        self, key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig
    ) -> Selection:
        """Chooses min(query_size, u) distinct documents of ``pool.unlabelled``.

        Where nobody did before, what to look at is drawn first.

        Returns:
          The selection; its indices are rows of the training set.

        Raises:
          EmptyPoolError: if nothing is unlabelled.
          PoolError: if the rows are not sorted.
          SelectionError: if the strategy chose anything else.
          ValueError: if the query size is not positive, or features are needed and absent.
        """
        if (np.diff(pool.unlabelled) <= 0).any():
            raise PoolError("pool.unlabelled: expected sorted, distinct rows; Pool.of sorts them")
        if len(pool.unlabelled) == 0:
            raise EmptyPoolError(f"{self.name}: no unlabelled document is left to query")
        if query_size < 1:
            raise ValueError(f"query_size: expected at least 1, found {query_size}")
        if self.needs_features(config) and pool.features is None:
            raise ValueError(f"{self.name}: expected pool.features of shape [N, D], found None")
        if pool.look is None:
            documents = pool.logits.shape[1]
            pool = pool.looking_at(self.look(key, pool.unlabelled, query_size, config, documents))
        pool = self.narrowed(key, pool, query_size, config)
        count = min(query_size, len(pool.candidates))
        found = self.select(key, pool, count, config)
        self._check_picks(found.indices, pool.unlabelled, count)
        return found if pool.rows is None else found._replace(indices=pool.rows[found.indices])

    def _check_picks(self, picks: np.ndarray, unlabelled: np.ndarray, count: int) -> None:
        expected = f"strategy {self.name}: expected {count} distinct rows of pool.unlabelled"
        picks = np.asarray(picks)
        if picks.shape != (count,) or not np.issubdtype(picks.dtype, np.integer):
            raise SelectionError(f"{expected}, found {picks.dtype} {picks.shape}")
        if len(np.unique(picks)) < count:
            raise SelectionError(f"{expected}, found one twice")
        if not (known := np.isin(picks, unlabelled)).all():
            raise SelectionError(f"{expected}, found row {picks[~known][0]}")


_registry: dict[str, Strategy] = {}


def register(
    name: str,
    *,
    needs_features: bool | Callable[[StrategyConfig], bool] = False,
    needs_disagreement: bool = False,
    needs_anchors: bool = False,
    needs_labelled: bool = True,
    needs_all: bool | Callable[[StrategyConfig], bool] = False,
    narrows: bool = False,
) -> Callable[[Select], Strategy]:
    """Makes the decorated function available to :func:`get_strategy` as ``name``.

    Args:
      name: what ``strategy.name`` calls it.
      needs_features: whether ``pool.features`` must be there; may depend on the settings.
      needs_disagreement: whether one member alone gives every document the same score.
      needs_anchors: whether it reads ``pool.anchors``.
      needs_labelled: whether it reads logits or features of labelled documents.
      needs_all: whether it must see all of U, however large; may depend on the settings.
      narrows: whether it chooses its candidates from ``first_look`` documents, half of them by
        disagreement; else they are drawn at random.
    """
    features, everything = _by_settings(needs_features), _by_settings(needs_all)

    def decorate(select: Select) -> Strategy:
        if name in _registry:
            raise ValueError(f"strategy {name!r} is already registered")
        rest = needs_disagreement, needs_anchors, needs_labelled, everything, narrows
        _registry[name] = Strategy(name, select, features, *rest)
        return _registry[name]

    return decorate


def _by_settings(
    need: bool | Callable[[StrategyConfig], bool],
) -> Callable[[StrategyConfig], bool]:
    return need if callable(need) else lambda _: need


def get_strategy(name: str) -> Strategy:
    """The strategy registered as ``name``.

    Raises:
      UnknownStrategyError: listing the known names and the nearest one.
    """
    if name not in _registry:
        known, hint = ", ".join(strategy_names()), did_you_mean(name, strategy_names())
        raise UnknownStrategyError(f"strategy: expected one of {known}, found {name!r}{hint}")
    return _registry[name]


def strategy_names() -> list[str]:
    """The names of all registered strategies, sorted."""
    return sorted(_registry)
