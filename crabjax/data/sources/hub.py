"""Any data set of the Hugging Face hub that has a column of texts and one of labels."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crabjax.data.sources.common import (
    Asked,
    Document,
    Omitted,
    Prepared,
    write_drawn,
    write_published,
)
from crabjax.data.sources.records import ENDINGS, class_names, named_labels, read_records
from crabjax.files import DataError

_WORDS = {
    "train": "train|training",
    "test": "test|testing",
    "validation": "validation|valid|val|dev",
}
_SPLITS = {name: re.compile(f"(?<![a-z])(?:{words})(?![a-z])") for name, words in _WORDS.items()}
_ABOUT_DATA = ("dataset_info.json", "dataset_infos.json")  # beside the data on the hub
_SHARD = re.compile(r"-\d{5}-of-\d{5}")


class Columns(NamedTuple):
    """Which columns hold what."""

    texts: str = "text"
    labels: str = "labels"
    separator: str = ";"  # of labels that come as one string


def download(name: str) -> Path:
    """The folder of a data set's files that can be read, fetched if they are not in the cache.

    Args:
      name: of the data set on the hub.

    Raises:
      DataError: if there is no such data set, or the hub cannot be reached.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    patterns = [f"*{ending}" for ending in ENDINGS]
    try:
        return Path(snapshot_download(name, repo_type="dataset", allow_patterns=patterns))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise DataError(
            f"{name}: neither a folder here nor a data set that could be fetched from the hub "
            f"({type(error).__name__}); on a machine with internet run `hf download --repo-type "
            f"dataset {name} --local-dir FOLDER` and give FOLDER"
        ) from error


def prepare(asked: Asked, columns: Columns, within: str = "") -> Prepared:
    """Writes the splits of a folder of files; one file alone is split at random by the sizes.

    Files named after no split are left out, and said to be, where there are train and test.

    Args:
      asked: where ``raw`` may be a file.
      columns: names of columns.
      within: only files whose path holds this word, such as the name of a configuration.
    """
    found = split_files(asked.raw, within)
    if "train" in found and "test" in found:
        beside = [f"left out {path}: named after no split" for path in found.pop("", [])]
        splits = {name: partial(_read, files, columns) for name, files in found.items()}
        prepared = write_published(splits, asked)
        return prepared._replace(omitted=[*beside, *prepared.omitted])
    files = [file for group in found.values() for file in group]
    if not (asked.sizes.get("train") and asked.sizes.get("test")):
        raise DataError(
            f"{asked.raw}: expected files named after train and test, found "
            f"{', '.join(file.name for file in files[:5])}; give --train-size and --test-size to "
            "draw both from them"
        )
    return write_drawn(partial(_read, files, columns), asked)


def split_files(folder: Path, within: str = "") -> dict[str, list[Path]]:
    """The files of each split, told by their paths; those of no split under "".

    Raises:
      DataError: where there are none, or several configurations lie side by side.
    """
    if folder.is_file():
        return {"": [folder]}
    paths = [path for path in sorted(folder.rglob("*")) if path.name.endswith(ENDINGS)]
    paths = [path for path in paths if path.name not in _ABOUT_DATA]
    paths = [path for path in paths if within in path.relative_to(folder).as_posix()]
    found: dict[str, list[Path]] = {}
    for path in paths:
        folders = path.parent.relative_to(folder).as_posix()
        found.setdefault(_split(path.name) or _split(folders), []).append(path)
    if not paths:
        raise DataError(f"{folder}: no file here that ends in {', '.join(ENDINGS)}")
    for name, files in found.items():
        if name and len({_SHARD.sub("", file.as_posix()) for file in files}) > 1:
            raise DataError(
                f"{folder}: several files of the split {name}: {files[0].relative_to(folder)}, "
                f"{files[1].relative_to(folder)}; choose a configuration with --within WORD"
            )
    return {name: found[name] for name in ("train", "test", "validation", "") if name in found}


def _split(name: str) -> str:
    """The split that a file or its folders are named after, or ""."""
    return next((split for split, words in _SPLITS.items() if words.search(name.lower())), "")


def _read(paths: list[Path], columns: Columns, omitted: Omitted) -> Iterator[Document]:
    for path in paths:
        names = class_names(path, columns.labels)
        for number, record in read_records(path):
            where = f"{path}:{number}"
            for column in columns[:2]:
                if column not in record:
                    raise DataError(f'{where}: no column "{column}", found {", ".join(record)}')
            text, given = record[columns.texts], record[columns.labels]
            listed = _listed(given, columns.separator)
            if listed is None or not isinstance(text, str):
                wrong = text if listed is not None else given
                raise DataError(f"{where}: expected a text and labels, found {wrong!r:.80}")
            if not text.strip():
                omitted.add("no text", where)
            else:
                labels = named_labels(listed, names, where)
                yield Document(f"{path.stem}:{number}", text, labels)


def _listed(given: Any, separator: str) -> list[str | int] | None:
    """Labels as a list, from a list, a string or a number; None if they are none of these."""
    if isinstance(given, str):
        given = given.split(separator)
    elif isinstance(given, int):
        given = [given]
    if not isinstance(given, list) or not all(isinstance(one, str | int) for one in given):
        return None
    return given
