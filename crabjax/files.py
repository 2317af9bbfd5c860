"""Lines of text files, plain or gzipped, with errors that name file and line; whole writes."""

import csv
import errno
import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout
from tqdm import tqdm


LOCK = ".lock"


class DataError(ValueError):
    """Input that cannot be used; the message names the file and, where there is one, the line."""


class DataWarning(UserWarning):
    """Input that was used after a stated, counted change."""


def read_lines(path: Path, encoding: str = "utf-8", progress: bool = False) -> Iterator[str]:
    """Yields the decoded lines of a file, ends kept; ``.gz`` files are decompressed on the way.

    Args:
      path: the file.
      encoding: of its text.
      progress: shows a progress bar over the bytes of the file.

    Raises:
      DataError: for a broken archive or a byte that the encoding does not know.
    """
    number = 0
    with open(path, "rb") as raw, _bar(path, progress) as bar:
        stream = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        try:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    line = _without_mark(path, line)
                yield line.decode(encoding)
                if number % 1024 == 0:
                    bar.update(raw.tell() - bar.n)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise DataError(
                f"{path}:{number}: expected {encoding} text, found byte 0x{byte:02x} at column "
                f"{error.start + 1}; convert the file first (iconv -t utf-8)"
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path}:{number + 1}: broken gzip file: {error}") from error
        bar.update(raw.tell() - bar.n)


def read_json_lines(path: Path, progress: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, object) for each line that is not blank.

    Raises:
      DataError: for a line that is not one JSON object.
    """
    for number, line in enumerate(read_lines(path, progress=progress), start=1):
        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{path}:{number}: malformed JSON: {error}") from error
        if not isinstance(record, dict):
            kind = type(record).__name__
            raise DataError(f"{path}:{number}: expected one JSON object a line, found {kind}")
        yield number, record


def read_csv_rows(
    path: Path, delimiter: str = ",", progress: bool = False
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (number of the row's last line, row by column name) of a CSV file with a header.

    Raises:
      DataError: for a row that breaks the format or differs in length from the header.
    """
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(read_lines(path, progress=progress), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        if len(set(header)) < len(header):
            raise DataError(f"{path}:1: two columns of one name in the header: {header}")
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(
                    f"{path}:{reader.line_num}: expected {len(header)} columns as in the header, "
                    f"found {len(row)}"
                )
            yield reader.line_num, dict(zip(header, row))
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: malformed CSV: {error}") from error


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the name ``path`` only once it is complete and on the disk.

    A reader, a crash or another writer sees the old file or the new one, whole.

    Raises:
      OSError: naming ``path``; the old file is intact.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: two writers at once must not write into one file.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # mkstemp's files are private; what we write is ordinary output
        os.replace(name, path)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError) and error.filename in (None, name):  # as of a full disk
            reason = f"{error.strerror}; the old file is intact"
            raise OSError(error.errno, reason, str(path)) from error
        raise
    _flush_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Replaces a file at once by UTF-8 text; see :func:`atomic_write`."""
    with atomic_write(path) as file:
        file.write(text.encode())


def check_writable(path: Path) -> None:
    """Makes the folder of a file to be written, and a file in it for a moment.

    Raises:
      OSError: naming ``path``, if it could not be written; better now than after the work.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file to write, found a folder", str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {error.strerror}", str(path)) from error


@contextmanager
def lock(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Keeps other processes out of a folder that is being written to.

    Args:
      folder: made if need be; the lock is a file in it.
      wait: until the other is done; else see below.

    Raises:
      BlockingIOError: if another has the lock and nobody wants to wait.
    """
    held = FileLock(folder / LOCK, timeout=-1 if wait else 0)
    try:
        held.acquire()
    except Timeout:
        raise BlockingIOError(errno.EAGAIN, "locked by another process", str(folder)) from None
    try:
        yield
    finally:
        held.release()


def _flush_folder(folder: Path) -> None:
    """Without it, a power failure may bring back the old file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _bar(path: Path, shown: bool) -> tqdm:
    return tqdm(
        total=path.stat().st_size, unit="B", unit_scale=True, desc=path.name, disable=not shown
    )


def _without_mark(path: Path, line: bytes) -> bytes:
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}:1: expected utf-8 text, found utf-16; convert the file first")
    return line.removeprefix(b"\xef\xbb\xbf")
