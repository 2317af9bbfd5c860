"""Any data set of the Hugging Face hub that has a column of texts and one of labels."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crabjax.data.sources.common import Document, Omitted, Prepared, write_drawn, write_published
from crabjax.data.sources.records import ENDINGS, class_names, read_records
from crabjax.files import DataError

_SPLITS = {"train": "train", "test": "test", "validation": "valid|dev"}
_SHARD = re.compile(r"-\d{5}-of-\d{5}")


class Columns(NamedTuple):
    """Which columns hold what."""

    texts: str = "text"
    labels: str = "labels"
    separator: str = ";"  # of labels that come as one string


def download(name: str, files: Iterable[str] = ()) -> Path:
    """The folder of a data set's files, fetched if they are not in the cache.

    Args:
      name: of the data set on the hub.
      files: patterns of files to fetch; all in a form that can be read, if there are none.

    Raises:
      DataError: if there is no such data set, or the hub cannot be reached.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    patterns = [*files] or [f"*{ending}" for ending in ENDINGS]
    try:
        return Path(snapshot_download(name, repo_type="dataset", allow_patterns=patterns))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise DataError(
            f"{name}: neither a folder here nor a data set that could be fetched from the hub "
            f"({type(error).__name__}); on a machine with internet run `hf download --repo-type "
            f"dataset {name} --local-dir FOLDER` and give FOLDER"
        ) from error


def prepare(
    folder: Path,
    output: Path,
    columns: Columns,
    sizes: dict[str, int | None],
    seed: int,
    within: str = "",
    progress: bool = True,
) -> Prepared:
    """Writes the splits of a folder of files; one file alone is split at random by the sizes.

    Args:
      folder: with the data set's files, or a file.
      output: folder to write to.
      columns: names of columns.
      sizes: documents by split; None for all, where the files are split already.
      seed: of the random draw.
      within: only files whose path holds this word, such as the name of a configuration.
      progress: shows progress bars.
    """
    found = split_files(folder, within)
    if "train" in found and "test" in found:
        splits = {name: partial(_read, files, columns, progress) for name, files in found.items()}
        return write_published(splits, sizes, seed, output)
    files = [file for group in found.values() for file in group]
    wanted = {name: size for name, size in sizes.items() if size is not None}
    if set(wanted) != {"train", "test"}:
        raise DataError(
            f"{folder}: expected files named after train and test, found "
            f"{', '.join(file.name for file in files[:5])}; give --train-size and --test-size to "
            "draw both from them"
        )
    return write_drawn(partial(_read, files, columns, progress), wanted, seed, str(folder), output)


def split_files(folder: Path, within: str = "") -> dict[str, list[Path]]:
    """The files of each split, told by their paths; those of no split under "".

    Raises:
      DataError: where there are none, or several configurations lie side by side.
    """
    if folder.is_file():
        return {"": [folder]}
    paths = [path for path in sorted(folder.rglob("*")) if path.name.endswith(ENDINGS)]
    paths = [path for path in paths if within in path.relative_to(folder).as_posix()]
    found: dict[str, list[Path]] = {}
    for path in paths:
        place = path.relative_to(folder).as_posix().lower()
        names = [name for name, words in _SPLITS.items() if re.search(words, place)]
        found.setdefault(names[0] if names else "", []).append(path)
    if not paths:
        raise DataError(f"{folder}: no file here that ends in {', '.join(ENDINGS)}")
    for name, files in found.items():
        if name and len({_SHARD.sub("", file.as_posix()) for file in files}) > 1:
            raise DataError(
                f"{folder}: several files of the split {name}: {files[0].relative_to(folder)}, "
                f"{files[1].relative_to(folder)}; choose a configuration with --within WORD"
            )
    return {name: found[name] for name in ("train", "test", "validation", "") if name in found}


def _read(
    paths: list[Path], columns: Columns, progress: bool, omitted: Omitted
) -> Iterator[Document]:
    for path in paths:
        names = class_names(path, columns.labels)
        for number, record in read_records(path, progress):
            where = f"{path}:{number}"
            for column in columns[:2]:
                if column not in record:
                    raise DataError(f'{where}: no column "{column}", found {", ".join(record)}')
            text, given = record[columns.texts], record[columns.labels]
            labels = _labels(given, names, columns.separator)
            if labels is None or not isinstance(text, str):
                wrong = text if labels is not None else given
                raise DataError(f"{where}: expected a text and labels, found {wrong!r:.80}")
            if not text.strip():
                omitted.add("no text", where)
            else:
                yield Document(f"{path.stem}:{number}", text, labels)


def _labels(given: Any, names: list[str] | None, separator: str) -> tuple[str, ...] | None:
    """Labels from a list or a string, by name where they are numbers; None if they are neither."""
    if isinstance(given, str):
        given = given.split(separator)
    elif isinstance(given, int):
        given = [given]
    if not isinstance(given, list) or not all(isinstance(one, str | int) for one in given):
        return None
    named = (names[one] if names and isinstance(one, int) else str(one).strip() for one in given)
    return tuple(sorted({name for name in named if name}))
