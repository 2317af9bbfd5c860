"""``project.json``: what a project is about. A folder without it is not a project."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from crabjax.files import CsvStyle, write_text
from crabjax.labelling.answer_log import ProjectError
from crabjax.labelling.answers import WITHDRAWN, check_label_names
from crabjax.labelling.exchange import LABEL_SEPARATOR, NO_LABEL, PLAIN

INTERFACE = "label_studio.xml"
_FORMAT = 1


class About(NamedTuple):
    """The K labels, and how the file of texts was written, which files for people should be too."""

    label_names: tuple[str, ...]
    style: CsvStyle = PLAIN


def write_about(path: Path, about: About) -> None:
    """Writes it; :func:`read_about` reads it back."""
    described = {"format": _FORMAT, "labels": list(about.label_names), "csv": about.style._asdict()}
    write_text(path, json.dumps(described))


def read_about(path: Path) -> About:
    """Reads what this or an earlier version wrote.

    Raises:
      ProjectError: if it is damaged, with what to do about it.
    """
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        kind, names = about["format"], check_label_names(about["labels"])
        style = CsvStyle(**about.get("csv", {}))
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProjectError(
            f"{path}: damaged ({error}); put a copy back, or write it again: "
            f'{{"format": {_FORMAT}, "labels": [...]}}, the labels as in {INTERFACE}'
        ) from error
    if kind != _FORMAT:
        raise ProjectError(f"{path}: expected format {_FORMAT}, found {kind!r}")
    return About(names, style)


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
