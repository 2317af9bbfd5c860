"""Arrays in files: mapped instead of read, made once, gone on with where a start was cut off.

A file is a header of 4,096 bytes, one line that names the format and one of sealed JSON, and then
the raw array. While it is being made it is called ``NAME.part`` and its header counts the rows that
are in it; it takes its name once it is whole. What the header does not vouch for is made again.
"""

import errno
import hashlib
import json
import math
import mmap
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crabjax.files import DataWarning, flush_folder
from crabjax.files.seals import BrokenSealError, open_sealed, seal
from crabjax.progress import counting

HEADER = 4096  # bytes: a page, so that the array begins on one
PART = ".part"
_MAGIC = b"crabjax array 1\n"  # raise the number when the layout changes
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SUMMED = 1 << 26  # bytes of content that opening compares with their sum; more would be read
_SECONDS = 2.0  # of work that a kill may cost
_GATHERED = 256  # rows read at once; the system may map 2 MB around each

Blocks = Iterator[tuple[slice | np.ndarray, np.ndarray]]
"""Rows of an array and what stands in them; every row once, in an order that never changes."""


class Plan(NamedTuple):
    """What an array will be.

    Attributes:
      origin: a hash of all that its content follows from.
      shape: rows first.
      dtype: of its entries.
    """

    origin: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def row_bytes(self) -> int:
        """Of one row."""
        return math.prod(self.shape[1:]) * np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """Of the file."""
        return HEADER + self.shape[0] * self.row_bytes


class _RefusedError(Exception):
    """The disk would not take it."""


def kept(path: Path | None, plan: Plan, make: Callable[[int], Blocks], text: str) -> np.ndarray:
    """The array of a file, which is made if it is not there. Others must be locked out.

    Args:
      path: of the file; None to make the array in memory.
      plan: what it must be.
      make: gives the blocks of the array but for those that hold its first n rows.
      text: what making it is called.

    Returns:
      The array, read-only and mapped: reading rows of it reads these rows.

    Raises:
      OSError: naming the folder, if there is no room in it; no part of the file is left then.

    Warns:
      DataWarning: of a file that is not what the plan says, and of a folder that refuses: then the
        array is in memory.
    """
    if path is None:
        return _in_memory(plan, make, text)
    if usable(path, plan) is None:
        try:
            _write(path, plan, make, text)
        except _RefusedError as refused:
            error = refused.__cause__
            assert isinstance(error, OSError)
            if error.errno in _FULL:
                raise _no_room(path, plan, error) from error
            reason = f"cannot be kept: {error.strerror}"
            warnings.warn(f"{path}: {reason}", DataWarning, stacklevel=2)
            return _in_memory(plan, make, text)
    return map_rows(path, HEADER, plan.shape, plan.dtype)


def usable(path: Path, plan: Plan) -> int | None:
    """How many rows of a file can be used, all or, of a part, some; None if it is not there.

    Warns:
      DataWarning: saying why a file cannot be used; it is to be replaced.
    """
    try:
        with open(path, "rb") as file:
            return _check(file, plan, partly=path.suffix == PART)
    except OSError:  # writing it will say what is wrong
        return None
    except ValueError as error:
        warnings.warn(f"{path}: {error}; made again", DataWarning, stacklevel=3)
        return None


def blocks_of(array: np.ndarray, rows: int = 8192) -> Iterator[np.ndarray]:
    """An array a few rows at a time, contiguous; what was read of a mapped one is let go."""
    _advise(array, "MADV_SEQUENTIAL")
    try:
        for start in range(0, len(array), rows):
            yield np.ascontiguousarray(array[start : start + rows])
            _advise(array, "MADV_DONTNEED")
    finally:
        _advise(array, "MADV_RANDOM")


def fingerprint(*arrays: np.ndarray) -> str:
    """A short hash of the content of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        for block in blocks_of(array):
            digest.update(block.data)
    return digest.hexdigest()[:16]


def gather(array: Any, rows: np.ndarray) -> np.ndarray:
    """Some rows of an array in memory; of a file that is mapped read-only, no page stays mapped."""
    if _mapping(array) is None:
        return array[rows]
    found = np.empty((len(rows), *array.shape[1:]), array.dtype)
    for start in range(0, len(rows), _GATHERED):
        some = slice(start, start + _GATHERED)
        found[some] = array[rows[some]]
        _advise(array, "MADV_DONTNEED")
    return found


def map_rows(path: Path, offset: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A read-only array in a file; touching a row reads its pages and none around them."""
    array = np.memmap(path, dtype, "r", offset, shape).view(np.ndarray)
    _advise(array, "MADV_RANDOM")
    return array


def _advise(array: np.ndarray, advice: str) -> None:
    """Says how an array that is mapped read-only will be read, where the system listens."""
    mapping = _mapping(array)
    if mapping is not None and hasattr(mmap, advice):
        mapping.madvise(getattr(mmap, advice))


def _mapping(array: Any) -> mmap.mmap | None:
    """The map that an array lies in, if its pages can be let go: there are no changes in them."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array if array is not None and memoryview(array).readonly else None


def _in_memory(plan: Plan, make: Callable[[int], Blocks], text: str) -> np.ndarray:
    array = np.zeros(plan.shape, plan.dtype)
    with counting(text, plan.shape[0]) as advance:
        for rows, block in make(0):
            array[rows] = block
            advance(len(block))
    return array


def _write(path: Path, plan: Plan, make: Callable[[int], Blocks], text: str) -> None:
    part = path.with_name(path.name + PART)
    done = usable(part, plan) or 0
    with _refusals(part):
        handle = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if done == 0:
            with _refusals(part):
                _reserve(handle, plan)
        saved = time.monotonic()
        try:
            with counting(text, plan.shape[0], done) as advance:
                for rows, block in make(done):
                    with _refusals(part):
                        _put(handle, plan, rows, block)
                        done += len(block)
                        if time.monotonic() - saved > _SECONDS:
                            _put_header(handle, plan, done)
                            saved = time.monotonic()
                    advance(len(block))
        finally:  # of an interrupt too: the next start goes on here
            with _refusals(part):
                _put_header(handle, plan, done, whole=done == plan.shape[0])
        if done != plan.shape[0]:
            raise ValueError(f"{path}: expected {plan.shape[0]:,} rows, found {done:,}")
        with _refusals(part):
            os.replace(part, path)
            flush_folder(path.parent)
    finally:
        os.close(handle)


def _reserve(handle: int, plan: Plan) -> None:
    """Takes the room of the whole file, so that a full disk is known before the work."""
    os.ftruncate(handle, 0)
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, plan.bytes)
    os.ftruncate(handle, plan.bytes)
    _put_header(handle, plan, 0)


def _put(handle: int, plan: Plan, rows: slice | np.ndarray, block: np.ndarray) -> None:
    count = len(range(plan.shape[0])[rows]) if isinstance(rows, slice) else len(rows)
    if block.shape != (expected := (count, *plan.shape[1:])):  # bytes of it would go elsewhere
        raise ValueError(f"expected a block {expected}, found {block.shape}")
    content = np.ascontiguousarray(block, plan.dtype).data.cast("B")
    if isinstance(rows, slice):
        _put_bytes(handle, content, HEADER + rows.start * plan.row_bytes)
        return
    for number, row in enumerate(rows.tolist()):
        own = content[number * plan.row_bytes : (number + 1) * plan.row_bytes]
        _put_bytes(handle, own, HEADER + row * plan.row_bytes)


def _put_header(handle: int, plan: Plan, done: int, whole: bool = False) -> None:
    os.fsync(handle)  # rows first: a header must not promise what a power failure takes
    total = _sum(handle) if whole and plan.bytes <= _SUMMED else None
    about = json.dumps(seal({**plan._asdict(), "done": done, "content": total})).encode()
    _put_bytes(handle, memoryview((_MAGIC + about).ljust(HEADER)), 0)
    os.fsync(handle)


def _put_bytes(handle: int, content: memoryview, at: int) -> None:
    while content:
        written = os.pwrite(handle, content, at)
        content, at = content[written:], at + written


def _sum(handle: int) -> int:
    total, at = 0, HEADER
    while content := os.pread(handle, 1 << 20, at):
        total, at = zlib.crc32(content, total), at + len(content)
    return total


def _check(file: Any, plan: Plan, partly: bool) -> int:
    """Rows that a file holds; ValueError says what is wrong with it."""
    start = file.read(HEADER)
    if not start.startswith(_MAGIC):
        raise ValueError("of another version or no file of ours, by its header")
    try:
        about = open_sealed(json.loads(start[len(_MAGIC) :]))
        found = Plan(about["origin"], tuple(about["shape"]), about["dtype"])
        done, total = int(about["done"]), about["content"]
    except (BrokenSealError, ValueError, KeyError, TypeError) as error:
        raise ValueError("its header is damaged") from error
    if found.origin != plan.origin:
        raise ValueError("made from other documents or settings, by its header")
    if found != plan:
        raise ValueError(f"expected {plan.dtype} {plan.shape}, found {found.dtype} {found.shape}")
    if (size := os.fstat(file.fileno()).st_size) != plan.bytes:
        raise ValueError(f"cut short: expected {plan.bytes:,} bytes, found {size:,}")
    if not (partly or done == plan.shape[0]):
        raise ValueError(f"only {done:,} of {plan.shape[0]:,} rows were written")
    if not partly and total is not None and _sum(file.fileno()) != total:
        raise ValueError("its content is not what was written")
    return done


@contextmanager
def _refusals(part: Path) -> Iterator[None]:
    """What the disk refuses, as an error of its own; the unfinished file is removed."""
    try:
        yield
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise _RefusedError from error


def _no_room(path: Path, plan: Plan, error: OSError) -> OSError:
    reason = f"{error.strerror}: {path.name} needs {plan.bytes / 1e9:,.2f} GB in this folder"
    return OSError(error.errno, reason, str(path.parent))
