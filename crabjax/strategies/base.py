"""What every query strategy is given, what it gives back, and how it is found by name.

A strategy is a function ``(key, pool, query_size, config) -> Selection``::

    @register("mine")
    def mine(key, pool, query_size, config):
        return Selection(pool.unlabelled[:query_size], {})
"""

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import logit

from crabjax.checks import check_labels, check_probabilities
from crabjax.config import StrategyConfig
from crabjax.pool.look import AllBut, Look, draw_look, sample_size
from crabjax.pool.refine import Beliefs
from crabjax.pool.score import Anchors, anchors_at

_LEAST = 1e-7  # probability of a member that is certain


class EmptyPoolError(ValueError):
    """There is no unlabelled document left to query."""


class PoolError(ValueError):
    """Arrays that do not make a pool."""


class UnknownStrategyError(ValueError):
    """No strategy is registered under this name."""


class StrategyWarning(UserWarning):
    """A query that will be answered, but cannot be meant."""


class Pool(NamedTuple):
    """The state of active learning before a query. Indices are rows of the arrays here.

    These are the rows of the training set or, where only a part of it was predicted, of that part.
    Rows that are neither labelled nor unlabelled (held out for validation, or empty) may not be
    read.
    """

    logits: np.ndarray  # float32 [E, N, K]
    labels: np.ndarray  # bool [N, K]; only the rows in `labelled` may be read
    labelled: np.ndarray  # int64 [n], sorted
    unlabelled: np.ndarray  # int64 [u], sorted
    features: np.ndarray | None = None  # float32 [N, D]
    round: int = 0
    rounds: int = 1
    beliefs: Beliefs | None = None  # where somebody needed them before; see ``beliefs_of``
    look: Look | None = None  # what of `unlabelled` is looked at; None: still to be drawn
    rows: np.ndarray | None = None  # int64 [up to N], sorted, of the training set; None: all

    @property
    def candidates(self) -> np.ndarray:
        """The documents to choose from, int64 [X], sorted."""
        return self.looked.candidates

    @property
    def anchors(self) -> Anchors:
        """What the members say of the documents that gains are assessed on."""
        return anchors_at(self.logits, self.looked.anchors, self.looked.anchor_capacity)

    @property
    def looked(self) -> Look:
        """What is looked at, once that is drawn."""
        if self.look is None:
            raise PoolError("pool.look: expected what to look at; calling a strategy draws it")
        return self.look

    def looking_at(self, look: Look) -> "Pool":
        """The same with only these documents left in ``unlabelled``."""
        seen, beliefs = look.documents, self.beliefs
        if beliefs is not None:
            traits = beliefs.traits.at(np.searchsorted(self.unlabelled, seen))
            beliefs = beliefs._replace(traits=traits)
        return self._replace(look=look, unlabelled=seen, beliefs=beliefs)

    @classmethod
    def of(
        cls,
        *,
        labels: Any,
        labelled: Any,
        unlabelled: Any = None,
        probabilities: Any = None,
        logits: Any = None,
        features: Any = None,
        round: int = 0,
        rounds: int = 1,
    ) -> "Pool":
        """A pool from what other loops have at hand.

        Args:
          labels: 0 or 1, [N, K] of all documents, or [n, K] of those in ``labelled``, in its order.
          labelled: rows of the training set, int [n], in any order.
          unlabelled: int [u]; all others if None.
          probabilities: of the members, [E, N, K]; or [N, K] of a single one.
          logits: the same in place of probabilities.
          features: document vectors [N, D], for the strategies that need them.
          round: of the query, from 0.
          rounds: how many there will be.

        Raises:
          PoolError: naming what does not fit.
        """
        members = _logits(probabilities, logits)
        documents, classes = members.shape[1:]
        labelled = _rows("labelled", labelled, documents)
        rest = np.setdiff1d(np.arange(documents), labelled)
        unlabelled = rest if unlabelled is None else _rows("unlabelled", unlabelled, documents)
        if len(both := np.intersect1d(labelled, unlabelled)):
            raise PoolError(f"unlabelled: row {both[0]} is in labelled as well")
        known = _labels(labels, labelled, documents, classes)
        if features is not None:
            features = _array("features", features, np.float32)
            if features.ndim != 2 or len(features) != documents:
                raise PoolError(f"features: expected [{documents}, D], found {features.shape}")
        order = np.sort(labelled), np.sort(unlabelled)
        return cls(members, known, *order, features, round, rounds)


class Selection(NamedTuple):
    """The documents to label next, and what the record of the round says about them."""

    indices: np.ndarray  # int64 [query_size], rows of the training set
    info: dict[str, Any]
    scores: np.ndarray | None = None  # float [query_size], larger is better, where there are any
    sources: list[str] | None = None  # why each was looked at, where the strategy says


def _array(name: str, given: Any, dtype: Any = None) -> np.ndarray:
    try:
        return np.asarray(given, dtype)
    except (TypeError, ValueError) as error:
        raise PoolError(f"{name}: expected an array of numbers ({error})") from error


def _logits(probabilities: Any, logits: Any) -> np.ndarray:
    if (probabilities is None) == (logits is None):
        raise PoolError("probabilities: expected either these or logits")
    name, given = ("logits", logits) if probabilities is None else ("probabilities", probabilities)
    members = _array(name, given, np.float32)
    members = members[None] if members.ndim == 2 else members
    if members.ndim != 3 or 0 in members.shape:
        raise PoolError(f"{name}: expected [E, N, K] or [N, K], found {np.shape(given)}")
    if name == "probabilities":
        try:
            check_probabilities(name, members)
        except ValueError as error:
            raise PoolError(str(error)) from error
        # Certain forecasts keep a finite logit: float32 cannot tell them from one that is not.
        members = logit(np.clip(members, _LEAST, 1 - _LEAST))
    elif not np.isfinite(members).all():
        raise PoolError("logits: expected finite numbers")
    return members


def _rows(name: str, given: Any, documents: int) -> np.ndarray:
    rows = _array(name, given)
    if rows.dtype == bool and rows.shape == (documents,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or not (np.issubdtype(rows.dtype, np.integer) or len(rows) == 0):
        raise PoolError(f"{name}: expected row numbers, found {rows.dtype} {rows.shape}")
    rows = rows.astype(np.int64)
    if len(rows) and not (rows.min() >= 0 and rows.max() < documents):
        found = f"{rows.min()} to {rows.max()}"
        raise PoolError(f"{name}: expected rows 0 to {documents - 1}, found {found}")
    if len(np.unique(rows)) < len(rows):
        raise PoolError(f"{name}: expected distinct rows, found one twice")
    return rows


def _labels(given: Any, labelled: np.ndarray, documents: int, classes: int) -> np.ndarray:
    labels = _array("labels", given.toarray() if hasattr(given, "toarray") else given)
    if labels.shape not in ((documents, classes), (len(labelled), classes)):
        expected = f"[{documents}, {classes}] or [{len(labelled)}, {classes}]"
        raise PoolError(f"labels: expected {expected}, found {labels.shape}")
    own = labels[labelled] if len(labels) == documents else labels
    try:
        check_labels("labels", own)
    except ValueError as error:
        raise PoolError(str(error)) from error
    known = np.zeros((documents, classes), bool)
    known[labelled] = own.astype(bool)
    return known


Select = Callable[[jax.Array, Pool, int, StrategyConfig], Selection]


@dataclass(frozen=True)
class Strategy:
    """A registered strategy; calling it checks the pool and caps the query at its size.

    See :func:`register` for the attributes.
    """

    name: str
    select: Select
    needs_features: Callable[[StrategyConfig], bool]
    needs_disagreement: bool = False
    needs_anchors: bool = False
    needs_labelled: bool = True
    needs_all: Callable[[StrategyConfig], bool] = lambda _: False

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

    def samples(self, unlabelled: int, query_size: int, config: StrategyConfig) -> bool:
        """Whether it looks at only a part of so many unlabelled documents."""
        limit = None if self.needs_all(config) else sample_size(query_size, config)
        return limit is not None and unlabelled > limit

    def look(
        self,
        key: jax.Array,
        unlabelled: np.ndarray | AllBut,
        query_size: int,
        config: StrategyConfig,
        documents: int,
    ) -> Look:
        """Draws what a query of ``key`` looks at; see :func:`crabjax.pool.look.draw_look`."""
        needs = {"all_candidates": self.needs_all(config), "with_anchors": self.needs_anchors}
        return draw_look(key, unlabelled, query_size, config, documents, **needs)

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
        found = self.select(key, pool, min(query_size, len(pool.candidates)), config)
        return found if pool.rows is None else found._replace(indices=pool.rows[found.indices])


_registry: dict[str, Strategy] = {}


def register(
    name: str,
    *,
    needs_features: bool | Callable[[StrategyConfig], bool] = False,
    needs_disagreement: bool = False,
    needs_anchors: bool = False,
    needs_labelled: bool = True,
    needs_all: bool | Callable[[StrategyConfig], bool] = False,
) -> Callable[[Select], Strategy]:
    """Makes the decorated function available to :func:`get_strategy` as ``name``.

    Args:
      name: what ``strategy.name`` calls it.
      needs_features: whether ``pool.features`` must be there; may depend on the settings.
      needs_disagreement: whether one member alone gives every document the same score.
      needs_anchors: whether it reads ``pool.anchors``.
      needs_labelled: whether it reads logits or features of labelled documents.
      needs_all: whether it must see all of U, however large; may depend on the settings.
    """
    features, everything = _by_settings(needs_features), _by_settings(needs_all)

    def decorate(select: Select) -> Strategy:
        if name in _registry:
            raise ValueError(f"strategy {name!r} is already registered")
        rest = needs_disagreement, needs_anchors, needs_labelled, everything
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
        near = difflib.get_close_matches(name, strategy_names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        known = ", ".join(strategy_names())
        raise UnknownStrategyError(f"strategy: expected one of {known}, found {name!r}{hint}")
    return _registry[name]


def strategy_names() -> list[str]:
    """The names of all registered strategies, sorted."""
    return sorted(_registry)
