"""Documents that were seen, and what a person said about some of them."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from crabjax.data.vectors import Rows
from crabjax.labelling.answers import (
    Said,
    check_label_names,
    is_cold,
    label_matrix,
    parse_answers,
)
from crabjax.labelling.seen import Given, Seen, check_documents, vectors_of


class LabelledTexts(Seen):
    """Distinct texts, or vectors, in the order they came, each with a row, and answers by row.

    Args:
      label_names: the K labels.
    """

    def __init__(self, label_names: Sequence[str]):
        super().__init__()
        self.label_names = tuple(label_names)
        self._answers: dict[int, Said] = {}  # in the order they came
        self.unchosen: set[int] = set()  # rows answered before a strategy could choose
        self.may_be_chosen = False  # whether one can have chosen what is answered next

    @property
    def answered(self) -> set[int]:
        """Rows with an answer, skipped ones included."""
        return set(self._answers)

    def answer(self, texts: Given, answers: Sequence[Said]) -> bool:
        """Keeps the answers to texts that were seen; true if there was any.

        A later answer for a text replaces the earlier, and takes the last place in order.
        """
        rows = self.rows(texts)
        assert rows is not None
        given = [(row, answer) for row, answer in zip(rows.tolist(), answers) if answer is not None]
        for row, answer in given:
            self._answers.pop(row, None)
            self._answers[row] = answer
        if not self.may_be_chosen:
            self.unchosen.update(row for row, _ in given)
        return bool(given)

    def labelled_rows(self) -> np.ndarray:
        """Rows with labels, int64 [n], in the order they were answered."""
        rows = [row for row, said in self._answers.items() if isinstance(said, list)]
        return np.array(rows, np.int64)

    def unchosen_rows(self) -> np.ndarray:
        """Those of the labelled rows that no strategy chose, int64."""
        rows = self.labelled_rows()
        return rows[np.isin(rows, sorted(self.unchosen))]

    def labels(self) -> np.ndarray:
        """bool [N, K]; false for texts without an answer."""
        labels = np.zeros((len(self), len(self.label_names)), bool)
        said = {row: own for row, own in self._answers.items() if isinstance(own, list)}
        labels[list(said)] = label_matrix(list(said.values()), self.label_names)
        return labels

    def any_label(self) -> bool:
        """Whether a text carries a label."""
        return any(isinstance(said, list) and said for said in self._answers.values())

    def answers_by_row(self) -> list[list[Any]]:
        """Row and answer of each, in the order they came, JSON-able."""
        return [[row, said] for row, said in self._answers.items()]

    def to_dict(self) -> dict[str, Any]:
        """All of it, JSON-able.

        Raises:
          ValueError: for texts that have vectors in a file, which may be of any size.
        """
        documents = self.documents
        if isinstance(vectors_of(documents), Rows):
            raise ValueError(
                "documents: their vectors stay in their file, not with a saved learner; save it "
                "with documents=False, and `restore` that to the `learner()` of the project"
            )
        if isinstance(documents, np.ndarray):
            content = base64.b64encode(np.ascontiguousarray(documents).data).decode()
            kept: dict[str, Any] = {"vectors": content, "width": documents.shape[1]}
        else:
            kept = {"texts": list(documents)}
        names = {"label_names": list(self.label_names)}
        return names | kept | {"answers": self.answers_by_row()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "LabelledTexts":
        """What :meth:`to_dict` gave.

        Raises:
          KeyError, TypeError, ValueError: for anything else.
        """
        new = cls(check_label_names(state["label_names"]))
        documents = check_documents(_documents(state))
        new.add(documents)
        rows, labels = [row for row, _ in state["answers"]], [a for _, a in state["answers"]]
        new.unchosen = unchosen_of(state)
        if len(new) < len(documents) or not set(rows) | new.unchosen <= set(range(len(new))):
            raise ValueError("answers do not fit the texts")
        if None in labels:
            raise ValueError("an answer that says nothing")
        new._answers = dict(zip(rows, parse_answers(labels, new.label_names, len(rows))))
        new.may_be_chosen = not is_cold(new._answers.values())
        return new


def unchosen_of(state: dict[str, Any]) -> set[int]:
    """The rows of a saved state that no strategy chose; of an earlier version it is not known.

    Raises:
      TypeError: for anything but a list of numbers.
    """
    rows = state.get("unchosen", [])
    if not isinstance(rows, list) or any(type(row) is not int for row in rows):
        raise TypeError("unchosen: expected a list of rows")
    return set(rows)


def _documents(state: dict[str, Any]) -> Any:
    if "vectors" not in state:
        return state["texts"]
    content = base64.b64decode(state["vectors"], validate=True)
    return np.frombuffer(content, np.float32).reshape(-1, state["width"])
