"""Several processes: every one computes the same round, the first alone reads and writes files."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from crabjax.config import ConfigError, DevicesConfig


class DistributedError(RuntimeError):
    """Something failed in another process, or processes were started with different data."""


def connect(config: DevicesConfig) -> None:
    """Joins the processes of a run; must come before anything else of JAX.

    Each setting left out is taken from the environment: ``JAX_COORDINATOR_ADDRESS``,
    ``JAX_NUM_PROCESSES`` and ``JAX_PROCESS_ID``. Without a coordinator there is one process. All
    but the first keep quiet: what they would print, it prints.
    """
    coordinator = config.coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
    if coordinator is None:
        return
    processes = _number(config.processes, "devices.processes", "JAX_NUM_PROCESSES")
    process = _number(config.process, "devices.process", "JAX_PROCESS_ID")
    if coordinator == "auto":
        jax.distributed.initialize()
    else:
        for name, value in (("processes", processes), ("process", process)):
            if value is None:
                raise ConfigError(f"devices.{name}: expected a number with a coordinator")
        jax.distributed.initialize(coordinator, processes, process)
    # The first meeting of all has a time limit of its own; later some may be compiling.
    multihost_utils.sync_global_devices("connected")
    if not is_first():
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return jax.process_index() == 0


def on_first(function: Callable[[], Any]) -> Any:
    """Calls a function in the first process; its result, JSON-able, is every process's.

    Raises:
      DistributedError: in the others, when it raised in the first.
    """
    if jax.process_count() == 1:
        return function()
    error, outcome = None, {}
    if is_first():
        try:
            outcome = {"result": function()}
        except BaseException as failure:  # Ctrl-C too: the others are waiting to be told
            error, outcome = failure, {"error": str(failure)}
    outcome = json.loads(_broadcast(json.dumps(outcome).encode()))
    if error is not None:
        raise error
    if "error" in outcome:
        raise DistributedError(f"the first process failed: {outcome['error']}")
    return outcome["result"]


def array_of_first(array: np.ndarray) -> np.ndarray:
    """The first process's values of an array that has the same shape and dtype in all."""
    if jax.process_count() == 1:
        return array
    found = np.frombuffer(_broadcast(np.ascontiguousarray(array).tobytes()), array.dtype)
    return found.reshape(array.shape).copy()


def check_agreement(name: str, digest: str) -> None:
    """Raises in every process unless all have the same digest, a hash of what they were given."""
    if jax.process_count() == 1:
        return
    own = np.frombuffer(digest.encode(), np.uint8)
    if (multihost_utils.process_allgather(own) != own[None]).any():
        raise DistributedError(f"{name}: expected the same in all processes, found differences")


def _number(value: int | None, name: str, variable: str) -> int | None:
    text = os.environ.get(variable)
    if value is not None or text is None:
        return value
    if not text.isdecimal():
        raise ConfigError(f"{name}: expected a number in {variable}, found {text!r}")
    return int(text)


def _broadcast(data: bytes) -> bytes:
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
    own = np.frombuffer(data, np.uint8) if is_first() else np.zeros(size, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(own), np.uint8).tobytes()
