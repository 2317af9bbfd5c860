"""What the next round needs, and how checkpoints keep it."""

from typing import NamedTuple

import numpy as np

from crabjax.experiments.checkpoint import Saved
from crabjax.experiments.problem import Problem
from crabjax.thresholds import BINS


class State(NamedTuple):
    """What the next round needs."""

    round: int
    labelled: np.ndarray  # int64 [S, n], sorted
    picked: np.ndarray  # float64 [S, 2, B]: probabilities that queried documents had, in bins


def first_state(problem: Problem) -> State:
    """Where a run begins."""
    return State(0, problem.initial, _none_picked(len(problem.initial)))


def saved_rows(problem: Problem, labelled: np.ndarray) -> np.ndarray:
    """Labelled rows [S, n] as checkpoints and training have them: int32 [S, C], then -1."""
    room = problem.capacity - labelled.shape[1]
    return np.pad(labelled, ((0, 0), (0, room)), constant_values=-1).astype(np.int32)


def saved_arrays(problem: Problem, state: State) -> dict[str, np.ndarray]:
    """What a checkpoint keeps of a state."""
    return {"labelled": saved_rows(problem, state.labelled), "picked": state.picked}


def saved_forms(problem: Problem) -> list[dict[str, np.ndarray]]:
    """What checkpoints hold; earlier ones rows alone, or a mask of all documents."""
    seeds = len(problem.initial)
    rows = np.zeros((seeds, problem.capacity), np.int32)
    return [
        {"labelled": rows, "picked": _none_picked(seeds)},
        {"labelled": rows},
        {"labelled": np.zeros((seeds, problem.documents), bool)},
    ]


def state_after(saved: Saved) -> State:
    """Where a run goes on from a saved round; of old ones it is not known what was picked."""
    found = saved.arrays["labelled"]
    picked = saved.arrays.get("picked", _none_picked(len(found)))
    if found.dtype == bool:
        return State(saved.round + 1, np.stack([np.flatnonzero(own) for own in found]), picked)
    rows = found[:, : (found[0] >= 0).sum()].astype(np.int64)
    return State(saved.round + 1, rows, picked)


def _none_picked(seeds: int) -> np.ndarray:
    return np.zeros((seeds, 2, BINS))
