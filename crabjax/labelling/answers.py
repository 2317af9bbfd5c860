"""What a person said about documents: label sets, skipped, or nothing yet."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from crabjax.checks import check_labels

SKIPPED = "skipped"

Answer = np.ndarray | str | None
"""Membership in each label, bool [K]; "skipped", not to be asked again; None, not answered."""


class LabelError(ValueError):
    """Labels that do not fit the documents or the label names."""


def check_label_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names as a tuple.

    Raises:
      LabelError: if there are none, one occurs twice, or one is not a usable string.
    """
    if isinstance(names, str):
        raise LabelError(f"label_names: expected a list of strings, found the string {names!r}")
    names = tuple(names)
    for name in names:
        if not isinstance(name, str) or not name.strip() or name == SKIPPED:
            reserved = f'; "{SKIPPED}" marks skipped documents' if name == SKIPPED else ""
            raise LabelError(f"label_names: {name!r} cannot be a label{reserved}")
    if not names or len(set(names)) < len(names):
        raise LabelError(f"label_names: expected distinct labels, at least one, found {names!r}")
    return names


def parse_answers(labels: Any, label_names: Sequence[str], count: int) -> list[Answer]:
    """One answer a document.

    Args:
      labels: a binary matrix [count, K], dense or sparse, as scikit-learn's MultiLabelBinarizer
        gives; or for each document a list of label names, "skipped" or None.
      label_names: the K labels, in the order of the columns.
      count: how many documents there are.

    Raises:
      LabelError: naming the first document whose labels cannot be used.
    """
    if sparse.issparse(labels):
        labels = labels.toarray()
    if getattr(labels, "ndim", 1) == 2:
        return list(_matrix(np.asarray(labels), label_names, count))
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        raise LabelError(f"labels: expected one entry a document, found {labels!r}")
    if len(labels) != count:
        raise LabelError(f"labels: expected {count} entries, as many as texts, found {len(labels)}")
    return [_answer(f"labels[{row}]", entry, label_names) for row, entry in enumerate(labels)]


def label_row(where: str, labels: Sequence[str], label_names: Sequence[str]) -> np.ndarray:
    """Membership of the named labels, bool [K]; ``where`` opens the error for an unknown one."""
    row = np.zeros(len(label_names), bool)
    for label in labels:
        if label not in label_names:
            near = difflib.get_close_matches(str(label), label_names, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(label_names)}"
            raise LabelError(f'{where}: unknown label "{label}"; {hint}')
        row[label_names.index(label)] = True
    return row


def names_of(answer: Answer, label_names: Sequence[str]) -> list[str] | str | None:
    """An answer as :func:`parse_answers` reads it."""
    if answer is None or isinstance(answer, str):
        return answer
    return [name for name, present in zip(label_names, answer) if present]


def _answer(where: str, entry: Any, label_names: Sequence[str]) -> Answer:
    if entry is None or (isinstance(entry, str) and entry == SKIPPED):
        return entry
    if isinstance(entry, str) or not hasattr(entry, "__iter__"):
        raise LabelError(
            f'{where}: expected a list of labels, "{SKIPPED}" or None, found {entry!r}'
        )
    return label_row(where, list(entry), label_names)


def _matrix(matrix: np.ndarray, label_names: Sequence[str], count: int) -> np.ndarray:
    expected = (count, len(label_names))
    if matrix.shape != expected:
        raise LabelError(f"labels: expected a matrix {expected}, found {matrix.shape}")
    try:
        check_labels("labels", matrix)
    except ValueError as error:
        raise LabelError(str(error)) from error
    return matrix.astype(bool)
