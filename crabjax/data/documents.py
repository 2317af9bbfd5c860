"""Documents that stay in a file: each is read when it is asked for."""

import contextlib
import hashlib
import io
import json
import os
import tempfile
import weakref
from array import array
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, BinaryIO, overload

import numpy as np

from crabjax.data.vectors import Rows
from crabjax.files import DataError

# Tokens of a document that comes in tokens are kept as one string, not as a list: a tenth of the
# memory. The unit separator is made for this; a token that holds it is refused.
TOKEN_SEPARATOR = "\x1f"


class Documents(Sequence[str]):
    """The documents of a JSON-lines file that was read once; a slice of them is the same.

    Args:
      path: the file.
      offsets: where the line of each begins, int64 [N].
      hashes: of the documents, int64 [N]; see :func:`hash_of`.
      stamp: size and time of the file when it was read; see :func:`file_stamp`.
      owner: a file without a name that has them in the place of ``path``, gone when closed.
      vectors: what a classifier reads in place of them, if there is any: rows [N, D] of a file.
    """

    def __init__(
        self,
        path: Path,
        offsets: np.ndarray,
        hashes: np.ndarray,
        stamp: tuple[int, int],
        owner: Any = None,
        vectors: Rows | None = None,
    ):
        self.path, self.offsets, self.hashes = path, offsets, hashes
        self.stamp, self.owner, self.vectors = stamp, owner, vectors

    def __len__(self) -> int:
        return len(self.offsets)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Documents": ...
    def __getitem__(self, index: int | slice) -> "str | Documents":
        if isinstance(index, slice):
            return self.take(index)
        return next(iter(self.take(np.array([index]))))

    def take(self, rows: np.ndarray | slice) -> "Documents":
        """Those at some rows."""
        some = copy(self)
        some.offsets, some.hashes = self.offsets[rows], self.hashes[rows]
        some.vectors = self.vectors and self.vectors.take(rows)
        return some

    def __iter__(self) -> Iterator[str]:
        return map(self._part, self.records())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(one == another for one, another in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def _open(self, buffering: int) -> BinaryIO:
        if self.owner is not None:
            return io.BufferedReader(_Placed(self.owner.file.fileno()), buffering)
        file = open(self.path, "rb", buffering=buffering)  # noqa: SIM115, the caller closes it
        if file_stamp(self.path) != self.stamp:
            file.close()
            raise DataError(f"{self.path}: changed while it was in use; begin again")
        return file

    def records(self) -> Iterator[dict[str, Any]]:
        """Their lines, whole."""
        offsets = self.offsets.tolist()
        # Of a single line a large buffer would read what nobody asked for.
        with self._open(1 << (13 if len(offsets) == 1 else 20)) as file:
            at = 0
            for offset in offsets:
                if offset != at:
                    file.seek(offset)
                line = file.readline()
                at = offset + len(line)
                yield json.loads(line)

    def _part(self, record: dict[str, Any]) -> str:
        return body_of(record)


class Ids(Documents):
    """The ids of such documents, with hashes of their own."""

    def _part(self, record: dict[str, Any]) -> str:
        return str(record["id"])


class InFile:
    """Collects the documents of a JSON-lines file that is being read: where each can be found."""

    def __init__(self, path: Path):
        self.path, self.stamp = path, file_stamp(path)
        self.offsets, self.hashes = array("q"), array("q")
        self.owner: Any = None

    def add(self, body: str, at: int) -> None:
        """Adds one whose line begins at a byte of the file."""
        self.offsets.append(at)
        self.hashes.append(hash_of(body))

    def documents(self) -> Documents:
        """All that were added."""
        offsets, hashes = (np.frombuffer(one, np.int64) for one in (self.offsets, self.hashes))
        return Documents(self.path, offsets, hashes, self.stamp, self.owner)


class Copied(InFile):
    """The same where none can be found again: a line each in a temporary file without a name.

    Nobody else can read that file, and it is gone with this process at the latest.
    """

    def __init__(self, path: Path):
        super().__init__(path)
        self.owner = _Nameless()

    def add(self, body: str, at: int = 0) -> None:
        """Adds one."""
        with self._folder_named():
            super().add(body, self.owner.file.tell())
            self.owner.file.write(json.dumps({"text": body}, ensure_ascii=False).encode() + b"\n")

    def documents(self) -> Documents:
        """All that were added."""
        with self._folder_named():
            self.owner.file.flush()
        return super().documents()

    @contextlib.contextmanager
    def _folder_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            with contextlib.suppress(OSError):
                self.owner.file.close()
            folder = f"{tempfile.gettempdir()} (TMPDIR), where {self.path} is copied to"
            raise OSError(error.errno, error.strerror, folder) from error


class _Nameless:
    """A temporary file without a name, closed and gone with the last that holds this."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115, open as long as it is needed
        weakref.finalize(self, self.file.close)


class _Placed(io.RawIOBase):
    """A file that others read and write through the same descriptor, with a place of its own."""

    def __init__(self, descriptor: int):
        self._descriptor, self._at = descriptor, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset if whence == 0 else self._at + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        found = os.pread(self._descriptor, len(buffer), self._at)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def body_of(record: dict[str, Any]) -> str:
    """The document of a checked line: its text, or its tokens joined by ``TOKEN_SEPARATOR``."""
    return TOKEN_SEPARATOR.join(record["doc_token"]) if "doc_token" in record else record["text"]


def file_stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file: another stamp, another content."""
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns


def hash_of(text: str) -> int:
    """64 bits that tell a text from others, the same in every process: they may be kept."""
    content = text.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


def hashes_of(documents: Sequence[str]) -> np.ndarray:
    """The hash of each document, int64 [N]."""
    if isinstance(documents, Documents):
        return documents.hashes
    return np.fromiter(map(hash_of, documents), np.int64, len(documents))


def count_distinct(documents: Sequence[str]) -> int:
    """How many of them differ."""
    return 1 + int(np.count_nonzero(np.diff(np.sort(hashes_of(documents)))))  # of at least one
