"""Training by calls of some epochs each.

Between two calls one hears how far it is. And a member that has stopped costs as much under vmap as
one that trains: where many have, the others go on in a smaller program, of which there are a few.
"""

import functools
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from crabjax.config import EnsembleConfig
from crabjax.devices.mesh import fetch
from crabjax.ensemble.train import FitInfo, Fixed, Training, TrainingData
from crabjax.models import Params

SECONDS = 1.0  # of a call: long beside what it costs to make one, short to wait for
SHARES = (0.25, 0.5, 0.75, 1.0)  # of the members; a program is compiled for each when it is needed
CALLS = 20  # of a whole training, where they are not made by the clock


class Programs(NamedTuple):
    """The compiled programs of a training, on one device or more; see ``ensemble.train``."""

    start: Callable[[Params, TrainingData], tuple[Fixed, Training]]
    train: Callable[[Fixed, Training, TrainingData, Any, Any], Training]
    whole: Callable[[Fixed, Training, TrainingData], Params]


def train_in_calls(
    programs: Programs,
    config: EnsembleConfig,
    params: Params,
    data: TrainingData,
    say: Callable[[str], None] | None,
    packs: bool = False,
) -> tuple[Params, FitInfo]:
    """Trains from first parameters [M, ...], which are given away.

    Args:
      programs: to train with.
      config: epochs and patience.
      params: before training.
      data: what is learnt from.
      say: hears, after every call, how far it is.
      packs: whether members that have stopped are left out of later calls.

    Returns:
      Parameters of the best epochs, on the device, and what happened, on the host.
    """
    members, epochs = len(data.train_counts), config.epochs
    now = _UnderWay(np.arange(members), *programs.start(params, data), data)
    del params
    fixed, known = now.fixed, None
    packs = packs and config.patience < epochs and data.validation_rows.shape[1] > 0
    # By the clock only where calls change nothing. Several processes make the same ones, whoever
    # listens to which.
    alone = jax.process_count() == 1
    timed, one_call = alone and not packs, alone and not packs and say is None
    best, done, more = -1.0, 0, epochs if one_call else 1 if timed else -(-epochs // CALLS)
    while done < epochs:
        begun, end = time.monotonic(), min(done + more, epochs)
        training = programs.train(*now[1:], np.int32(done), np.int32(end))
        now, done = now._replace(training=training), end
        if one_call:
            break
        going, info = fetch(training.going), _info(training)
        best = np.fmax.reduce(info.validation_f1, axis=None, initial=best)
        if say is not None:
            still = f", {np.sum(going)} of {members} still training" if members > 1 else ""
            say(_in_words(info, best if data.validation_rows.shape[1] else None, still))
        if not np.any(going):
            break
        if timed:
            more = max(1, int(more * SECONDS / max(time.monotonic() - begun, 1e-9)))
        if packs and (size := _size(members, np.sum(going))) < len(going):
            # Filled up by some that have stopped.
            chosen = np.argsort(~going, kind="stable")[:size]
            known, now = _put(known, now), _packed(now, chosen)
    known = now.training if known is None else _put(known, now)
    found = known.best.params if fixed.table is None else programs.whole(fixed, known, data)
    return found, _info(known)


class _UnderWay(NamedTuple):
    """Members that are trained: their places [m] among all M, and what is theirs."""

    places: np.ndarray
    fixed: Fixed
    training: Training
    data: TrainingData


def _size(members: int, going: int) -> int:
    """The smallest size that there is for so many members."""
    return min(size for share in SHARES if (size := math.ceil(share * members)) >= going)


def _packed(now: _UnderWay, chosen: np.ndarray) -> _UnderWay:
    """Some of the members under way."""
    inputs, labels, *own = now.data
    fixed, training, own = _take((now.fixed, now.training, own), chosen)
    return _UnderWay(now.places[chosen], fixed, training, TrainingData(inputs, labels, *own))


def _put(known: Training | None, now: _UnderWay) -> Training:
    """What is known of all members [M, ...], with what is new of some."""
    found = now.training._replace(trained=None)  # nobody asks for it any more
    return found if known is None else _at(known, now.places, found)


@jax.jit
def _take(tree: Any, chosen: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[chosen], tree)


@functools.partial(jax.jit, donate_argnames="tree")
def _at(tree: Any, places: np.ndarray, parts: Any) -> Any:
    return jax.tree.map(
        lambda whole, part: whole.at[places].set(part, unique_indices=True), tree, parts
    )


def _info(training: Training) -> FitInfo:
    loss, f1 = fetch(training.loss), fetch(training.validation_f1)
    ran = np.sum(~np.isnan(f1), axis=1, dtype=np.int32)
    return FitInfo(loss, f1, fetch(training.best_epoch), ran, fetch(training.failed_epoch))


def _in_words(info: FitInfo, best: float | None, still: str) -> str:
    """How far members are, with the best F1 so far or, where there is none, the last loss."""
    ran, epochs = np.max(info.epochs_run), info.loss.shape[1]
    loss = info.loss[:, ran - 1]
    result = ""
    if best is not None and best >= 0:
        result = f", best validation F1 {best:.3f}"
    elif best is None and np.any(np.isfinite(loss)):
        result = f", loss {np.mean(loss[np.isfinite(loss)]):.3f}"
    return f"epoch {ran} of {epochs}{still if ran < epochs else ''}{result}"
