"""From the ``data`` section of a configuration to arrays, with the work kept on disk."""

import dataclasses
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from crabjax.cache import kept_folder, settings_hash
from crabjax.config import DataConfig
from crabjax.data.corpus import Corpus, CsvFormat, read_corpus
from crabjax.data.documents import hashes_of
from crabjax.data.encode import (
    Encoded,
    Tokenizer,
    build_vocabulary,
    label_blocks,
    load_pretrained_tokenizer,
    token_blocks,
    tokenizer_files,
    used_columns,
)
from crabjax.data.sources import SOURCES
from crabjax.data.synthetic import make_synthetic
from crabjax.files import DataError, DataWarning, sha256, write_text
from crabjax.progress import doing
from crabjax.seals import open_sealed, seal
from crabjax.store import Plan, kept

_FACTS = "facts.json"
_KNOWN = {"documents", "label_names", "vocabulary_size", "columns", "notes", "width"}
_FORMAT = 4  # raise it when the same input would give other arrays or notes: old ones go unused


@dataclass(frozen=True)
class Dataset:
    """A data set as arrays, mapped from files where they are kept.

    Attributes:
      name: for records and reports.
      pool: the documents to choose from, and after them those of the validation file.
      documents: how many there are to choose from.
      test: the documents to report on.
      label_names: the labels of the training file, sorted: the columns of every label array.
      vocabulary_size: ids run from 0 to this, exclusive.
      config: the settings it was made from.
    """

    name: str
    pool: Encoded
    documents: int
    test: Encoded
    label_names: tuple[str, ...]
    vocabulary_size: int
    config: DataConfig

    @property
    def train(self) -> Encoded:
        """The documents to choose from."""
        return Encoded(*(array[: self.documents] for array in self.pool))

    @property
    def validation(self) -> Encoded | None:
        """The documents of the validation file, or None where there is none."""
        if len(self.pool.labels) == self.documents:
            return None
        return Encoded(*(array[self.documents :] for array in self.pool))

    def corpus(self, split: str) -> Corpus:
        """Reads the documents of "train", "test" or "validation" again, as text."""
        return read_splits(self.config)[split]


def load_data(config: DataConfig, tokenizer: Path | None = None, *, cache: bool = True) -> Dataset:
    """Reads and encodes a data set; the second time, the arrays come from the cache.

    Args:
      config: files, columns, lengths.
      tokenizer: folder of a Hugging Face tokenizer; None for the words of the training file.
      cache: keep the arrays on disk, for the next start with the same files.

    Raises:
      DataError: for a missing file, saying how to make it; for input that cannot be used.
      OSError: if the cache has no room.

    Warns:
      DataWarning: with counts, for what was read otherwise than it stands in the files.
    """
    files = find_files(config)
    key = _cache_key(config, files, tokenizer) if cache else None
    source = _Source(config, tokenizer)
    with kept_folder(key) as folder:
        facts = _read_facts(folder)
        if facts is None:
            facts = source.facts()
        else:
            for note in facts["notes"]:
                warnings.warn(note, DataWarning, stacklevel=2)
        pool = source.arrays("pool", ("train", "validation"), facts, folder)
        test = source.arrays("test", ("test",), facts, folder)
        if "width" not in facts:
            # One T for all: columns that are padding everywhere are left out.
            facts["width"] = max(used_columns(pool.tokens), used_columns(test.tokens))
            _write_facts(folder, facts)
    cut = lambda one: one._replace(tokens=one.tokens[:, : facts["width"]])
    return Dataset(
        config.name,
        cut(pool),
        facts["documents"]["train"],
        cut(test),
        tuple(facts["label_names"]),
        facts["vocabulary_size"],
        config,
    )


def find_files(config: DataConfig) -> dict[str, Path]:
    """The file of each split; none for the built-in corpus.

    Raises:
      DataError: if one is missing, with the command that makes it.
    """
    if config.train is None:
        if config.test is not None or config.validation is not None:
            raise DataError("data.train: expected a file, as data.test or data.validation has one")
        return {}
    if config.test is None:
        raise DataError(f"data.test: expected a file to report on beside {config.train}")
    named = {"train": config.train, "test": config.test, "validation": config.validation}
    files = {split: Path(name).expanduser() for split, name in named.items() if name is not None}
    for split, path in files.items():
        if path.is_dir():
            raise DataError(f"data.{split}: expected a file, found a folder: {path.absolute()}")
        if not path.is_file():
            raise DataError(
                f"data.{split}: no such file: {path.absolute()}. {_advice(config, path)}"
            )
    if files["train"].samefile(files["test"]):
        raise DataError(
            f"data.test: expected another file than data.train, found {files['test']} as both; "
            "a score on documents that were learnt from says nothing"
        )
    return files


def read_splits(config: DataConfig) -> dict[str, Corpus]:
    """The corpora of a configuration: its files, or the built-in corpus."""
    csv_format = CsvFormat(
        config.text_column, config.label_column, config.label_separator, config.csv_delimiter
    )
    files = find_files(config)
    if not files:
        return dict(zip(("train", "test"), make_synthetic(config.synthetic)))
    return {
        split: read_corpus(path, split=split, csv_format=csv_format)
        for split, path in files.items()
    }


class _Source:
    """The documents of a configuration, read only where arrays have to be made from them."""

    def __init__(self, config: DataConfig, folder: Path | None):
        self.config, self.folder = config, folder

    @cached_property
    def corpora(self) -> dict[str, Corpus]:
        """By split."""
        with doing("reading the documents, once"):
            return read_splits(self.config)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The words of the training file, or what the folder holds."""
        if self.folder is None:
            return build_vocabulary(self.corpora["train"], self.config.min_count)
        return load_pretrained_tokenizer(self.folder, self.config.tokenizer or self.folder.name)

    def facts(self) -> dict[str, Any]:
        """What has to be known of the documents beside their arrays; JSON-able."""
        names = self.corpora["train"].label_names
        if not names:
            raise DataError(f"{self.config.train}: no document of the training file has a label")
        notes = [note for corpus in self.corpora.values() for note in corpus.notes]
        for note in _compare(self.corpora):
            warnings.warn(note, DataWarning, stacklevel=3)
            notes.append(note)
        others = [corpus for split, corpus in self.corpora.items() if split != "train"]
        return {
            "documents": {split: len(corpus) for split, corpus in self.corpora.items()},
            "label_names": names,
            "vocabulary_size": self.tokenizer.size,
            "columns": self.tokenizer.columns(others, self.config.max_tokens),
            "notes": notes,
        }

    def arrays(
        self, name: str, splits: Sequence[str], facts: Mapping[str, Any], folder: Path | None
    ) -> Encoded:
        """The arrays of splits, one after another: those kept in the folder, or made now."""
        counts, names, columns = facts["documents"], facts["label_names"], facts["columns"]
        rows = sum(counts.get(split, 0) for split in splits)
        origin = "" if folder is None else folder.name
        own = lambda: [self.corpora[split] for split in splits if split in counts]
        place = lambda what: None if folder is None else folder / f"{name}.{what}"
        tokens = kept(
            place("tokens"),
            Plan(origin, (rows, columns), "int32"),
            lambda start: token_blocks(own(), self.tokenizer, columns, start),
            f"tokenising the {name} documents, once",
        )
        labels = kept(
            place("labels"),
            Plan(origin, (rows, len(names)), "bool"),
            lambda start: label_blocks(own(), names, start),
            f"labels of the {name} documents, once",
        )
        return Encoded(tokens, labels)


def _read_facts(folder: Path | None) -> dict[str, Any] | None:
    if folder is None or not (path := folder / _FACTS).is_file():
        return None
    try:
        facts = open_sealed(json.loads(path.read_text(encoding="utf-8")))
        if facts.keys() != _KNOWN:
            raise ValueError(f"expected {sorted(_KNOWN)}")
        return facts
    except (OSError, ValueError, AttributeError) as error:
        warnings.warn(f"{path}: unreadable, made again: {error}", DataWarning, stacklevel=3)
        return None


def _write_facts(folder: Path | None, facts: Mapping[str, Any]) -> None:
    if folder is None:
        return
    try:
        write_text(folder / _FACTS, json.dumps(seal(facts)))
    except OSError as error:
        warnings.warn(f"cannot cache: {error}", DataWarning, stacklevel=3)


def _compare(corpora: Mapping[str, Corpus]) -> list[str]:
    """What the other splits have that the training split decides on: labels and ids."""
    train = corpora["train"]
    known, ids = set(train.label_names), set(train.ids or ())
    notes = []
    hashes = hashes_of(train.documents)
    if 2 * (distinct := len(np.unique(hashes))) < len(train):
        notes.append(
            f"train: {len(train)} documents, but {distinct} different texts; is the right column "
            "read?"
        )
    for split, corpus in corpora.items():
        if split != "train" and np.array_equal(hashes_of(corpus.documents), hashes):
            notes.append(f"{split}: the texts of the training file; results on them say little")
        unknown = [set(labels) - known for labels in corpus.label_sets]
        if count := sum(map(bool, unknown)):
            names = sorted(set().union(*unknown))
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            notes.append(
                f"{split}: {count} of {len(corpus)} documents have labels that the training file "
                f"lacks ({len(names)}: {shown}); these labels are left out"
            )
        shared = ids.intersection(corpus.ids or ()) if split != "train" else ()
        if shared:
            notes.append(
                f"{split}: {len(shared)} of {len(corpus)} documents have the id of a training "
                f'document (first: "{min(shared)}"); results on them say little'
            )
    return notes


def _cache_key(config: DataConfig, files: Mapping[str, Path], folder: Path | None) -> str:
    """A hash of all that decides the arrays, and of nothing else."""
    if folder is None:
        tokenizer: object = {"min_count": config.min_count}
    else:
        tokenizer = {path.name: sha256(path) for path in tokenizer_files(folder)}
    columns = [
        config.text_column,
        config.label_column,
        config.label_separator,
        config.csv_delimiter,
    ]
    return settings_hash(
        {
            "format": _FORMAT,
            # The name is part of what is read: its ending says how, and warnings repeat it.
            "files": {split: [str(path), sha256(path)] for split, path in files.items()},
            "synthetic": None if files else dataclasses.asdict(config.synthetic),
            "columns": columns,
            "tokenizer": tokenizer,
            "max_tokens": config.max_tokens,
        }
    )


def _advice(config: DataConfig, path: Path) -> str:
    """What to run to get a file of one of the paper's data sets."""
    for name in (config.name, path.parent.name):
        if name in SOURCES:
            about = SOURCES[name].about
            return (
                f"Make it with `crabjax prepare {name} --raw FOLDER --output {path.parent}`, where "
                f"FOLDER holds {about.files}, from {about.where}"
            )
        ratio = name.removeprefix("rcv1_t10_")
        if ratio != name and ratio.isdigit():
            return (
                "Make it from RCV1 (`crabjax prepare rcv1 --help`) with `crabjax prepare "
                f"resample --input data/rcv1 --labels 10 --mean-ir {ratio} "
                f"--output {path.parent}`"
            )
    return "`crabjax prepare --help` lists the data sets it can make"
