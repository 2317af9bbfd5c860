"""baal: scores of ours as its heuristics, for multi-label predictions [n, K, iterations]."""

from typing import Any, Literal

import numpy as np
from scipy.special import expit, logit

from crabjax.checks import check_probabilities, check_rank
from crabjax.integrations.common import require
from crabjax.scoring import BetaRule, expected_loss_reduction
from crabjax.strategies.bald import mutual_information
from crabjax.strategies.entropy import predictive_entropy

EXTRA = "baal"
_BLOCK_SIZE = 2048  # documents whose gains on all anchors are held at once
_LEAST = 1e-7  # probability of a member that is certain


def heuristic(
    score: Literal["elr", "bald", "entropy"] = "elr",
    *,
    logits: bool = False,
    rule: BetaRule = BetaRule(),  # noqa: B008
    anchor_fraction: float = 0.0939,
    seed: int = 0,
) -> Any:
    """A ``baal.active.heuristics.AbstractHeuristic``; the largest score comes first.

    Iterations of Monte-Carlo dropout, or members, are the ensemble. Every label is a binary
    variable of its own: baal's heuristics take K outputs for classes that exclude each other.

    Args:
      score: "elr" is the expected loss reduction, its mean over anchors (docs/method.md 3).
      logits: predictions are logits, not probabilities.
      rule: the scoring rule of "elr".
      anchor_fraction: share of the predictions that "elr" takes for anchors; all of
        ``target_predictions`` where baal passes them.
      seed: of the draw of anchors.
    """
    heuristics = require("baal.active.heuristics", EXTRA)
    if score not in ("elr", "bald", "entropy"):
        raise ValueError(f"score: expected elr, bald or entropy, found {score!r}")

    class CrabjaxHeuristic(heuristics.AbstractHeuristic):
        def __init__(self):
            super().__init__(reverse=True)

        def compute_score(self, predictions, target_predictions=None):
            members = _members("predictions", predictions, logits)
            if score != "elr":
                of = mutual_information if score == "bald" else predictive_entropy
                return np.array(of(logit(np.clip(members, _LEAST, 1 - _LEAST))))
            if target_predictions is None:
                anchors = _draw(members, anchor_fraction, seed)
            else:
                anchors = _members("target_predictions", target_predictions, logits)
            return _mean_gains(members, anchors, rule)

    return CrabjaxHeuristic()


def _members(name: str, predictions: Any, logits: bool) -> np.ndarray:
    """From [n, K, E] to probabilities [E, n, K]."""
    check_rank(name, predictions, "nKE")
    members = np.moveaxis(np.asarray(predictions, np.float32), 2, 0)
    members = expit(members) if logits else members
    check_probabilities(name, members)
    return members


def _draw(members: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Anchors [E, P, K], at least one."""
    documents = members.shape[1]
    count = max(1, round(fraction * documents))
    return members[:, np.random.default_rng(seed).choice(documents, count, replace=False)]


def _mean_gains(members: np.ndarray, anchors: np.ndarray, rule: BetaRule) -> np.ndarray:
    """[E, n, K], [E, P, K] -> [n]."""
    starts = range(0, members.shape[1], _BLOCK_SIZE)
    blocks = (members[:, start : start + _BLOCK_SIZE] for start in starts)
    gains = [np.asarray(expected_loss_reduction(block, anchors, rule)) for block in blocks]
    return np.concatenate([block.mean(axis=1) for block in gains])
