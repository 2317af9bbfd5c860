"""What a person said about documents: label sets, skipped, or nothing yet."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from crabjax.checks import check_labels
from crabjax.files import did_you_mean

SKIPPED = "skipped"
WITHDRAWN = "withdrawn"
RESERVED = (SKIPPED, WITHDRAWN)
FEWEST_LABELLED = 10  # with fewer, an ensemble's opinion is worth less than a spread-out query

Said = list[str] | str | None
"""The labels of a document, "skipped" where it is not to be asked again, "withdrawn" where an
earlier answer no longer holds, None for no answer yet."""


class LabelError(ValueError):
    """Labels that do not fit the documents or the label names."""


class Answer(NamedTuple):
    """What a person said of one document, from the file it came in to the log it is kept in.

    Attributes:
      where: file and line, for messages.
      id: of the document.
      labels: what was said; names of labels are sorted.
      advice: what to look at if one of the labels is not known.
      text: of the document, where the file shows it.
      time: when it was kept in the log; the same for all that came together.
    """

    where: str
    id: str
    labels: Said
    advice: str = ""
    text: str | None = None
    time: str = ""


def is_cold(answers: Iterable[Said]) -> bool:
    """Whether so little was said that no ensemble is asked: a cold start."""
    labelled = [said for said in answers if isinstance(said, list)]
    return len(labelled) < FEWEST_LABELLED or not any(labelled)


def check_label_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names as a tuple, in Unicode's composed form (NFC).

    Raises:
      LabelError: if there are none, one occurs twice, or one is not a usable string.
    """
    if isinstance(names, str):
        raise LabelError(f"label_names: expected a list of strings, found the string {names!r}")
    names = tuple(composed(name) if isinstance(name, str) else name for name in names)
    for name in names:
        if not isinstance(name, str) or not name.strip() or name == SKIPPED:
            reserved = f'; "{SKIPPED}" marks skipped documents' if name == SKIPPED else ""
            raise LabelError(f"label_names: {name!r} cannot be a label{reserved}")
    if not names or len(set(names)) < len(names):
        raise LabelError(f"label_names: expected distinct labels, at least one, found {names!r}")
    return names


def parse_answers(labels: Any, label_names: Sequence[str], count: int) -> list[Said]:
    """What is said of each document, labels in the order of ``label_names``.

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
        rows = _matrix(np.asarray(labels), label_names, count)
        return [[name for name, own in zip(label_names, row) if own] for row in rows]
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        raise LabelError(f"labels: expected one entry a document, found {labels!r}")
    if len(labels) != count:
        raise LabelError(f"labels: expected {count} entries, as many as texts, found {len(labels)}")
    return [_said(f"labels[{row}]", entry, label_names) for row, entry in enumerate(labels)]


def label_matrix(labels: Sequence[Sequence[str]], label_names: Sequence[str]) -> np.ndarray:
    """Membership of known labels in each of n documents, bool [n, K]."""
    columns = {name: column for column, name in enumerate(label_names)}
    matrix = np.zeros((len(labels), len(label_names)), bool)
    for row, own in enumerate(labels):
        matrix[row, [columns[name] for name in own]] = True
    return matrix


def composed(name: str) -> str:
    """A name in the one form (NFC) of those that look the same."""
    return unicodedata.normalize("NFC", name)


def unknown_label(label: Any, label_names: Sequence[str]) -> str | None:
    """What is wrong with a name that is not among the labels; None for one that is."""
    if label in label_names:
        return None
    known = f"known are {', '.join(label_names)}"
    hint = did_you_mean(str(label), label_names, known, quote='"')
    return f'unknown label "{label}"{hint}'


def _said(where: str, entry: Any, label_names: Sequence[str]) -> Said:
    if entry is None or (isinstance(entry, str) and entry == SKIPPED):
        return entry
    if isinstance(entry, str) or not hasattr(entry, "__iter__"):
        raise LabelError(
            f'{where}: expected a list of labels, "{SKIPPED}" or None, found {entry!r}'
        )
    given = [composed(label) if isinstance(label, str) else label for label in entry]
    for label in given:
        if problem := unknown_label(label, label_names):
            raise LabelError(f"{where}: {problem}")
    return [name for name in label_names if name in given]


def _matrix(matrix: np.ndarray, label_names: Sequence[str], count: int) -> np.ndarray:
    expected = (count, len(label_names))
    if matrix.shape != expected:
        raise LabelError(f"labels: expected a matrix {expected}, found {matrix.shape}")
    try:
        check_labels("labels", matrix)
    except ValueError as error:
        raise LabelError(str(error)) from error
    return matrix.astype(bool)
