"""modAL: our strategies as its query functions, for a ``Committee`` or an ``ActiveLearner``."""

from collections.abc import Callable
from typing import Any

import numpy as np

from crabjax.config import StrategyConfig
from crabjax.integrations.common import ask, dense_features, members_of, require

EXTRA = "modal"


def query_strategy(
    name: str = "crab",
    member_probabilities: Callable[[Any], Any] | None = None,
    *,
    seed: int = 0,
    config: StrategyConfig | None = None,
) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """A function ``(learner, X_pool, n_instances=1) -> rows of X_pool, their scores``.

    Members are the learners of a ``Committee``, whose first one is asked what is labelled; their
    estimators are multi-label scikit-learn classifiers. A dense X is the document vectors as well.
    Scores are NaN for strategies that have none.

    Args:
      name: of one of our strategies.
      member_probabilities: in place of the learners, from X to [E, N, K].
      seed: of all random draws.
      config: settings of the strategy.
    """
    data = require("modAL.utils.data", EXTRA)

    def query(learner, X_pool, n_instances=1):
        learners = getattr(learner, "learner_list", [learner])
        X_known, labels = learners[0].X_training, learners[0].y_training
        if X_known is None:
            raise ValueError("learner: expected one with training data, found none")
        X = data.data_vstack((X_pool, X_known))
        predict = member_probabilities or (
            lambda X: members_of([one.estimator for one in learners], X)
        )
        candidates = X.shape[0] - X_known.shape[0]
        selection = ask(
            name,
            predict(X),
            labels,
            np.arange(candidates, X.shape[0]),
            n_instances,
            features=dense_features(X),
            seed=seed,
            config=config,
        )
        scores = selection.scores
        if scores is None:
            scores = np.full(len(selection.indices), np.nan)
        # Two results always: modAL unpacks a lone array of two rows as rows and scores.
        return selection.indices, scores

    return query
