"""Documents as files have them, JSON lines or CSV rows: read one at a time and checked."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from crabjax.data.csv_rows import read_csv_rows
from crabjax.data.documents import TOKEN_SEPARATOR, body_of
from crabjax.files import DataError, did_you_mean, read_json_lines

JSON_LINES = (".jsonl", ".json")


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


PLAIN_CSV = CsvFormat()


class Record(NamedTuple):
    """One document as a file has it, its labels sorted."""

    body: str
    labels: tuple[str, ...]
    id: str | None
    tokenised: bool


def read_records(
    path: Path, csv_format: CsvFormat, labelled: bool, starts: array
) -> Iterator[tuple[int, Record]]:
    """Yields (number of its first line, document) of a file; see :func:`corpus.read_corpus`.

    Args:
      path: its ending says what it is.
      csv_format: of CSV files.
      labelled: whether every document must have a label field.
      starts: gets the offset of every line of JSON.

    Raises:
      DataError: naming file and line.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix in JSON_LINES:
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


def _from_json(where: str, record: dict[str, Any], labelled: bool) -> Record:
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


def _from_csv(where: str, row: dict[str, str], csv_format: CsvFormat, labelled: bool) -> Record:
    needed = [csv_format.text_column] + [csv_format.label_column] * labelled
    for column in needed:
        if column not in row:
            hint = did_you_mean(column, row, quote='"')
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


def _checked(where: str, body: str, labels: list[str], identity: Any, tokenised: bool) -> Record:
    if not all(labels):
        raise DataError(f"{where}: a label must not be empty")
    if identity is not None and not isinstance(identity, str | int):
        raise DataError(f'{where}: "id" must be a string or an integer, found {identity!r}')
    try:
        "".join((body, *labels, str(identity))).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: half of a surrogate pair, not valid text: {error}") from error
    key = None if identity is None else str(identity)
    return Record(body, tuple(sorted(set(labels))), key, tokenised)
