"""What every query strategy is given, what it gives back, and how it is found by name.

A strategy is a function ``(key, pool, query_size, config) -> Selection``::

    @register("mine")
    def mine(key, pool, query_size, config):
        return Selection(pool.unlabelled[:query_size], {})
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.pool.refine import Beliefs


class EmptyPoolError(ValueError):
    """There is no unlabelled document left to query."""


class UnknownStrategyError(ValueError):
    """No strategy is registered under this name."""


class Pool(NamedTuple):
    """The state of active learning before a query. Indices are rows of the training set.

    Documents held out for validation are neither labelled nor unlabelled.
    """

    logits: np.ndarray  # float32 [E, N, K]
    labels: np.ndarray  # bool [N, K]; only the rows in `labelled` may be read
    labelled: np.ndarray  # int64 [n], sorted
    unlabelled: np.ndarray  # int64 [u], sorted
    features: np.ndarray | None = None  # float32 [N, D]
    round: int = 0
    rounds: int = 1
    beliefs: Beliefs | None = None  # where somebody needed them before; see ``beliefs_of``


class Selection(NamedTuple):
    """The documents to label next, and what the record of the round says about them."""

    indices: np.ndarray  # int64 [query_size], rows of the training set
    info: dict[str, Any]
    scores: np.ndarray | None = None  # float [query_size], larger is better, where there are any
    sources: list[str] | None = None  # why each was looked at, where the strategy says


Select = Callable[[jax.Array, Pool, int, StrategyConfig], Selection]


@dataclass(frozen=True)
class Strategy:
    """A registered strategy; calling it checks the pool and caps the query at its size."""

    name: str
    select: Select
    needs_features: Callable[[StrategyConfig], bool]

    def __call__(
        self, key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig
    ) -> Selection:
        """Chooses min(query_size, u) distinct documents of ``pool.unlabelled``.

        Raises:
          EmptyPoolError: if nothing is unlabelled.
          ValueError: if the query size is not positive, or features are needed and absent.
        """
        if len(pool.unlabelled) == 0:
            raise EmptyPoolError(f"{self.name}: no unlabelled document is left to query")
        if query_size < 1:
            raise ValueError(f"query_size: expected at least 1, found {query_size}")
        if self.needs_features(config) and pool.features is None:
            raise ValueError(f"{self.name}: expected pool.features of shape [N, D], found None")
        return self.select(key, pool, min(query_size, len(pool.unlabelled)), config)


_registry: dict[str, Strategy] = {}


def register(
    name: str, *, needs_features: bool | Callable[[StrategyConfig], bool] = False
) -> Callable[[Select], Strategy]:
    """Makes the decorated function available to :func:`get_strategy` as ``name``.

    Args:
      name: what ``strategy.name`` calls it.
      needs_features: whether ``pool.features`` must be there; may depend on the settings.
    """
    needs = needs_features if callable(needs_features) else lambda _: needs_features

    def decorate(select: Select) -> Strategy:
        if name in _registry:
            raise ValueError(f"strategy {name!r} is already registered")
        _registry[name] = Strategy(name, select, needs)
        return _registry[name]

    return decorate


def get_strategy(name: str) -> Strategy:
    """The strategy registered as ``name``.

    Raises:
      UnknownStrategyError: listing the known names and the nearest one.
    """
    if name not in _registry:
        near = difflib.get_close_matches(name, strategy_names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        known = ", ".join(strategy_names())
        raise UnknownStrategyError(f"strategy: expected one of {known}, found {name!r}{hint}")
    return _registry[name]


def strategy_names() -> list[str]:
    """The names of all registered strategies, sorted."""
    return sorted(_registry)
