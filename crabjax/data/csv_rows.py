"""Rows of CSV files as spreadsheets write them, with errors that name file and line."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from crabjax.files import BYTE_ORDER_MARK, DataError, read_lines


class CsvStyle(NamedTuple):
    """How a spreadsheet writes CSV: what separates columns, whether a byte-order mark comes first.

    Attributes:
      delimiter: one character.
      mark: by which some spreadsheets know UTF-8.
    """

    delimiter: str = ","
    mark: bool = False


def csv_style(path: Path, columns: Sequence[str]) -> CsvStyle:
    """The style of a CSV file: some spreadsheets write ";" or tabs, or say so in a first line.

    Raises:
      DataError: if the header lacks one of ``columns``.
    """
    lines = read_lines(path)
    first = next(lines, "")
    told = _told_delimiter(first)
    header = next(lines, "") if told else first
    with open(path, "rb") as raw:
        mark = raw.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK
    for delimiter in (told,) if told else (",", ";", "\t"):
        if set(columns) <= set(next(csv.reader([header], delimiter=delimiter), [])):
            return CsvStyle(delimiter, mark)
    expected = ", ".join(f'"{name}"' for name in columns)
    found = repr(header.strip()[:60]) if header.strip() else "an empty line"
    raise DataError(f"{path}:{1 + bool(told)}: expected a header with {expected}, found {found}")


def read_csv_rows(path: Path, delimiter: str = ",") -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (number of the row's first line, row by column name) of a CSV file with a header.

    Rows without any content are passed over, and so is a first line ``sep=;``.

    Raises:
      DataError: for a row that breaks the format or differs in length from the header.
    """
    csv.field_size_limit(2**31 - 1)
    lines = read_lines(path)
    first = next(lines, "")
    told = _told_delimiter(first)
    skipped, rest = (1, lines) if told else (0, chain([first], lines))
    reader = csv.reader(rest, delimiter=told or delimiter, strict=True)
    start = skipped + 1
    try:
        header = next(reader, [])
        if len(set(header)) < len(header):
            raise DataError(f"{path}:{start}: two columns of one name in the header: {header}")
        start = skipped + reader.line_num + 1
        for row in reader:
            # A lone empty cell is a text without words; several are a row nobody filled in.
            if row and (len(row) == 1 or any(cell.strip() for cell in row)):
                if len(row) != len(header):
                    raise DataError(
                        f"{path}:{start}: expected {len(header)} columns as in the header, found "
                        f"{len(row)}{_quote_hint(reader.line_num + skipped - start)}"
                    )
                yield start, dict(zip(header, row))
            start = skipped + reader.line_num + 1
    except csv.Error as error:
        beyond = reader.line_num + skipped - start
        raise DataError(f"{path}:{start}: malformed CSV: {error}{_quote_hint(beyond)}") from error


def _told_delimiter(line: str) -> str | None:
    """The delimiter that a first line ``sep=;`` states, as Excel reads and writes it."""
    told = line.rstrip("\r\n").strip('"')
    return told[4] if len(told) == 5 and told.lower().startswith("sep=") else None


def _quote_hint(lines: int) -> str:
    return f'; the row goes on for {lines} lines: is a quote (") left open in it?' * (lines > 0)
