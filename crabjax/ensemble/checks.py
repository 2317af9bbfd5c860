"""What may go into training and prediction, and what must have come out."""

import functools
import logging
from typing import Any

import numpy as np

from crabjax.checks import check_rank, check_same_size
from crabjax.config import EnsembleConfig
from crabjax.ensemble.train import FitInfo
from crabjax.models import Model, Params

log = logging.getLogger(__name__)


class EnsembleError(RuntimeError):
    """Training or prediction gave numbers that are not finite."""


def check_fit(keys, inputs, labels, train_rows, train_counts, validation_rows) -> None:
    check_rank("labels", labels, "NK")
    check_rank("train_rows", train_rows, "MC")
    check_rank("train_counts", train_counts, "M")
    check_rank("validation_rows", validation_rows, "MV")
    check_same_size("N", "inputs", len(inputs), "labels", len(labels))
    for name, array in (
        ("keys.init", keys.init),
        ("keys.train", keys.train),
        ("train_counts", train_counts),
        ("validation_rows", validation_rows),
    ):
        check_same_size("M", "train_rows", len(train_rows), name, len(array))
    counts = np.asarray(train_counts)
    if counts.min() < 1 or counts.max() > train_rows.shape[1]:
        raise ValueError(
            f"train_counts: expected 1 to {train_rows.shape[1]}, the capacity of train_rows, "
            f"found {counts.min()} to {counts.max()}"
        )
    for name, rows in (("train_rows", train_rows), ("validation_rows", validation_rows)):
        rows = np.asarray(rows)
        if rows.size and (rows.min() < 0 or rows.max() >= len(inputs)):
            raise ValueError(
                f"{name}: expected rows 0 to {len(inputs) - 1} of inputs, "
                f"found {rows.min()} to {rows.max()}"
            )


def check_words(model: Model, params: Params, inputs: Any) -> None:
    """Raises if a word id has no row in the model's table; compiled gathers would not notice."""
    if model.table is None:
        return
    words, largest = params[model.table].shape[-2], int(np.max(inputs))
    if largest >= words:
        raise ValueError(f"inputs: expected word ids below {words}, found {largest}")


def check_failures(info: FitInfo, config: EnsembleConfig) -> None:
    name = functools.partial(_member_name, members=len(info.best_epoch), of_seed=config.members)
    failed = info.failed_epoch >= 0
    unusable = info.best_epoch < 0
    if failed.all() or unusable.any():
        named = np.flatnonzero(failed if failed.all() else unusable)
        places = ", ".join(f"{name(int(m))} in epoch {info.failed_epoch[m]}" for m in named)
        raise EnsembleError(
            f"the training loss became non-finite: {places}; "
            f"lower ensemble.learning_rate (now {config.learning_rate})"
        )
    for member in np.flatnonzero(failed):
        log.warning(
            "%s: the loss was not finite in epoch %d; its epoch %d is kept",
            name(int(member)),
            info.failed_epoch[member],
            info.best_epoch[member],
        )


def _member_name(member: int, members: int, of_seed: int) -> str:
    """What to call one of the members; those of a seed lie side by side."""
    if of_seed == 1 or members == of_seed or members % of_seed:
        return f"member {member}"
    return f"member {member} (member {member % of_seed} of seeds[{member // of_seed}])"
