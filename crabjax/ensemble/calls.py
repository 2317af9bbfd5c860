"""Training by calls of some epochs each, between which one hears how far it is."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from crabjax.devices.mesh import fetch
from crabjax.ensemble.train import FitInfo, Fixed, Training, TrainingData
from crabjax.models import Params

SECONDS = 1.0  # of a call: long beside what it costs to make one, short to wait for


class Programs(NamedTuple):
    """The compiled programs of a training, on one device or more; see ``ensemble.train``."""

    start: Callable[[Params, TrainingData], tuple[Fixed, Training]]
    train: Callable[[Fixed, Training, TrainingData, Any, Any], Training]
    whole: Callable[[Fixed, Training, TrainingData], Params]


def train_in_calls(
    programs: Programs,
    epochs: int,
    params: Params,
    data: TrainingData,
    say: Callable[[str], None] | None,
) -> tuple[Params, FitInfo]:
    """Trains from first parameters [M, ...], which are given away.

    Args:
      programs: to train with.
      epochs: of a whole training.
      params: before training.
      data: what is learnt from.
      say: hears, after every call, how far it is; with None one call trains all epochs.

    Returns:
      Parameters of the best epochs, on the device, and what happened, on the host.
    """
    fixed, training = programs.start(params, data)
    del params
    # Several processes must make the same calls, so theirs do not go by the clock.
    alone = jax.process_count() == 1
    done, more = 0, epochs if say is None else 1 if alone else -(-epochs // 10)
    while done < epochs:
        begun, end = time.monotonic(), min(done + more, epochs)
        training = programs.train(fixed, training, data, np.int32(done), np.int32(end))
        done = end
        if say is None:
            break
        going = int(np.sum(fetch(training.going)))
        say(_in_words(training, data, going, done, epochs))
        if not going:
            break
        if alone:
            more = max(1, int(more * SECONDS / max(time.monotonic() - begun, 1e-9)))
    best = training.best.params if fixed.table is None else programs.whole(fixed, training, data)
    return best, _info(training)


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
