"""Distinct documents, texts or vectors, numbered in the order they came; a file's stay in it."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from crabjax.data.documents import Documents, hashes_of
from crabjax.data.vectors import Rows
from crabjax.files.store import blocks_of

Given = Sequence[str] | np.ndarray
"""Texts, or vectors float32 [n, D]."""


def check_documents(documents: Any) -> Given:
    """Documents as plain strings, or as vectors float32 [n, D] where they are an array of floats.

    Raises:
      TypeError: naming the first text that is not a string.
      ValueError: naming the first text that no file could hold, or the first vector with a number
        that is not finite.
    """
    if isinstance(documents, str):
        raise TypeError(f"texts: expected a list of strings, found the string {documents[:40]!r}")
    if isinstance(documents, Documents):
        return documents
    kind = getattr(documents, "dtype", None)
    if kind is not None and np.issubdtype(kind, np.floating):
        return _check_vectors(np.asarray(documents))
    texts: list[Any] = list(documents)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{position}]: expected a string, found {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            reason = f"half of a surrogate pair, not valid text: {error}"
            raise ValueError(f"texts[{position}]: {reason}") from error
    return [str(text) for text in texts]  # NumPy strings become plain ones


def take(documents: Given, rows: np.ndarray) -> Given:
    """The documents at some rows; all of them in order are the same object."""
    if len(rows) == len(documents) and np.array_equal(rows, np.arange(len(rows))):
        return documents
    if isinstance(documents, np.ndarray):
        return documents[rows]
    if isinstance(documents, Documents):
        return documents.take(rows)
    return [documents[int(row)] for row in rows]


class Seen:
    """Documents that differ, each with a row number.

    Documents are told apart by 64 bits each, so that those of a file need not be held: among five
    million, two that differ are taken for one with a chance of one in a million.
    """

    def __init__(self):
        self._parts: list[Given] = []
        self._keys = np.zeros(0, np.int64)  # sorted
        self._rows = np.zeros(0, np.int64)  # of these keys
        self._digest: str | None = None

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def documents(self) -> Given:
        """All of them, by row."""
        if len(self._parts) > 1:
            if isinstance(self._parts[0], np.ndarray):
                self._parts = [np.concatenate(self._parts)]
            else:
                self._parts = [[text for part in self._parts for text in part]]
        return self._parts[0] if self._parts else []

    def add(self, documents: Given) -> bool:
        """Adds those that are new; true if one was.

        Raises:
          ValueError: for vectors after texts, or the reverse, or of another length; for texts that
            have vectors in a file, beside any others.
        """
        keys = _keys_of(documents)
        _, firsts = np.unique(keys, return_index=True)
        firsts = np.sort(firsts)
        new = firsts[self._find(keys[firsts]) < 0]
        if len(new) == 0:
            return False
        self._check_alike(documents)
        rows = len(self) + np.arange(len(new))
        together = np.concatenate([self._keys, keys[new]])
        order = np.argsort(together, kind="stable")
        self._rows = np.concatenate([self._rows, rows])[order]
        self._keys = together[order]
        part = take(documents, new)
        if part is documents and isinstance(part, np.ndarray) and part.flags.writeable:
            part = part.copy()  # a buffer that may hold other vectors when it comes to training
        self._parts.append(part)
        self._digest = None
        return True

    def rows(self, documents: Given) -> np.ndarray | None:
        """The row of each document, int64 [n], or None if one was never seen."""
        rows = self._find(_keys_of(documents))
        return None if (rows < 0).any() else rows

    def digest(self) -> str:
        """A hash of all of them, in their order."""
        if self._digest is None:
            digest, documents = hashlib.sha256(), self.documents
            if isinstance(documents, np.ndarray):
                digest.update(str(documents.shape).encode())
                for block in blocks_of(documents):
                    digest.update(block.data)
            else:
                digest.update(np.ascontiguousarray(hashes_of(documents)).data)
            if isinstance(documents, Documents) and documents.vectors is not None:
                digest.update(documents.vectors.origin.encode())
            self._digest = digest.hexdigest()
        return self._digest

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """Rows of keys, -1 for those that were never seen."""
        if len(self) == 0:
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self) - 1)
        return np.where(self._keys[at] == keys, self._rows[at], -1)

    def _check_alike(self, documents: Given) -> None:
        """Of documents that are not all known; a known text need not come with its vector."""
        if not self._parts:
            return
        before = self._parts[0]
        if isinstance(before, np.ndarray) != isinstance(documents, np.ndarray):
            kinds = ("vectors", "texts") if isinstance(before, np.ndarray) else ("texts", "vectors")
            raise ValueError(f"documents: expected {kinds[0]}, as before, found {kinds[1]}")
        if any(isinstance(vectors_of(one), Rows) for one in (before, documents)):
            raise ValueError(
                "documents: expected all texts that have vectors in a file at once and no others, "
                "found more; make a project of all (`crabjax init --vectors`), use its `learner()`"
            )
        widths = [one.shape[1] for one in (before, documents) if isinstance(one, np.ndarray)]
        if len(set(widths)) > 1:
            raise ValueError(
                f"vectors: expected {widths[0]} numbers each, as before, found {widths[1]}"
            )


def _keys_of(documents: Given) -> np.ndarray:
    if not isinstance(documents, np.ndarray):
        return hashes_of(documents)
    rows = (row.tobytes() for block in blocks_of(documents) for row in block)
    return np.fromiter(map(hash, rows), np.int64, len(documents))


def _check_vectors(vectors: np.ndarray) -> np.ndarray:
    if vectors.ndim != 2 or vectors.shape[1] == 0:
        raise ValueError(f"vectors: expected one row a document, [n, D], found {vectors.shape}")
    vectors = vectors.astype(np.float32, copy=False)
    row = 0
    for block in blocks_of(vectors):
        if not np.isfinite(block).all():
            row += int(np.argwhere(~np.isfinite(block))[0, 0])
            raise ValueError(f"vectors[{row}]: expected numbers that are finite, found others")
        row += len(block)
    return vectors


def vectors_of(documents: Given) -> np.ndarray | Rows | None:
    """What a classifier reads of documents that have vectors, [n, D], perhaps mapped."""
    if isinstance(documents, Documents):
        return documents.vectors
    return documents if isinstance(documents, np.ndarray) else None
