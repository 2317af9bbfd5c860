"""Ensembles of small-text's classifiers: its learner trains one, our strategies ask several."""

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from crabjax.integrations.common import require

EXTRA = "small-text"


def ensemble_factory(
    factory: Any, members: int = 5, *, bootstrap: bool = True, seed: int = 0
) -> Any:
    """A classifier factory whose classifiers are ensembles.

    Args:
      factory: of small-text, makes the members.
      members: how many.
      bootstrap: each learns from a draw with replacement of the labelled documents; without it
        only members that start at random differ.
      seed: of the draws.
    """
    small_text = require("small_text", EXTRA)

    class Ensemble(small_text.Classifier):
        def fit(self, train_set, weights=None, **rest):
            self.members = [factory.new() for _ in range(members)]
            rows = np.arange(len(train_set))
            generator = np.random.default_rng([seed, len(rows)])
            for member in self.members:
                own = generator.choice(rows, len(rows)) if bootstrap else rows
                extra = rest if weights is None else rest | {"weights": weights[own]}
                member.fit(train_set[own].clone(), **extra)
            return self

        def member_probabilities(self, data_set):
            return np.stack([one.predict_proba(data_set) for one in self.members])  # [E, N, K]

        def predict_proba(self, data_set):
            return self.member_probabilities(data_set).mean(axis=0)

        def predict(self, data_set, return_proba=False):
            proba = self.predict_proba(data_set)
            labels = csr_matrix((proba > 0.5).astype(int))
            return (labels, proba) if return_proba else labels

    class Factory(small_text.AbstractClassifierFactory):
        def new(self):
            return Ensemble()

    return Factory()
