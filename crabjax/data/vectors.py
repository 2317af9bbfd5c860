"""Document vectors: the user's own, in a file that is mapped as it is, one row a document."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crabjax.config import DataConfig
from crabjax.files import DataError, check_safetensors
from crabjax.files.store import blocks_of, map_rows
from crabjax.progress import counting

_SETTINGS = {"train": "vectors", "test": "test_vectors", "validation": "validation_vectors"}


class Rows:
    """Rows [N, D] of an array that may be mapped: those that are asked for are read, no others.

    Rows by number are an array in memory, a slice is another of these.

    Args:
      array: float32 [n, D].
      rows: int64 [N], which of them.
      origin: a hash of the array, which nobody need read for it.
    """

    def __init__(self, array: np.ndarray, rows: np.ndarray, origin: str):
        self.base, self.rows, self.origin = array, rows, origin  # base: as arrays call it
        self.shape, self.dtype, self.ndim = (len(rows), array.shape[1]), array.dtype, 2

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Of all of them."""
        return len(self) * self.shape[1] * self.dtype.itemsize

    def take(self, rows: slice | np.ndarray) -> "Rows":
        """Some of them, nothing read."""
        return Rows(self.base, self.rows[rows], self.origin)

    def __getitem__(self, rows: slice | np.ndarray) -> Any:
        return self.take(rows) if isinstance(rows, slice) else self.base[self.rows[rows]]

    __iter__ = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.base[self.rows]


def find_vectors(config: DataConfig) -> dict[str, Path]:
    """The file of vectors of each split; none if documents are encoded here.

    Raises:
      DataError: naming the setting whose file is missing or not wanted.
    """
    named = {split: getattr(config, setting) for split, setting in _SETTINGS.items()}
    if config.vectors is None:
        for split, name in named.items():
            if name is not None:
                raise DataError(f"data.{_SETTINGS[split]}: expected data.vectors beside it")
        return {}
    if config.validation is None:
        del named["validation"]
    files = {}
    for split, name in named.items():
        if name is None:
            raise DataError(f"data.{_SETTINGS[split]}: expected a file, as data.vectors has one")
        files[split] = Path(name).expanduser()
        if not files[split].is_file():
            raise DataError(f"data.{_SETTINGS[split]}: no such file: {files[split].absolute()}")
    return files


def read_vectors(files: Mapping[str, Path], documents: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The vectors of "pool", the training file and then the validation file, and of "test".

    Raises:
      DataError: see :func:`open_vectors`; if they are not all of one length.
    """
    found = {
        split: open_vectors(path, documents[split], f"the {split} file")
        for split, path in files.items()
    }
    width = found["train"].shape[1]
    for split, array in found.items():
        if array.shape[1] != width:
            raise DataError(
                f"{files[split]}: expected vectors of {width} numbers, as in {files['train']}, "
                f"found {array.shape[1]}"
            )
    pool = found["train"]
    if "validation" in found:
        pool = np.concatenate([pool, found["validation"]])
    return {"pool": pool, "test": found["test"]}


def open_vectors(path: Path, documents: int, of: str, checked: bool = False) -> np.ndarray:
    """The vectors of a ``.npy`` or ``.safetensors`` file, mapped: float32 [N, D], all finite.

    Args:
      path: the file; a safetensors file holds one array.
      documents: N.
      of: what the documents are, for messages.
      checked: whether its numbers were looked at before; else all of the file is read once.

    Raises:
      DataError: naming the file and, where there is one, the row that cannot be used.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    array = _from_safetensors(path) if path.suffix == ".safetensors" else _from_npy(path)
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{path}: expected one row a document, [N, D], found {array.shape}")
    if array.dtype != np.float32:
        raise DataError(
            f"{path}: expected float32, found {array.dtype}; convert it with "
            "`numpy.save(new, numpy.load(old).astype('float32'))`"
        )
    if not array.flags.c_contiguous:
        raise DataError(f"{path}: expected rows one after another, found columns (Fortran order)")
    if len(array) != documents:
        raise DataError(
            f"{path}: expected {documents} rows, one a document of {of}, found {len(array)}"
        )
    if not checked:
        _check_finite(path, array)
    return array


def _check_finite(path: Path, array: np.ndarray) -> None:
    row = 0
    with counting(f"checking {path.name}", len(array)) as advance:
        for block in blocks_of(array):
            if not np.isfinite(block).all():
                row, column = np.argwhere(~np.isfinite(block))[0] + (row, 0)
                found = array[row, column]
                raise DataError(f"{path}: row {row} (from 0): expected numbers, found {found}")
            row += len(block)
            advance(len(block))


def _from_npy(path: Path) -> np.ndarray:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise DataError(f"{path}: no whole .npy file of numbers: {reason}") from error
    if not isinstance(found, np.memmap):
        raise DataError(f"{path}: expected one array as numpy.save writes it, found several")
    if found.ndim == 2 and found.flags.c_contiguous and found.size:
        return map_rows(path, found.offset, found.shape, found.dtype)
    return np.asarray(found)


def _from_safetensors(path: Path) -> np.ndarray:
    check_safetensors(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    arrays = {name: about for name, about in header.items() if name != "__metadata__"}
    if len(arrays) != 1:
        raise DataError(f"{path}: expected one array, found {len(arrays)}: {', '.join(arrays)}")
    (about,) = arrays.values()
    if about["dtype"] != "F32":
        raise DataError(f"{path}: expected float32 (F32), found {about['dtype']}")
    if 0 in about["shape"]:
        return np.zeros(about["shape"], np.float32)
    return map_rows(path, 8 + length + about["data_offsets"][0], tuple(about["shape"]), "<f4")


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [n, D] of length one; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
