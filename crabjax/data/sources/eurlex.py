"""MultiEURLEX: laws of the European Union in English with the 21 EuroVoc domains.

Two forms are read: the archive of its authors, with texts by language and concepts by level, and
the English configuration as the Hugging Face hub ships it, where labels are level-1 concepts.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from crabjax.data.sources.common import (
    About,
    Asked,
    Document,
    Omitted,
    Prepared,
    missing_raw,
    register_source,
    write_published,
)
from crabjax.data.sources.records import class_names, find_records, named_labels, read_records
from crabjax.files import DataError

ABOUT = About(
    title="MultiEURLEX (English, EuroVoc level 1)",
    files="train, dev and test.jsonl, unpacked from multi_eurlex.tar.gz, or train, validation and "
    "test.parquet of the hub's configuration en",
    where="https://zenodo.org/records/5363165 or https://huggingface.co/datasets/coastalcph/"
    "multi_eurlex (free; CC BY-SA 4.0)",
    train_size=55_000,
    test_size=5_000,
)
_SPLITS = {"train": ("train",), "test": ("test",), "validation": ("dev", "validation")}


@register_source("eurlex", ABOUT)
def prepare(asked: Asked) -> Prepared:
    """Writes the published splits, or a random part of train and test where less is asked for.

    The published development file becomes ``validation.jsonl``, whole.
    """
    paths = {name: find_records(asked.raw, stems) for name, stems in _SPLITS.items()}
    for name, path in paths.items():
        if path is None:
            raise missing_raw(
                asked.raw, f"{_SPLITS[name][0]}.jsonl or {_SPLITS[name][0]}.jsonl.gz", ABOUT
            )
    splits = {name: partial(read_documents, path) for name, path in paths.items() if path}
    return write_published(splits, asked)


def read_documents(path: Path, omitted: Omitted) -> Iterator[Document]:
    """The laws that have an English text and at least one level-1 concept."""
    names = class_names(path, "labels")
    for number, record in read_records(path):
        where = f"{path}:{number}"
        text, given = _text_and_labels(where, record)
        if not (labels := named_labels(given, names, where)):
            omitted.add("no level-1 concept", where)
        elif not text.strip():
            omitted.add("no English text", where)
        else:
            identity = str(record.get("celex_id", f"{path.name}:{number}"))
            yield Document(identity, text, labels)


def _text_and_labels(where: str, record: dict[str, Any]) -> tuple[str, list]:
    texts, concepts = record.get("text"), record.get("eurovoc_concepts")
    if isinstance(texts, dict) and isinstance(concepts, dict):
        text, labels, kinds = texts.get("en") or "", concepts.get("level_1") or [], (str,)
    elif isinstance(texts, str) and "labels" in record:
        text, labels, kinds = texts, record["labels"], (int, str)
    else:
        found = ", ".join(record)
        raise DataError(
            f'{where}: expected "text" by language and "eurovoc_concepts" by level, or "text" and '
            f'"labels", found {found}'
        )
    if not isinstance(labels, list) or not all(isinstance(one, kinds) for one in labels):
        raise DataError(f'{where}: "level_1" must be a list of strings, found {labels!r}')
    if not isinstance(text, str):
        raise DataError(f'{where}: the "en" text must be a string, found {text!r}')
    return text, labels
