"""From the ``data`` section of a configuration to arrays, with the work kept on disk."""

import dataclasses
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from crabjax.config import DataConfig
from crabjax.data.corpus import Corpus
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
from crabjax.data.splits import compare_splits, find_files, read_splits
from crabjax.data.vectors import find_vectors, read_vectors
from crabjax.files import DataError, DataWarning, sha256, write_text
from crabjax.files.cache import kept_folder
from crabjax.files.seals import json_hash, open_sealed, seal
from crabjax.files.store import Plan, kept
from crabjax.progress import doing

_SPLITS = {"pool": ("train", "validation"), "test": ("test",)}  # that lie in one array
_FACTS = "facts.json"
_KNOWN = {"documents", "label_names", "vocabulary_size", "columns", "notes", "width"}
_FORMAT = 4  # raise it when the same input would give other arrays or notes: old ones go unused


@dataclass(frozen=True)
class Dataset:
    """A data set as arrays, mapped from files where they are kept.

    Attributes:
      pool: the documents to choose from, and after them those of the validation file.
      documents: how many there are to choose from.
      test: the documents to report on.
      label_names: the labels of the training file, sorted: the columns of every label array.
      vocabulary_size: ids run from 0 to this, exclusive.
      config: the settings it was made from.
    """

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
    vectors = find_vectors(config)
    key = _cache_key(config, files, tokenizer) if cache else None
    source = _Source(config, tokenizer)
    with kept_folder(key) as folder:
        known = _read_facts(folder)
        facts = source.facts() if known is None else known
        for note in () if known is None else known["notes"]:
            warnings.warn(note, DataWarning, stacklevel=2)
        labels = {name: source.labels(name, facts, folder) for name in _SPLITS}
        if vectors:
            inputs = read_vectors(vectors, facts["documents"])
        else:
            inputs = {name: source.tokens(name, facts, folder) for name in _SPLITS}
            # One T for all: columns that are padding everywhere are left out.
            facts["width"] = facts["width"] or max(map(used_columns, inputs.values()))
            inputs = {name: tokens[:, : facts["width"]] for name, tokens in inputs.items()}
        if known is None:
            _write_facts(folder, facts)
    return Dataset(
        Encoded(inputs["pool"], labels["pool"]),
        facts["documents"]["train"],
        Encoded(inputs["test"], labels["test"]),
        tuple(facts["label_names"]),
        facts["vocabulary_size"],
        config,
    )


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
        for note in compare_splits(self.corpora):
            warnings.warn(note, DataWarning, stacklevel=3)
            notes.append(note)
        facts = {
            "label_names": names,
            "notes": notes,
            "vocabulary_size": 0,
            "columns": 0,
            "width": 0,
        }
        facts["documents"] = {split: len(corpus) for split, corpus in self.corpora.items()}
        if self.config.vectors is None:
            others = [corpus for split, corpus in self.corpora.items() if split != "train"]
            facts["vocabulary_size"] = self.tokenizer.size
            facts["columns"] = self.tokenizer.columns(others, self.config.max_tokens)
        return facts

    def tokens(self, name: str, facts: Mapping[str, Any], folder: Path | None) -> np.ndarray:
        """The ids of "pool" or "test", int32 [N, columns]: those of the folder, or made now."""
        plan = _plan(name, facts, folder, facts["columns"], "int32")
        make = lambda start: token_blocks(self._own(name), self.tokenizer, facts["columns"], start)
        return kept(_path(folder, name, "tokens"), plan, make, f"tokenising the {name} documents")

    def labels(self, name: str, facts: Mapping[str, Any], folder: Path | None) -> np.ndarray:
        """Which labels these documents have, bool [N, K]."""
        plan = _plan(name, facts, folder, len(facts["label_names"]), "bool")
        make = lambda start: label_blocks(self._own(name), facts["label_names"], start)
        return kept(_path(folder, name, "labels"), plan, make, f"labels of the {name} documents")

    def _own(self, name: str) -> list[Corpus]:
        return [self.corpora[split] for split in _SPLITS[name] if split in self.corpora]


def _plan(
    name: str, facts: Mapping[str, Any], folder: Path | None, columns: int, dtype: str
) -> Plan:
    rows = sum(facts["documents"].get(split, 0) for split in _SPLITS[name])
    return Plan("" if folder is None else folder.name, (rows, columns), dtype)


def _path(folder: Path | None, name: str, what: str) -> Path | None:
    return None if folder is None else folder / f"{name}.{what}"


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


def _cache_key(config: DataConfig, files: Mapping[str, Path], folder: Path | None) -> str:
    """A hash of all that decides the arrays, and of nothing else."""
    if config.vectors is not None:
        tokenizer: object = "none"
    elif folder is None:
        tokenizer = {"min_count": config.min_count}
    else:
        tokenizer = {path.name: sha256(path) for path in tokenizer_files(folder)}
    columns = [
        config.text_column,
        config.label_column,
        config.label_separator,
        config.csv_delimiter,
    ]
    return json_hash(
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
