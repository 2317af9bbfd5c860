"""``project.json``: what a project is about. A folder without it is not a project."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from crabjax.data.csv_rows import CsvStyle, csv_style
from crabjax.data.documents import count_distinct, file_stamp
from crabjax.files import DataError, sha256, write_text
from crabjax.files.seals import open_sealed, seal
from crabjax.labelling.answer_log import ProjectError
from crabjax.labelling.answers import WITHDRAWN, check_label_names
from crabjax.labelling.exchange import LABEL_SEPARATOR, NO_LABEL, PLAIN
from crabjax.progress import doing

PROJECT, INTERFACE, TEXTS = "project.json", "label_studio.xml", "texts.jsonl"
CHECKED = "checked.json"  # size and time of large files when their hashes were last compared
_FORMAT = 1
_CHEAP = 1 << 24  # bytes of a file that is hashed by every command


class ProjectWarning(UserWarning):
    """Something that can be made again was lost, or input that may not be what was meant."""


class About(NamedTuple):
    """What is known of a project beside its answers.

    Attributes:
      label_names: the K labels.
      style: how the file of texts was written, which files for people should be too.
      hashes: SHA-256 of the project's files that never change, by name; of others, by whole path.
      documents: how many there are; None if that was not written down.
    """

    label_names: tuple[str, ...]
    style: CsvStyle = PLAIN
    hashes: Mapping[str, str] = MappingProxyType({})
    documents: int | None = None


def write_about(path: Path, about: About) -> None:
    """Writes it; :func:`read_about` reads it back."""
    described = {"format": _FORMAT, "labels": list(about.label_names), "csv": about.style._asdict()}
    described |= {"hashes": dict(about.hashes), "documents": about.documents}
    write_text(path, json.dumps(seal(described)))


def read_about(path: Path) -> About:
    """Reads what this or an earlier version wrote.

    Raises:
      ProjectError: if it is damaged, with what to do about it.
    """
    try:
        about = open_sealed(json.loads(path.read_text(encoding="utf-8")))
        kind, names = about["format"], check_label_names(about["labels"])
        style, hashes = CsvStyle(**about.get("csv", {})), dict(about.get("hashes", {}))
        documents = about.get("documents")
        documents = None if documents is None else int(documents)
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProjectError(
            f"{path}: damaged ({error}); put a copy back, or write it again: "
            f'{{"format": {_FORMAT}, "labels": [...]}}, the labels as in {INTERFACE}'
        ) from error
    if kind != _FORMAT:
        raise ProjectError(f"{path}: expected format {_FORMAT}, found {kind!r}")
    return About(names, style, hashes, documents)


def hash_files(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of files that will never change, by name, for :class:`About`."""
    stamps = {name: file_stamp(folder / name) for name in names}
    hashes = {name: _hashed(folder / name) for name in stamps}
    _note_checked(folder, {name: [*own, hashes[name]] for name, own in stamps.items()})
    return hashes


def check_hashes(folder: Path, about: About) -> None:
    """Raises ProjectError, naming the file, if one that never changes has changed.

    A large file is not read where its size and time are those of the last time.
    """
    before, checked = _read_checked(folder), {}
    for name, known in about.hashes.items():
        try:
            checked[name] = [*file_stamp(folder / name), known]
            if checked[name] == before.get(name):
                continue
            found = _hashed(folder / name)
        except OSError as error:
            raise ProjectError(
                f"{folder / name}: cannot be read ({error.strerror}); put a copy of it back"
            ) from error
        if found != known:
            raise ProjectError(
                f"{folder / name}: changed since the project was made; put a copy of it back, or, "
                f'where the change was meant, take "hashes" and "sum" out of {PROJECT}'
            )
    _note_checked(folder, checked)


def _hashed(path: Path) -> str:
    with doing(f"hashing {path.name}"):
        return sha256(path)


def _note_checked(folder: Path, checked: Mapping[str, list]) -> None:
    large = {name: about for name, about in checked.items() if about[0] > _CHEAP}
    if large != _read_checked(folder):
        with suppress(OSError):  # the next command compares them again
            write_text(folder / CHECKED, json.dumps(seal(large)))


def _read_checked(folder: Path) -> dict[str, list]:
    try:
        found = open_sealed(json.loads((folder / CHECKED).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names in their composed form, if files can carry them and people tell them apart.

    Raises:
      ProjectError: naming the first that cannot be used.
    """
    seen: dict[str, str] = {}
    names = check_label_names(names)
    for name in names:
        if name in (NO_LABEL, WITHDRAWN) or LABEL_SEPARATOR in name or name != name.strip():
            raise ProjectError(
                f'label {name!r}: expected a name without "{LABEL_SEPARATOR}", other than '
                f'"{NO_LABEL}" and "{WITHDRAWN}", and without spaces at its ends'
            )
        if not name.isprintable():
            raise ProjectError(f"label {name!r}: expected a name without line breaks or controls")
        if (other := seen.setdefault(name.casefold(), name)) != name:
            raise ProjectError(f"labels {other!r} and {name!r} differ in capitals only; keep one")
    return names


def check_texts(path: Path, texts: Sequence[str]) -> None:
    """Warns of a file of which most texts are copies: perhaps another column was meant.

    Raises:
      DataError: if there is no word in any of them.
    """
    if not any(text.strip() for text in texts):
        raise DataError(f"{path}: expected texts, found {len(texts)} empty ones; another column?")
    distinct = count_distinct(texts)
    if 2 * distinct < len(texts):
        warnings.warn(
            f"{path}: {len(texts)} documents, but {distinct} different texts; equal ones share "
            "their answers. Is this the right column?",
            ProjectWarning,
            stacklevel=3,
        )


def style_of(texts: Path, text_column: str) -> CsvStyle:
    """The style of a file of texts, as far as it is CSV.

    Raises:
      DataError: if it has no such column.
    """
    if texts.suffix != ".csv" or not texts.is_file():
        return PLAIN
    try:
        return csv_style(texts, [text_column])
    except DataError as error:
        raise DataError(f"{error}; --text-column names another column") from error
