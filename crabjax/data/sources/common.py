"""What a source is, and what sources share: the split by seed, counted omissions.

A source is a function that writes splits from raw files, found by name::

    @register_source("mine", About(...))
    def prepare(asked):
        return Prepared({"train": 8, "test": 2}, [])
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from crabjax.data.corpus import json_line
from crabjax.data.csv_rows import read_csv_rows
from crabjax.files import DataError, DataWarning, atomic_write, sha256
from crabjax.progress import counting


class About(NamedTuple):
    """What a user must know to get a data set.

    Attributes:
      title: its full name.
      files: the raw files, as they are called where they come from.
      where: the address and the licence.
      train_size: documents in the paper's training file; None for all there are.
      test_size: documents in the paper's test file; None for all there are.
    """

    title: str
    files: str
    where: str
    train_size: int | None = None
    test_size: int | None = None


class Document(NamedTuple):
    """One converted document; ``body`` as in :class:`~crabjax.data.corpus.Corpus`."""

    id: str
    body: str
    labels: tuple[str, ...]
    tokenised: bool = False


@dataclass
class Omitted:
    """Raw documents left out: how many for which reason, and where the first of them stands."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, where: str) -> None:
        """Counts one omission."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        self.first.setdefault(reason, where)

    def lines(self) -> list[str]:
        """One sentence a reason."""
        return [
            f"left out {count}: {reason} (first: {self.first[reason]})"
            for reason, count in self.counts.items()
        ]


class Asked(NamedTuple):
    """What a source is asked to do.

    Attributes:
      raw: folder with the raw files.
      output: folder to write to.
      sizes: documents by split, "train" and "test"; None for all there are.
      seed: of the random draw.
    """

    raw: Path
    output: Path
    sizes: Mapping[str, int | None]
    seed: int = 0


class Prepared(NamedTuple):
    """What a source wrote: documents per split, and sentences on what it left out."""

    written: dict[str, int]
    omitted: list[str]


Prepare = Callable[[Asked], Prepared]

Documents = Callable[[Omitted], Iterable[Document]]
"""Reads documents, from their file anew at every call, and counts what it leaves out."""

Function = TypeVar("Function", bound=Prepare)


class Source(NamedTuple):
    """A data set that can be made from raw files."""

    about: About
    prepare: Prepare


SOURCES: dict[str, Source] = {}


def register_source(name: str, about: About) -> Callable[[Function], Function]:
    """Makes the decorated function the command ``crabjax prepare name``.

    Args:
      name: of the command, and of the data set in ``data.name``.
      about: what the command, and the advice on missing files, tell the user.
    """

    def decorate(prepare: Function) -> Function:
        if name in SOURCES:
            raise ValueError(f"source {name!r} is already registered")
        SOURCES[name] = Source(about, prepare)
        return prepare

    return decorate


def find_raw(folder: Path, name: str, about: About) -> Path:
    """The raw file of this name in ``folder``, plain or gzipped.

    Raises:
      DataError: saying where to get it and under which licence.
    """
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise missing_raw(folder, f"{name} or {name}.gz", about)


def missing_raw(folder: Path, what: str, about: About) -> DataError:
    """The error for raw files that are not there."""
    return DataError(
        f"{folder}: no {what} here. {about.title} needs {about.files}. Get them from {about.where}"
    )


def read_table(path: Path, columns: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (line, row by column name) of a CSV file.

    Raises:
      DataError: if one of the columns is missing.
    """
    for number, row in read_csv_rows(path):
        if lacking := [column for column in columns if column not in row]:
            raise DataError(f"{path}:1: expected the columns {', '.join(lacking)} in the header")
        yield number, row


def one_by_one(files: Sequence[Path]) -> Iterator[Path]:
    """Many files, with how far it is said while they are read."""
    with counting("reading files", len(files)) as advance:
        for file in files:
            yield file
            advance(1)


def check_sum(path: Path, published: str | None) -> None:
    """Warns of a file that is not the published one, to the last bit; None: nothing is known.

    Warns:
      DataWarning: naming the file; it is read all the same.
    """
    if published is None:
        return
    if (found := sha256(path)) != published:
        warnings.warn(
            f"{path}: not the published file: its SHA-256 is {found[:12]}..., expected "
            f"{published[:12]}...; broken on the way?",
            DataWarning,
            stacklevel=2,
        )


def draw_split(total: int, sizes: Mapping[str, int | None], seed: int, source: str) -> np.ndarray:
    """The split of each of ``total`` documents as a position in ``sizes``, -1 for none.  # [N]

    Raises:
      DataError: if there are fewer documents than the sizes ask for, or a size is not given.
    """
    counts = [size for size in sizes.values() if size is not None]
    if len(counts) < len(sizes):
        raise DataError(f"{source}: give --train-size and --test-size to draw both")
    if (wanted := sum(counts)) > total:
        asked = " + ".join(f"{size} {name}" for name, size in sizes.items())
        raise DataError(
            f"{source}: {asked} documents asked for, found {total} usable ones; "
            "give smaller --train-size and --test-size"
        )
    order = np.random.default_rng(seed).permutation(total)[:wanted]
    split = np.full(total, -1)
    split[order] = np.repeat(np.arange(len(sizes)), counts)
    return split


def write_splits(
    documents: Iterable[Document], split: np.ndarray, names: Iterable[str], output: Path
) -> dict[str, int]:
    """Streams each document to ``output/<name>.jsonl`` of its split; returns the counts."""
    names = list(names)
    written = dict.fromkeys(names, 0)
    with ExitStack() as stack:
        files = [stack.enter_context(atomic_write(output / f"{name}.jsonl")) for name in names]
        for part, document in zip(split, documents, strict=True):
            if part >= 0:
                line = json_line(document.body, document.labels, document.tokenised, document.id)
                files[part].write(line)
                written[names[part]] += 1
    return written


def write_drawn(documents: Documents, asked: Asked, source: Path | None = None) -> Prepared:
    """Draws disjoint splits at random from all usable documents; these are read twice."""
    for name in ("train", "test"):
        if asked.sizes.get(name) is None:
            raise DataError(f"sizes: expected documents of {name}: this source draws its splits")
    omitted = Omitted()
    total = sum(1 for _ in documents(omitted))
    split = draw_split(total, asked.sizes, asked.seed, str(source or asked.raw))
    written = write_splits(documents(Omitted()), split, asked.sizes, asked.output)
    return Prepared(written, omitted.lines())


def write_published(splits: Mapping[str, Documents], asked: Asked) -> Prepared:
    """Writes splits as they were published, or a random part where a size asks for less.

    Args:
      splits: by name, what reads the split.
      asked: a size that is None, or not there, stands for all documents of the split.
    """
    omitted, counts = Omitted(), {}
    for name, documents in splits.items():  # all are read before the first file is written
        counts[name] = sum(1 for _ in documents(omitted))
    drawn = {
        name: draw_split(total, {name: asked.sizes.get(name) or total}, asked.seed, name)
        for name, total in counts.items()
    }
    written = {}
    for name, documents in splits.items():
        written |= write_splits(documents(Omitted()), drawn[name], [name], asked.output)
    return Prepared(written, omitted.lines())
