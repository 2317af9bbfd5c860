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
    now = _UnderWay(np.arange(len(data.train_counts)), *programs.start(params, data), data)
    del params
    fixed, known = now.fixed, None
    packs = packs and config.patience < config.epochs and data.validation_rows.shape[1] > 0
    # By the clock only where calls change nothing, and no other process makes them too.
    timed = not packs and jax.process_count() == 1
    one_call = say is None and not packs
    done, more = 0, config.epochs if one_call else 1 if timed else -(-config.epochs // CALLS)
    while done < config.epochs:
        begun, end = time.monotonic(), min(done + more, config.epochs)
        training = programs.train(*now[1:], np.int32(done), np.int32(end))
        now, done = now._replace(training=training), end
        if one_call:
            break
        going = np.unique(now.places[fetch(training.going)])
        if say is not None:
            say(_in_words(training, data, len(going), done, config.epochs))
        if not len(going):
            break
        if timed:
            more = max(1, int(more * SECONDS / max(time.monotonic() - begun, 1e-9)))
        if packs and (size := _size(len(data.train_counts), len(going))) < len(now.places):
            known, now = _put(known, now), _packed(now, np.resize(going, size))
    known = now.training if known is None else _put(known, now)
    best = known.best.params if fixed.table is None else programs.whole(fixed, known, data)
    return best, _info(known)


class _UnderWay(NamedTuple):
    """Members that are trained: their places [m] among all M, and what is theirs."""

    places: np.ndarray
    fixed: Fixed
    training: Training
    data: TrainingData


def _size(members: int, going: int) -> int:
    """The smallest size that there is for so many members."""
    return min(size for share in SHARES if (size := math.ceil(share * members)) >= going)


def _packed(now: _UnderWay, places: np.ndarray) -> _UnderWay:
    """The members at these places; where one is there twice it does the same twice."""
    inputs, labels, *own = now.data
    chosen = np.array([np.argmax(now.places == place) for place in places])
    fixed, training, own = _take((now.fixed, now.training, own), chosen)
    return _UnderWay(places, fixed, training, TrainingData(inputs, labels, *own))


def _put(known: Training | None, now: _UnderWay) -> Training:
    """What is known of all members [M, ...], with what is new of some."""
    found = now.training._replace(trained=None)  # nobody asks for it any more
    return found if known is None else _at(known, now.places, found)


@jax.jit
def _take(tree: Any, chosen: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[chosen], tree)


@functools.partial(jax.jit, donate_argnames="tree")
def _at(tree: Any, places: np.ndarray, parts: Any) -> Any:
    return jax.tree.map(lambda whole, part: whole.at[places].set(part), tree, parts)


def _info(training: Training) -> FitInfo:
    loss, f1 = fetch(training.loss), fetch(training.validation_f1)
    ran = np.sum(~np.isnan(f1), axis=1, dtype=np.int32)
    return FitInfo(loss, f1, fetch(training.best_epoch), ran, fetch(training.failed_epoch))


def _in_words(training: Training, data: TrainingData, going: int, done: int, epochs: int) -> str:
    members = len(data.train_counts)
    still = f", {going} of {members} still training" if members > 1 else ""
    if data.validation_rows.shape[1]:
        result = f"best validation F1 {np.max(fetch(training.best_f1)):.3f}"
    else:
        result = f"loss {np.nanmean(fetch(training.loss)[:, done - 1]):.3f}"
    return f"epoch {done} of {epochs}{still}, {result}"
