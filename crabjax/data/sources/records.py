"""Records of tables as data hubs ship them: JSON lines, CSV or Parquet, one reader for all."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crabjax.data.csv_rows import read_csv_rows
from crabjax.files import DataError, read_json_lines

ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


def find_records(folder: Path, stems: Sequence[str]) -> Path | None:
    """The first file of one of these names, plain files before packed ones; None without any."""
    for stem in stems:
        for ending in ENDINGS:
            if (path := folder / f"{stem}{ending}").is_file():
                return path
    return None


def read_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line or row number, record).

    Raises:
      DataError: for a file that cannot be read; for Parquet without pyarrow, naming the extra.
    """
    name = path.name.removesuffix(".gz")
    if name.endswith((".jsonl", ".json")):
        yield from read_json_lines(path)
    elif name.endswith((".csv", ".tsv")):
        delimiter = "\t" if name.endswith(".tsv") else ","
        yield from read_csv_rows(path, delimiter)
    elif name.endswith(".parquet"):
        batches = _parquet(path).iter_batches(1024)
        yield from enumerate((one for batch in batches for one in batch.to_pylist()), start=1)
    else:
        raise DataError(f"{path}: expected a name ending in {', '.join(ENDINGS)}")


def class_names(path: Path, column: str) -> list[str] | None:
    """The names behind numbered labels, where a Parquet file of the hub says them; else None."""
    if path.suffix != ".parquet":
        return None
    metadata = _parquet(path).schema_arrow.metadata or {}
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        feature = features[column]
        while "names" not in feature:
            feature = feature[0] if isinstance(feature, list) else feature["feature"]
        return [str(name) for name in feature["names"]]
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def named_labels(
    given: Sequence[int | str], names: Sequence[str] | None, where: str
) -> tuple[str, ...]:
    """Labels sorted and without repetition, by name where they are numbers of named classes.

    Args:
      given: names, or numbers; -1 stands for no label where classes are named.
      names: of the classes; None where nothing is known of them.
      where: file and line, for the error.

    Raises:
      DataError: for a number that no class has.
    """
    found = set()
    for one in given:
        if names is None or isinstance(one, str):
            found.add(str(one).strip())
        elif 0 <= one < len(names):
            found.add(names[one])
        elif one != -1:
            raise DataError(
                f"{where}: expected labels from 0 to {len(names) - 1}, as its classes are "
                f"numbered, or -1 for none, found {one}"
            )
    return tuple(sorted(found - {""}))


def _parquet(path: Path) -> Any:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{path}: not a Parquet file: {error}") from error
