"""``texts.index``: where each text of a project stands and what it is told apart by.

With it a command neither reads nor holds the texts or their ids. It can be made again.
"""

import warnings
from array import array
from collections.abc import Callable, Set
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from crabjax.config import Config
from crabjax.data.documents import Documents, Ids, body_of, file_stamp, hash_of, hashes_of
from crabjax.data.records import PLAIN_CSV, read_records
from crabjax.data.vectors import Rows, open_vectors
from crabjax.files import DataError, DataWarning, lock, read_lines
from crabjax.files.seals import sum_of
from crabjax.files.store import Blocks, Plan, blocks_of, kept
from crabjax.labelling.about import PROJECT, TEXTS, About

INDEX = "texts.index"
_FORMAT = 1  # raise the number when rows of the index, or hashes of texts, are made otherwise
_BLOCK = 1 << 16  # hashes looked through at once


def read_texts(folder: Path, about: About, config: Config) -> tuple[Ids, Documents]:
    """The ids and texts of a project, and its vectors if it has any; none is read.

    Raises:
      DataError: naming file and line of a text that cannot be used.

    Warns:
      DataWarning: of an index that does not fit the texts or is damaged, and is made again; of
        one that there is no room for, or no leave to write, and that is in memory then.
    """
    path = folder / TEXTS
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    stamp, known = file_stamp(path), about.hashes.get(TEXTS)
    count = about.documents if known and about.documents else _count(path)
    plan = Plan(sum_of([_FORMAT, known or stamp]), (3, count), "int64")
    make = lambda start: iter([(slice(start, 3), _columns(path, count)[start:])])
    with ExitStack() as held:
        with suppress(OSError):  # a project that may only be read
            held.enter_context(lock(folder))
        offsets, hashes, of_ids = _kept(folder, plan, make)
    in_memory = np.concatenate(list(blocks_of(hashes, _BLOCK)))  # they are sorted and compared
    vectors = _vectors(path, about, config, count)
    return Ids(path, offsets, of_ids, stamp), Documents(
        path, offsets, in_memory, stamp, vectors=vectors
    )


def texts_of(ids: Ids, texts: Documents, wanted: Set[str]) -> dict[str, str]:
    """The texts of some documents by their ids; those that are not known are left out."""
    if not wanted:
        return {}
    keys, found, start = np.unique(hashes_of(list(wanted))), [], 0
    for block in blocks_of(ids.hashes, _BLOCK):
        places = np.minimum(np.searchsorted(keys, block), len(keys) - 1)
        found.append(start + np.flatnonzero(keys[places] == block))
        start += len(block)
    pairs = {str(one["id"]): body_of(one) for one in texts.take(np.concatenate(found)).records()}
    return {own: text for own, text in pairs.items() if own in wanted}  # not by its hash alone


def own_vectors(config: Config) -> tuple[Path | None, Config]:
    """The user's file of vectors, and the config with its whole path.

    Raises:
      DataError: if there is no such file, or the classifier takes words.
    """
    if config.data.vectors is None:
        return None, config
    if config.model.name != "frozen":
        raise DataError(f"data.vectors: expected model.name frozen, found {config.model.name}")
    path = Path(config.data.vectors).expanduser().absolute()
    if not path.is_file():
        raise DataError(f"data.vectors: no such file: {path}")
    return path, replace(config, data=replace(config.data, vectors=str(path)))


def of_learner(config: Config) -> Config:
    """A learner is given vectors with the texts."""
    return replace(config, data=replace(config.data, vectors=None))


def _kept(folder: Path, plan: Plan, make: Callable[[int], Blocks]) -> np.ndarray:
    text = "indexing the texts"
    try:
        return kept(folder / INDEX, plan, make, text)
    except OSError as error:
        if error.filename != str(folder):  # of the texts: else there is no room for their index
            raise
        reason = f"cannot be kept: {error.strerror}"
        warnings.warn(f"{folder / INDEX}: {reason}", DataWarning, stacklevel=2)
        return kept(None, plan, make, text)


def _count(path: Path) -> int:
    count = sum(not line.isspace() for line in read_lines(path))  # as its reader has it
    if count == 0:
        raise DataError(f"{path}: no documents in this file")
    return count


def _columns(path: Path, count: int) -> np.ndarray:
    """Offset, hash and hash of the id of each text, int64 [3, N]; N must be ``count``."""
    rows, starts = array("q"), array("q")
    for number, record in read_records(path, PLAIN_CSV, labelled=False, starts=starts):
        if record.id is None:
            raise DataError(f'{path}:{number}: expected the field "id", which is missing')
        rows.extend((starts[number - 1], hash_of(record.body), hash_of(record.id)))
    columns = np.frombuffer(rows, np.int64).reshape(-1, 3).T
    if columns.shape[1] != count:
        raise DataError(
            f"{path}: expected {count} documents, as in {PROJECT}, found {columns.shape[1]}; put a "
            f'copy of {PROJECT} back, or take "documents" and "sum" out of it'
        )
    ids, counts = np.unique(columns[2], return_counts=True)
    if len(ids) < len(columns[2]):
        row = int(np.flatnonzero(columns[2] == ids[counts > 1][0])[1])
        line = int(np.searchsorted(starts, columns[0, row])) + 1
        raise DataError(f"{path}:{line}: an id that is also that of an earlier line")
    return np.ascontiguousarray(columns)


def _vectors(texts: Path, about: About, config: Config, count: int) -> Rows | None:
    if config.data.vectors is None:
        return None
    path = Path(config.data.vectors)
    vectors = open_vectors(path, count, str(texts), checked=str(path) in about.hashes)
    origin = about.hashes.get(str(path)) or str(file_stamp(path))
    return Rows(vectors, np.arange(count), origin)
