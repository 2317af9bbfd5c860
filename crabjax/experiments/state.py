"""What the next round needs, and how checkpoints keep it."""

from typing import NamedTuple

import numpy as np

from crabjax.config import Config
from crabjax.experiments.checkpoint import Saved
from crabjax.experiments.problem import Problem


class State(NamedTuple):
    """What the next round needs."""

    round: int
    labelled: np.ndarray  # int64 [S, n], sorted


def saved_rows(problem: Problem, labelled: np.ndarray) -> np.ndarray:
    """Labelled rows [S, n] as checkpoints and training have them: int32 [S, C], then -1."""
    room = problem.capacity - labelled.shape[1]
    return np.pad(labelled, ((0, 0), (0, room)), constant_values=-1).astype(np.int32)


def saved_forms(config: Config, problem: Problem) -> list[dict[str, np.ndarray]]:
    """What checkpoints hold: rows, or until 0.3 a mask of all documents."""
    seeds = len(config.loop.seeds)
    return [
        {"labelled": np.zeros((seeds, problem.capacity), np.int32)},
        {"labelled": np.zeros((seeds, problem.documents), bool)},
    ]


def state_after(saved: Saved) -> State:
    """Where a run goes on from a saved round."""
    found = saved.arrays["labelled"]
    if found.dtype == bool:
        return State(saved.round + 1, np.stack([np.flatnonzero(own) for own in found]))
    return State(saved.round + 1, found[:, : (found[0] >= 0).sum()].astype(np.int64))
