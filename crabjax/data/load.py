"""From the ``data`` section of a configuration to arrays, with the work kept on disk."""

import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crabjax.cache import load_arrays, save_arrays, settings_hash
from crabjax.config import DataConfig
from crabjax.data.corpus import Corpus, CsvFormat, read_corpus
from crabjax.data.encode import (
    Encoded,
    Tokenizer,
    build_vocabulary,
    encode,
    load_pretrained_tokenizer,
    tokenizer_files,
    trim_together,
)
from crabjax.data.sources import SOURCES
from crabjax.data.synthetic import make_synthetic
from crabjax.files import DataError, DataWarning, sha256
from crabjax.progress import doing

_FORMAT = 3  # raise it when the same input would give other arrays or notes: old ones go unused


@dataclass(frozen=True)
class Dataset:
    """A data set as arrays.

    Attributes:
      name: for records and reports.
      train: the documents to choose from.
      test: the documents to report on.
      validation: the documents of the validation file, or None where there is none.
      label_names: the labels of the training file, sorted: the columns of every label array.
      vocabulary_size: ids run from 0 to this, exclusive.
      config: the settings it was made from.
    """

    name: str
    train: Encoded
    test: Encoded
    validation: Encoded | None
    label_names: tuple[str, ...]
    vocabulary_size: int
    config: DataConfig

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

    Warns:
      DataWarning: with counts, for what was read otherwise than it stands in the files.
    """
    key = _cache_key(config, find_files(config), tokenizer) if cache else ""
    stored = load_arrays(key) if cache else None
    if stored is not None:
        arrays, facts = stored
        for note in facts["notes"]:
            warnings.warn(note, DataWarning, stacklevel=2)
    else:
        arrays, facts = _encode_all(config, tokenizer)
        if cache:
            save_arrays(key, arrays, facts)
    return _dataset(config, arrays, tuple(facts["label_names"]), facts["vocabulary_size"])


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
    for one, other in (("test", "train"), ("validation", "train"), ("validation", "test")):
        if one in files and files[one].samefile(files[other]):
            raise DataError(
                f"data.{one}: expected another file than data.{other}, found {files[one]} as both; "
                "a score on documents that were learnt or chosen from says nothing"
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


@doing("reading and tokenising the documents, once")
def _encode_all(config: DataConfig, folder: Path | None) -> tuple[dict[str, np.ndarray], dict]:
    corpora = read_splits(config)
    label_names = corpora["train"].label_names
    if not label_names:
        raise DataError(f"{config.train}: no document of the training file has a label")
    notes = [note for corpus in corpora.values() for note in corpus.notes]
    for note in _compare(corpora):
        warnings.warn(note, DataWarning, stacklevel=3)
        notes.append(note)
    tokenizer: Tokenizer = (
        build_vocabulary(corpora["train"], config.min_count)
        if folder is None
        else load_pretrained_tokenizer(folder, config.tokenizer or folder.name)
    )
    splits = trim_together(
        encode(corpus, tokenizer, label_names, config.max_tokens) for corpus in corpora.values()
    )
    arrays = {
        f"{split}_{field}": array
        for split, encoded in zip(corpora, splits)
        for field, array in encoded._asdict().items()
    }
    facts = {"label_names": label_names, "vocabulary_size": tokenizer.size, "notes": notes}
    return arrays, facts


def _compare(corpora: Mapping[str, Corpus]) -> list[str]:
    """What the other splits have that the training split decides on: labels and ids."""
    train = corpora["train"]
    known, ids = set(train.label_names), set(train.ids or ())
    notes = []
    if 2 * (distinct := len(set(train.documents))) < len(train):
        notes.append(
            f"train: {len(train)} documents, but {distinct} different texts; is the right column "
            "read?"
        )
    for split, corpus in corpora.items():
        if split != "train" and corpus.documents == train.documents:
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


def _dataset(
    config: DataConfig, arrays: Mapping[str, np.ndarray], label_names: tuple[str, ...], size: int
) -> Dataset:
    def split(name: str) -> Encoded:
        return Encoded(*(arrays[f"{name}_{field}"] for field in Encoded._fields))

    validation = split("validation") if "validation_tokens" in arrays else None
    return Dataset(
        config.name, split("train"), split("test"), validation, label_names, size, config
    )


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
