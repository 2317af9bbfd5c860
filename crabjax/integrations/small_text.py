"""small-text: our strategies in its ``PoolBasedActiveLearner``, its strategies in our loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import expit

from crabjax.config import StrategyConfig
from crabjax.integrations.common import ask, require
from crabjax.integrations.small_text_ensemble import EXTRA
from crabjax.integrations.small_text_ensemble import ensemble_factory as ensemble_factory
from crabjax.keys import host_generator
from crabjax.strategies import Selection, Strategy, register


def query_strategy(
    name: str = "crab",
    member_probabilities: Callable[[Any], Any] | None = None,
    *,
    features: Any = None,
    seed: int = 0,
    config: StrategyConfig | None = None,
) -> Any:
    """A ``small_text.QueryStrategy`` for multi-label data.

    Args:
      name: of one of our strategies.
      member_probabilities: from a dataset to [E, N, K]. If None the learner's classifier is
        asked: all members where :func:`ensemble_factory` made it, else it is the only one.
      features: document vectors [N, D] of the learner's dataset, or a function from it to them.
      seed: of all random draws.
      config: settings of the strategy.
    """
    small_text = require("small_text", EXTRA)

    class CrabjaxQueryStrategy(small_text.QueryStrategy):
        def query(self, clf, dataset, indices_unlabeled, indices_labeled, y, n=10):
            self._validate_query_input(indices_unlabeled, n)
            predict = member_probabilities or getattr(clf, "member_probabilities", None)
            vectors = features(dataset) if callable(features) else features
            return ask(
                name,
                (predict or clf.predict_proba)(dataset),
                y,
                indices_labeled,
                n,
                unlabelled=indices_unlabeled,
                features=vectors,
                seed=seed,
                config=config,
            ).indices

        def __str__(self):
            return f"CrabjaxQueryStrategy({name})"

    return CrabjaxQueryStrategy()


class Predicted:
    """A small-text classifier for datasets that are row numbers: what is known of those rows."""

    def __init__(self, members: np.ndarray, features: np.ndarray | None = None):
        self.members, self.mean = members, members.mean(axis=0)  # [E, N, K], [N, K]
        self.features = features  # [N, D]

    def predict_proba(self, rows: np.ndarray, dropout_sampling: int = 1) -> np.ndarray:
        """[u, K]; or with dropout sampling the members in its place, [u, E, K]."""
        return self.mean[rows] if dropout_sampling == 1 else self.members[:, rows].swapaxes(0, 1)

    def embed(self, rows: np.ndarray, return_proba: bool = False, **_: Any) -> Any:
        """Document vectors [u, D]."""
        assert self.features is not None
        found = self.features[rows]
        return (found, self.mean[rows]) if return_proba else found


def register_small_text(name: str, strategy: Any, *, needs_features: bool = False) -> Strategy:
    """Registers a query strategy of small-text as one of ours: ``strategy.name`` finds it.

    Args:
      name: for it.
      strategy: a ``small_text.QueryStrategy``; it sees the members' mean probabilities.
      needs_features: for those that embed documents, e.g. ``EmbeddingKMeans``.
    """
    require("small_text", EXTRA)

    @register(name, needs_features=needs_features)
    def select(key, pool, query_size, config):
        del config
        known = Predicted(expit(pool.logits), pool.features)
        rows, labels = np.arange(pool.logits.shape[1]), csr_matrix(pool.labels[pool.labelled] * 1)
        before = np.random.get_state()  # noqa: NPY002  (small-text draws from the global one)
        np.random.seed(host_generator(key).integers(2**32))  # noqa: NPY002
        try:
            args = known, rows, pool.unlabelled, pool.labelled, labels
            chosen = strategy.query(*args, n=query_size)
        finally:
            np.random.set_state(before)  # noqa: NPY002
        return Selection(np.asarray(chosen, np.int64), {})

    return select
