"""Files of labelled documents, JSON lines or CSV, checked once and kept compactly."""

import dataclasses
import json
import re
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crabjax.data.documents import TOKEN_SEPARATOR, Copied, InFile
from crabjax.data.records import JSON_LINES, PLAIN_CSV, CsvFormat, Record, read_records
from crabjax.files import DataError, DataWarning, atomic_write

_IN_MEMORY = 1 << 26  # bytes of a file, CSV or compressed, whose documents are held
_WORD = re.compile(r"\w+(?:['’]\w+)*")  # noqa: RUF001, both apostrophes are in use


@dataclass(frozen=True)
class Corpus:
    """Documents of one split with their label sets.

    Attributes:
      documents: one string a document; tokens joined by ``TOKEN_SEPARATOR`` if ``tokenised``.
        Those of a JSON-lines file stay there until they are asked for, those of other large
        files in a temporary one.
      label_sets: the sorted labels of each document; equal sets share one tuple.
      tokenised: whether the documents came as tokens instead of text.
      split: "train", "test", ...; the file name's stem unless told otherwise.
      ids: the documents' own ids, or None where the file has none.
      notes: the warnings given on reading, so that a cached copy can repeat them.
    """

    documents: Sequence[str]
    label_sets: list[tuple[str, ...]]
    tokenised: bool
    split: str
    ids: list[str] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def label_names(self) -> tuple[str, ...]:
        """All labels that occur, sorted."""
        return tuple(sorted({label for labels in set(self.label_sets) for label in labels}))

    def texts(self, start: int = 0) -> Iterator[str]:
        """Every document as text, those before ``start`` left out; tokens are joined by spaces."""
        documents = self.documents[start:]
        if not self.tokenised:
            return iter(documents)
        return (document.replace(TOKEN_SEPARATOR, " ") for document in documents)

    def words(self, start: int = 0) -> Iterator[list[str]]:
        """The words of each document: its tokens as they are, or its text lower-cased and split."""
        for document in self.documents[start:]:
            if not self.tokenised:
                yield _WORD.findall(document.lower())
            else:
                yield document.split(TOKEN_SEPARATOR) if document else []

    def label_matrix(self, label_names: Sequence[str], rows: slice = slice(None)) -> np.ndarray:
        """Membership in each of ``label_names``; labels not named are left out.  # bool [N, K]"""
        column = {name: k for k, name in enumerate(label_names)}
        label_sets = self.label_sets[rows]
        columns_of = {
            labels: [column[label] for label in labels if label in column]
            for labels in set(label_sets)
        }
        matrix = np.zeros((len(label_sets), len(label_names)), dtype=bool)
        for row, labels in enumerate(label_sets):
            matrix[row, columns_of[labels]] = True
        return matrix

    def select(self, rows: Iterable[int], labels: Sequence[str] | None = None) -> "Corpus":
        """The documents at ``rows``, in that order, with only ``labels`` kept where given."""
        rows = list(rows)
        sets = [self.label_sets[row] for row in rows]
        if labels is not None:
            kept = frozenset(labels)
            sets = [tuple(label for label in one if label in kept) for one in sets]
        ids = None if self.ids is None else [self.ids[row] for row in rows]
        return Corpus([self.documents[row] for row in rows], sets, self.tokenised, self.split, ids)


def read_corpus(
    path: str | Path,
    *,
    split: str | None = None,
    csv_format: CsvFormat = PLAIN_CSV,
    labelled: bool = True,
) -> Corpus:
    """Reads ``.jsonl``, ``.json`` (one object a line), ``.csv`` or ``.tsv``, each also ``.gz``.

    A JSON line is ``{"doc_token": [...], "doc_label": [...]}`` or
    ``{"text": "...", "labels": [...]}``, either with an optional ``"id"``. A CSV file has a
    header, a text and a label column, and an optional ``id`` column.

    Args:
      path: the file.
      split: the name of the split; the file name's stem if None.
      csv_format: columns and separators, for CSV files only.
      labelled: whether every document must have a label field; without, a missing one is
        an empty label set.

    Raises:
      DataError: naming file and line, for anything that is not as above, for an id that occurs
        twice and for a file without documents.

    Warns:
      DataWarning: with the number of documents that have no word at all; they are kept.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path}: expected a file, found a folder; name a file in it")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    corpus, empty = _gather(path, split, csv_format, labelled)
    if empty:
        note = (
            f"{path}: {empty} of {len(corpus)} documents have no words; they are kept: a word "
            "vocabulary makes each one unknown token, a Hugging Face tokenizer what it makes of "
            "other characters, if any, between its markers"
        )
        warnings.warn(note, DataWarning, stacklevel=2)
        return dataclasses.replace(corpus, notes=(note,))
    return corpus


def write_corpus(corpus: Corpus, path: Path) -> None:
    """Writes a corpus as JSON lines that :func:`read_corpus` reads back to an equal one."""
    with atomic_write(path) as file:
        for row, (document, labels) in enumerate(zip(corpus.documents, corpus.label_sets)):
            identity = None if corpus.ids is None else corpus.ids[row]
            file.write(json_line(document, labels, corpus.tokenised, identity))


def json_line(
    document: str, labels: Sequence[str], tokenised: bool, identity: str | None = None
) -> bytes:
    """One document as a line of the common format."""
    record: dict[str, Any] = {} if identity is None else {"id": identity}
    if tokenised:
        tokens = document.split(TOKEN_SEPARATOR) if document else []
        record |= {"doc_label": labels, "doc_token": tokens, "doc_keyword": [], "doc_topic": []}
    else:
        record |= {"text": document, "labels": labels}
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _gather(
    path: Path, split: str | None, csv_format: CsvFormat, labelled: bool
) -> tuple[Corpus, int]:
    """The corpus of a file, and how many of its documents have no word."""
    in_lines = path.suffix in JSON_LINES  # that can be found again, not in an archive
    starts = array("q")
    collected = InFile(path) if in_lines else None
    if not in_lines and path.stat().st_size > _IN_MEMORY:
        collected = Copied(path)
    held: list[str] = []
    label_sets: list[tuple[str, ...]] = []
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    lines: dict[str, int] = {}
    tokenised, empty = False, 0
    for number, record in read_records(path, csv_format, labelled, starts):
        _check_alike(f"{path}:{number}", record, bool(label_sets), tokenised, lines)
        if record.id is not None:
            lines[record.id] = number
        tokenised = record.tokenised
        empty += not record.body if tokenised else _WORD.search(record.body) is None
        label_sets.append(shared.setdefault(record.labels, record.labels))
        if collected is None:
            held.append(record.body)
        else:
            collected.add(record.body, starts[number - 1] if in_lines else 0)
    if not label_sets:
        raise DataError(f"{path}: no documents in this file")
    found = held if collected is None else collected.documents()
    name = split or path.name.split(".")[0]
    return Corpus(found, label_sets, tokenised, name, list(lines) or None), empty


def _check_alike(
    where: str, record: Record, later: bool, tokenised: bool, lines: dict[str, int]
) -> None:
    """Raises DataError for a document that does not fit those before it."""
    if later and record.tokenised != tokenised:
        raise DataError(f'{where}: one file holds either "doc_token" or "text" lines, found both')
    if later and (record.id is None) == bool(lines):
        raise DataError(f'{where}: either every document has an "id" or none has')
    if record.id in lines:
        raise DataError(f'{where}: id "{record.id}" is also that of line {lines[record.id]}')
