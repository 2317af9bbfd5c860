"""Texts that were seen, and what a person said about some of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from crabjax.labelling.answers import Said, check_label_names, label_matrix, parse_answers


def check_texts(texts: Sequence[str]) -> list[str]:
    """The texts as plain strings.

    Raises:
      TypeError: naming the first that is not one.
    """
    if isinstance(texts, str):
        raise TypeError(f"texts: expected a list of strings, found the string {texts[:40]!r}")
    texts = list(texts)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{position}]: expected a string, found {type(text).__name__}")
    return [str(text) for text in texts]  # NumPy strings become plain ones


class LabelledTexts:
    """Distinct texts in the order they came, each with a row number, and answers by row.

    Args:
      label_names: the K labels.
    """

    def __init__(self, label_names: Sequence[str]):
        self.label_names = tuple(label_names)
        self._rows: dict[str, int] = {}
        self._answers: dict[int, Said] = {}  # in the order they came

    @property
    def texts(self) -> list[str]:
        """All of them, by row."""
        return list(self._rows)

    @property
    def answered(self) -> set[int]:
        """Rows with an answer, skipped ones included."""
        return set(self._answers)

    def see(self, texts: Sequence[str]) -> bool:
        """Adds texts; true if one was new."""
        before = len(self._rows)
        for text in texts:
            self._rows.setdefault(text, len(self._rows))
        return len(self._rows) > before

    def answer(self, texts: Sequence[str], answers: Sequence[Said]) -> bool:
        """Keeps the answers to texts that were seen; true if there was any.

        A later answer for a text replaces the earlier, and takes the last place in order.
        """
        given = [(text, answer) for text, answer in zip(texts, answers) if answer is not None]
        for text, answer in given:
            row = self._rows[text]
            self._answers.pop(row, None)
            self._answers[row] = answer
        return bool(given)

    def rows(self, texts: Sequence[str]) -> list[int] | None:
        """Row of each text, or None if one was never seen."""
        rows = [self._rows.get(text, -1) for text in texts]
        return None if -1 in rows else rows

    def labelled_rows(self) -> np.ndarray:
        """Rows with labels, int64 [n], in the order they were answered."""
        rows = [row for row, said in self._answers.items() if isinstance(said, list)]
        return np.array(rows, np.int64)

    def labels(self) -> np.ndarray:
        """bool [N, K]; false for texts without an answer."""
        labels = np.zeros((len(self._rows), len(self.label_names)), bool)
        said = {row: own for row, own in self._answers.items() if isinstance(own, list)}
        labels[list(said)] = label_matrix(list(said.values()), self.label_names)
        return labels

    def any_label(self) -> bool:
        """Whether a text carries a label."""
        return any(isinstance(said, list) and said for said in self._answers.values())

    def to_dict(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        answers = [[row, said] for row, said in self._answers.items()]
        return {"label_names": list(self.label_names), "texts": self.texts, "answers": answers}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "LabelledTexts":
        """What :meth:`to_dict` gave.

        Raises:
          KeyError, TypeError, ValueError: for anything else.
        """
        new = cls(check_label_names(state["label_names"]))
        new.see(check_texts(state["texts"]))
        rows, labels = [row for row, _ in state["answers"]], [a for _, a in state["answers"]]
        if len(new._rows) < len(state["texts"]) or not set(rows) <= set(range(len(new._rows))):
            raise ValueError("answers do not fit the texts")
        if None in labels:
            raise ValueError("an answer that says nothing")
        new._answers = dict(zip(rows, parse_answers(labels, new.label_names, len(rows))))
        return new
