"""Readers with errors that name file and line, and checks of what others have written."""

import difflib
import gzip
import hashlib
import json
import os
import zlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from crabjax.progress import counting

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # in UTF-8


class DataError(ValueError):
    """Input that cannot be used; the message names the file and, where there is one, the line."""


class DataWarning(UserWarning):
    """Input that was used after a stated, counted change."""


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str = "", quote: str = "", cutoff: float = 0.6
) -> str:
    """The end of an error about an unknown name: the nearest known one, or what else helps.

    Args:
      name: what was given.
      known: what it could have been.
      otherwise: said where nothing is near.
      quote: stands around the name.
      cutoff: how near is near, from 0 to 1 for the same.
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    hint = f"did you mean {quote}{near[0]}{quote}?" if near else otherwise
    return hint and f"; {hint}"


def read_lines(path: Path, starts: array | None = None) -> Iterator[str]:
    """Yields the decoded lines of a file, ends kept; ``.gz`` files are decompressed on the way.

    Args:
      path: the file.
      starts: gets the offset of each line in the file, or in what the archive holds.

    Raises:
      DataError: for a broken archive or a byte that UTF-8 does not know.
    """
    number = offset = done = 0
    text, megabytes = f"reading {path.name}, MB", -(-os.stat(path).st_size >> 20)
    with open(path, "rb") as raw, counting(text, megabytes) as advance:
        stream = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        try:
            for number, line in enumerate(stream, start=1):
                offset += len(line)
                if number == 1:
                    line = _without_mark(path, line)
                if starts is not None:
                    starts.append(offset - len(line))
                yield line.decode()
                if number % 1024 == 0:
                    before, done = done, raw.tell() >> 20
                    advance(done - before)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise DataError(
                f"{path}:{number}: expected utf-8 text, found byte 0x{byte:02x} at column "
                f"{error.start + 1}; convert the file first, as with "
                f"`iconv -f CP1252 -t UTF-8 {path.name} > new_{path.name}`"
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path}:{number + 1}: broken gzip file: {error}") from error


def read_json_lines(
    path: Path, starts: array | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, object) for each line that is not blank; see :func:`read_lines`.

    Raises:
      DataError: for a line that is not one JSON object.
    """
    for number, line in enumerate(read_lines(path, starts=starts), start=1):
        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: malformed JSON: {error}") from error
        if not isinstance(record, dict):
            kind = type(record).__name__
            raise DataError(f"{path}:{number}: expected one JSON object a line, found {kind}")
        yield number, record


def sha256(path: Path) -> str:
    """Of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_safetensors(path: Path) -> None:
    """Looks whether a file of arrays is as long as its header says, without reading them.

    Raises:
      DataError: naming the file, if it was cut short or is something else.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        content = file.read(length) if length < size else b""
    try:
        header = json.loads(content)
        ends = [one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise DataError(f"{path}: no safetensors file, or cut short in its header") from None
    if (expected := 8 + length + max(ends, default=0)) != size:
        raise DataError(
            f"{path}: expected {expected} bytes, found {size}: not all of the file; copy or "
            "download it again"
        )


def check_json(path: Path) -> None:
    """Raises DataError, naming the file, if it is not JSON."""
    try:
        json.loads(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path}: malformed JSON: {error}") from error


def _without_mark(path: Path, line: bytes) -> bytes:
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(
            f"{path}:1: expected utf-8 text, found utf-16; convert the file first, with "
            f"`iconv -f UTF-16 -t UTF-8 {path.name} > new_{path.name}`"
        )
    return line.removeprefix(BYTE_ORDER_MARK)
