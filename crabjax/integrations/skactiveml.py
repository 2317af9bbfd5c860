"""scikit-activeml: our strategies as pool query strategies of its kind, its strategies in ours."""

import functools
import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse

from crabjax.config import StrategyConfig
from crabjax.integrations.common import ask, dense_features, members_of, require
from crabjax.keys import host_generator
from crabjax.strategies import Selection, Strategy, register

EXTRA = "skactiveml"


def query_strategy(
    name: str = "crab", *, random_state: Any = None, config: StrategyConfig | None = None
) -> Any:
    """A ``skactiveml.base.PoolQueryStrategy`` for multi-label ``y`` [N, K].

    Its ``query(X, y, ensemble, fit_ensemble=True, candidates=None, batch_size=1,
    return_utilities=False)`` takes the shapes of scikit-activeml. A document is labelled if none of
    its K labels is ``MISSING_LABEL``, NaN. ``ensemble`` is a list of multi-label scikit-learn
    classifiers, fitted here unless ``fit_ensemble`` is False, or a function from X to [E, N, K].
    A dense X is the document vectors as well. Utilities are 1 for the document taken at a step, 0
    for other candidates, NaN for the rest: our strategies choose a set.

    Args:
      name: of one of our strategies.
      random_state: of scikit-learn's form, for all random draws.
      config: settings of the strategy.
    """
    return _strategy_class(require("skactiveml.base", EXTRA))(name, config, random_state)


@functools.cache
def _strategy_class(base: Any) -> Any:
    class CrabjaxQueryStrategy(base.PoolQueryStrategy):
        def __init__(self, name="crab", config=None, random_state=None):
            super().__init__(random_state=random_state)
            self.name, self.config = name, config

        def query(self, X, y, ensemble, fit_ensemble=True, candidates=None, batch_size=1,
                  return_utilities=False):  # fmt: skip
            sparse = X.tocsr() if issparse(X) else None
            # scikit-activeml asks sparse matrices for their len: it gets a stand-in to check.
            X = X if sparse is None else np.zeros((X.shape[0], 1))
            X, y, candidates, batch_size, return_utilities = self._validate_data(
                X, y, candidates, batch_size, return_utilities
            )
            X = X if sparse is None else sparse
            labelled, candidates = _split(y, candidates)
            if batch_size > len(candidates):
                warnings.warn(f"batch_size: {batch_size} of {len(candidates)}", stacklevel=2)
            selection = ask(
                self.name,
                _members(ensemble, fit_ensemble, X, y, labelled),
                y[labelled],
                labelled,
                batch_size,
                unlabelled=candidates,
                features=dense_features(X),
                seed=int(self.random_state_.randint(2**31)),
                config=self.config,
            )
            if not return_utilities:
                return selection.indices
            return selection.indices, _utilities(selection.indices, candidates, len(y))

    return CrabjaxQueryStrategy


def _split(y: np.ndarray, candidates: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are labelled, and rows to choose from."""
    if y.ndim != 2:
        raise ValueError(f"y: expected shape [N, K], found {y.shape}")
    labelled = ~np.isnan(y.astype(float)).any(axis=1)
    rows = np.flatnonzero(~labelled) if candidates is None else candidates
    if rows.ndim != 1:
        raise ValueError(f"candidates: expected row numbers of X, found shape {rows.shape}")
    return np.flatnonzero(labelled), rows


def _members(ensemble: Any, fit: bool, X: Any, y: np.ndarray, labelled: np.ndarray) -> Any:
    if callable(ensemble):
        return ensemble(X)
    if fit:
        from sklearn.base import clone

        copies: list[Any] = [clone(member) for member in ensemble]
        ensemble = [one.fit(X[labelled], y[labelled].astype(int)) for one in copies]
    return members_of(ensemble, X)


def _utilities(chosen: np.ndarray, candidates: np.ndarray, documents: int) -> np.ndarray:
    """[batch_size, N]."""
    utilities = np.full((len(chosen), documents), np.nan)
    for step, row in enumerate(chosen):
        utilities[step, np.setdiff1d(candidates, chosen[:step])] = 0
        utilities[step, row] = 1
    return utilities


def register_skactiveml(name: str, strategy: Any) -> Strategy:
    """Registers a query strategy of scikit-activeml as one of ours: ``strategy.name`` finds it.

    Args:
      name: for it.
      strategy: one that reads document vectors and which of them are labelled, such as
        ``CoreSet`` or ``TypiClust``: scikit-activeml has none that reads several labels. Its
        ``random_state`` is replaced at every query, by one that the run's seed gives.
    """
    require("skactiveml", EXTRA)

    @register(name, needs_features=True)
    def select(key, pool, query_size, config):
        del config
        from sklearn.base import clone

        random = host_generator(key)
        seeded: Any = clone(strategy)
        seeded.set_params(random_state=int(random.integers(2**31)))
        # Rows that may not be read would be clustered, too.
        rows = np.union1d(pool.labelled, pool.candidates)
        y = np.where(np.isin(rows, pool.labelled), 0, np.nan)
        args = {"candidates": np.flatnonzero(np.isnan(y)), "batch_size": query_size}
        chosen = rows[seeded.query(pool.features[rows], y, **args)]
        return Selection(_distinct(random, chosen, pool.candidates), {})

    return select


def _distinct(
    random: np.random.Generator, chosen: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    """The choice with other candidates, drawn, in place of those that are in it again.

    Once no cluster is left without a label, TypiClust draws documents with replacement.
    """
    first = np.sort(np.unique(chosen, return_index=True)[1])
    others = np.setdiff1d(candidates, chosen)
    drawn = random.choice(others, len(chosen) - len(first), replace=False)
    return np.concatenate([chosen[first], drawn])
