"""Whole writes: a reader sees the old file or the new one; locks keep other writers out."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

LOCK = ".lock"
PRIVATE = 0o700  # of folders that hold people's texts
_UMASK = os.umask(0o077)  # it can only be read by setting it
os.umask(_UMASK)


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the name ``path`` only once it is complete and on the disk.

    A reader, a crash or another writer sees the old file or the new one, whole.

    Raises:
      OSError: naming ``path``; an old file is intact.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: two writers at once must not write into one file.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_UMASK)  # mkstemp's files are private; this is ordinary output
        os.replace(name, path)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError) and error.filename in (None, name):  # as of a full disk
            kept = "the old file is intact" if path.exists() else "no file was written"
            reason = f"{error.strerror}; {kept}"
            raise OSError(error.errno, reason, str(path)) from error
        raise
    flush_folder(path.parent)


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
def lock(folder: Path, *, wait: bool = True, name: str = LOCK) -> Iterator[None]:
    """Keeps other processes out of a folder that is being written to.

    Args:
      folder: made if need be; the lock is a file in it.
      name: of that file: work that takes long has one of its own, so that others need not wait.
      wait: until the other is done; else see below.

    Raises:
      BlockingIOError: if another has the lock and nobody wants to wait.
    """
    held = FileLock(folder / name, timeout=-1 if wait else 0)
    try:
        held.acquire()
    except Timeout:
        raise BlockingIOError(errno.EAGAIN, "locked by another process", str(folder)) from None
    try:
        yield
    finally:
        held.release()


def flush_folder(folder: Path) -> None:
    """Without it, a power failure may bring back the old file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
