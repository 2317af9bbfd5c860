"""Gains of any number of candidates from one compiled program (METHOD section 3).

The unlabelled pool shrinks every round. The kernel takes candidates in chunks of one size, and
anchors are padded to the most there can be: only values change between rounds.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from crabjax.scoring.beta import BetaRule
from crabjax.scoring.elr import expected_loss_reduction


class Anchors(NamedTuple):
    """Unlabelled documents on which gains are assessed, padded to a fixed capacity."""

    probabilities: np.ndarray  # [E, capacity, K], zero beyond `count`
    count: int


def draw_anchors(
    logits: np.ndarray, unlabelled: np.ndarray, fraction: float, generator: np.random.Generator
) -> Anchors:
    """A random ``fraction`` of the unlabelled documents, at least one.

    Args:
      logits: float32 [E, N, K] of all training documents; N sets the capacity.
      unlabelled: int64 [u], rows of the training set.
      fraction: in (0, 1].
      generator: draws without replacement.
    """
    members, documents, labels = logits.shape
    count = max(1, round(fraction * len(unlabelled)))
    rows = generator.choice(unlabelled, size=count, replace=False)
    capacity = math.ceil(fraction * documents)
    probabilities = np.zeros((members, capacity, labels), dtype=np.float32)
    probabilities[:, :count] = expit(logits[:, rows])
    return Anchors(probabilities, count)


def pool_gains(
    logits: np.ndarray,
    candidates: np.ndarray,
    anchors: Anchors,
    rule: BetaRule,
    label_weights: np.ndarray | None = None,
) -> np.ndarray:
    """The rows of S for the candidates in order, float32 [X, P].

    Args:
      logits: float32 [E, N, K] of all training documents.
      candidates: int64 [X], rows of the training set.
      anchors: the P documents to assess gains on.
      rule: the scoring rule.
      label_weights: float [K], ones if None.
    """
    probabilities = expit(logits[:, candidates])  # [E, X, K]
    gains = expected_loss_reduction(probabilities, anchors.probabilities, rule, label_weights)
    return np.asarray(gains)[:, : anchors.count]
