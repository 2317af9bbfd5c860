"""The files of a data set, and what they say of one another."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from crabjax.config import DataConfig
from crabjax.data.corpus import Corpus, read_corpus
from crabjax.data.documents import hashes_of
from crabjax.data.records import CsvFormat
from crabjax.data.sources import SOURCES
from crabjax.data.synthetic import make_synthetic
from crabjax.files import DataError


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


def compare_splits(corpora: Mapping[str, Corpus]) -> list[str]:
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
