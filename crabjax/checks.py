"""Checks that public entry points call on their arguments; skipped for traced values."""

from typing import Any

import jax
import numpy as np
from jax.core import Tracer


def is_concrete(*arrays: Any) -> bool:
    """True outside jit, vmap and grad, where values can be looked at."""
    return not any(isinstance(array, Tracer) for array in arrays)


def check_rank(name: str, array: Any, axes: str) -> None:
    """Raises unless ``array`` has one dimension for each axis letter in ``axes``."""
    if np.ndim(array) != len(axes):
        wanted = "[" + ", ".join(axes) + "]"
        raise ValueError(f"{name}: expected shape {wanted}, found {np.shape(array)}")


def check_same_size(axis: str, first: str, first_size: int, second: str, second_size: int) -> None:
    """Raises unless two arguments agree on the size of an axis."""
    if first_size != second_size:
        raise ValueError(
            f"{second}: expected {axis} = {first_size} as in {first}, found {second_size}"
        )


def check_not_empty(name: str, array: Any) -> None:
    """Raises if any axis has size zero."""
    if 0 in np.shape(array):
        found = np.shape(array)
        raise ValueError(f"{name}: expected at least one entry on every axis, found {found}")


def check_probabilities(name: str, array: Any) -> None:
    """Raises unless every value lies in [0, 1]; does nothing on traced arrays."""
    if not is_concrete(array) or np.size(array) == 0:
        return
    # Two reductions read the array where it lies, and NaN makes either comparison false.
    values: Any = array if isinstance(array, jax.Array) else np.asarray(array)
    if not (values.min() >= 0 and values.max() <= 1):
        values = np.asarray(values)
        _raise_first(name, "probabilities in [0, 1]", values, ~((values >= 0) & (values <= 1)))


def check_labels(name: str, array: Any) -> None:
    """Raises unless every value is 0 or 1; does nothing on traced arrays."""
    if not is_concrete(array):
        return
    values = np.asarray(array)
    if values.dtype != bool:
        bad = (values != 0) & (values != 1)
        if bad.any():
            _raise_first(name, "labels 0 or 1", values, bad)


def _raise_first(name: str, expected: str, values: np.ndarray, bad: np.ndarray) -> None:
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    raise ValueError(f"{name}: expected {expected}, found {values[place]} at index {place}")
