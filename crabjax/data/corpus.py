"""Files of labelled documents, JSON lines or CSV, checked once and kept compactly."""

import dataclasses
import difflib
import json
import re
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crabjax.data.csv_rows import read_csv_rows
from crabjax.data.documents import TOKEN_SEPARATOR, Documents, body_of, file_stamp
from crabjax.files import DataError, DataWarning, atomic_write, read_json_lines

_JSON_LINES = (".jsonl", ".json")
_WORD = re.compile(r"\w+(?:['’]\w+)*")  # noqa: RUF001, both apostrophes are in use


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file names its columns and separates labels.

    Raises:
      DataError: for a separator that cannot separate.
    """

    text_column: str = "text"
    label_column: str = "labels"
    label_separator: str = ";"
    csv_delimiter: str = ","

    def __post_init__(self):
        if not self.label_separator:
            raise DataError("label_separator: expected at least one character, found none")
        if len(self.csv_delimiter) != 1 or self.csv_delimiter in '"\r\n':
            raise DataError(
                "csv_delimiter: expected one character, neither a double quote nor a line end, "
                f"found {self.csv_delimiter!r}"
            )


@dataclass(frozen=True)
class Corpus:
    """Documents of one split with their label sets.

    Attributes:
      documents: one string a document; tokens joined by ``TOKEN_SEPARATOR`` if ``tokenised``.
        Those of a JSON-lines file stay there until they are asked for.
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


PLAIN_CSV = CsvFormat()


class _Record(NamedTuple):
    body: str
    labels: tuple[str, ...]
    id: str | None
    tokenised: bool


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
    stamp, starts = file_stamp(path), array("q")
    lazy = path.suffix in _JSON_LINES  # lines that can be found again, not in an archive
    documents: list[str] = []
    offsets, hashes, label_sets = array("q"), array("q"), []
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    lines: dict[str, int] = {}
    tokenised, empty = False, 0
    for number, record in _records(path, csv_format, labelled, starts):
        _check_alike(f"{path}:{number}", record, bool(label_sets), tokenised, lines)
        if record.id is not None:
            lines[record.id] = number
        tokenised = record.tokenised
        empty += not record.body if tokenised else _WORD.search(record.body) is None
        label_sets.append(shared.setdefault(record.labels, record.labels))
        if lazy:
            offsets.append(starts[number - 1])
            hashes.append(hash(record.body))
        else:
            documents.append(record.body)
    if not label_sets:
        raise DataError(f"{path}: no documents in this file")
    where = (np.frombuffer(offsets, np.int64), np.frombuffer(hashes, np.int64)) if lazy else None
    found = documents if where is None else Documents(path, *where, stamp)
    name = split or path.name.split(".")[0]
    return Corpus(found, label_sets, tokenised, name, list(lines) or None), empty


def _check_alike(
    where: str, record: _Record, later: bool, tokenised: bool, lines: dict[str, int]
) -> None:
    """Raises DataError for a document that does not fit those before it."""
    if later and record.tokenised != tokenised:
        raise DataError(f'{where}: one file holds either "doc_token" or "text" lines, found both')
    if later and (record.id is None) == bool(lines):
        raise DataError(f'{where}: either every document has an "id" or none has')
    if record.id in lines:
        raise DataError(f'{where}: id "{record.id}" is also that of line {lines[record.id]}')


def _records(
    path: Path, csv_format: CsvFormat, labelled: bool, starts: array
) -> Iterator[tuple[int, _Record]]:
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix in _JSON_LINES:
        for number, record in read_json_lines(path, starts=starts):
            yield number, _from_json(f"{path}:{number}", record, labelled)
    elif suffix in (".csv", ".tsv"):
        delimiter = "\t" if suffix == ".tsv" else csv_format.csv_delimiter
        for number, row in read_csv_rows(path, delimiter):
            yield number, _from_csv(f"{path}:{number}", row, csv_format, labelled)
    else:
        raise DataError(
            f"{path}: expected a name ending in .jsonl, .json, .csv or .tsv, or one of these with "
            f'.gz, found "{suffix}"'
        )


def _from_json(where: str, record: dict[str, Any], labelled: bool) -> _Record:
    tokenised = "doc_token" in record
    label_field = "doc_label" if tokenised else "labels"
    if not tokenised and "text" not in record:
        found = ", ".join(f'"{key}"' for key in record) or "nothing"
        raise DataError(f'{where}: expected the field "doc_token" or "text", found {found}')
    if tokenised:
        _check_tokens(where, record["doc_token"])
    elif not isinstance(record["text"], str):
        kind = type(record["text"]).__name__
        raise DataError(f'{where}: "text" must be a string, found {kind}')
    labels: list[str] = []
    if label_field in record:
        labels = _strings(where, label_field, record[label_field])
    elif labelled:
        raise DataError(f'{where}: expected the field "{label_field}", which is missing')
    return _checked(where, body_of(record), labels, record.get("id"), tokenised)


def _from_csv(where: str, row: dict[str, str], csv_format: CsvFormat, labelled: bool) -> _Record:
    needed = [csv_format.text_column] + [csv_format.label_column] * labelled
    for column in needed:
        if column not in row:
            near = difflib.get_close_matches(column, row, n=1)
            hint = f'; did you mean "{near[0]}"?' if near else ""
            raise DataError(
                f'{where}: no column "{column}" in the header, which has {", ".join(row)}{hint}'
            )
    parts = row.get(csv_format.label_column, "").split(csv_format.label_separator)
    labels = [part.strip() for part in parts if part.strip()]
    return _checked(where, row[csv_format.text_column], labels, row.get("id"), tokenised=False)


def _strings(where: str, name: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        kind = type(value).__name__
        raise DataError(f'{where}: "{name}" must be a list of strings, found {kind}')
    if other := set(map(type, value)) - {str}:
        kind = other.pop().__name__
        raise DataError(f'{where}: "{name}" must be a list of strings, found {kind} in it')
    return value


def _check_tokens(where: str, value: Any) -> None:
    tokens = _strings(where, "doc_token", value)
    if not all(tokens):
        raise DataError(f'{where}: a token in "doc_token" must not be empty')
    if any(TOKEN_SEPARATOR in token for token in tokens):
        raise DataError(f'{where}: a token in "doc_token" must not hold the character U+001F')


def _checked(where: str, body: str, labels: list[str], identity: Any, tokenised: bool) -> _Record:
    if not all(labels):
        raise DataError(f"{where}: a label must not be empty")
    if identity is not None and not isinstance(identity, str | int):
        raise DataError(f'{where}: "id" must be a string or an integer, found {identity!r}')
    try:
        "".join((body, *labels)).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: half of a surrogate pair, not valid text: {error}") from error
    key = None if identity is None else str(identity)
    return _Record(body, tuple(sorted(set(labels))), key, tokenised)
