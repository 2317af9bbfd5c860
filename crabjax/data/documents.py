"""Documents that stay in a file: each is read when it is asked for."""

import json
import os
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from crabjax.files import DataError

# Tokens of a document that comes in tokens are kept as one string, not as a list: a tenth of the
# memory. The unit separator is made for this; a token that holds it is refused.
TOKEN_SEPARATOR = "\x1f"


class Documents(Sequence[str]):
    """The documents of a JSON-lines file that was read once; a slice of them is the same.

    Args:
      path: the file.
      offsets: where the line of each begins, int64 [N].
      hashes: of the documents, int64 [N], equal for equal ones while this process runs.
      stamp: size and time of the file when it was read; see :func:`file_stamp`.
      owner: what deletes a file that is nobody else's once no document of it can be asked for.
    """

    def __init__(
        self,
        path: Path,
        offsets: np.ndarray,
        hashes: np.ndarray,
        stamp: tuple[int, int],
        owner: Any = None,
    ):
        self.path, self.offsets, self.hashes = path, offsets, hashes
        self.stamp, self.owner = stamp, owner

    def __len__(self) -> int:
        return len(self.offsets)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Documents": ...
    def __getitem__(self, index: int | slice) -> "str | Documents":
        if isinstance(index, slice):
            return self.take(index)
        return next(self._read([int(self.offsets[index])]))

    def take(self, rows: np.ndarray | slice) -> "Documents":
        """Those at some rows."""
        return Documents(self.path, self.offsets[rows], self.hashes[rows], self.stamp, self.owner)

    def __iter__(self) -> Iterator[str]:
        return self._read(self.offsets.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(one == another for one, another in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def _read(self, offsets: list[int]) -> Iterator[str]:
        # Of a single line a large buffer would read what nobody asked for.
        with open(self.path, "rb", buffering=1 << (13 if len(offsets) == 1 else 20)) as file:
            if file_stamp(self.path) != self.stamp:
                raise DataError(f"{self.path}: changed while it was in use; begin again")
            at = 0
            for offset in offsets:
                if offset != at:
                    file.seek(offset)
                line = file.readline()
                at = offset + len(line)
                yield body_of(json.loads(line))


class InFile:
    """Collects the documents of a JSON-lines file that is being read: where each can be found."""

    def __init__(self, path: Path):
        self.path, self.stamp = path, file_stamp(path)
        self.offsets, self.hashes = array("q"), array("q")
        self.owner: Any = None

    def add(self, body: str, at: int) -> None:
        """Adds one whose line begins at a byte of the file."""
        self.offsets.append(at)
        self.hashes.append(hash(body))

    def documents(self) -> Documents:
        """All that were added."""
        offsets, hashes = (np.frombuffer(one, np.int64) for one in (self.offsets, self.hashes))
        return Documents(self.path, offsets, hashes, self.stamp, self.owner)


class Copied(InFile):
    """The same where none can be found again: a line each in a temporary file.

    Only this user may read that file, and it is gone when no document needs it.
    """

    def __init__(self) -> None:
        file = tempfile.NamedTemporaryFile(prefix="crabjax-", suffix=".jsonl")  # noqa: SIM115
        super().__init__(Path(file.name))
        self.owner = file

    def add(self, body: str, at: int = 0) -> None:
        """Adds one."""
        super().add(body, self.owner.tell())
        self.owner.write(json.dumps({"text": body}).encode() + b"\n")

    def documents(self) -> Documents:
        """All that were added."""
        self.owner.flush()
        self.stamp = file_stamp(self.path)
        return super().documents()


def body_of(record: dict[str, Any]) -> str:
    """The document of a checked line: its text, or its tokens joined by ``TOKEN_SEPARATOR``."""
    return TOKEN_SEPARATOR.join(record["doc_token"]) if "doc_token" in record else record["text"]


def file_stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file: another stamp, another content."""
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns


def hashes_of(documents: Sequence[str]) -> np.ndarray:
    """A number a document, int64 [N]: equal for equal ones while this process runs."""
    if isinstance(documents, Documents):
        return documents.hashes
    return np.fromiter(map(hash, documents), np.int64, len(documents))
