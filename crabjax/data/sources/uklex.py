"""UK-LEX: laws of the United Kingdom with 18 topics."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from crabjax.data.sources.common import (
    About,
    Asked,
    Document,
    Omitted,
    Prepared,
    missing_raw,
    register_source,
    write_drawn,
    write_published,
)
from crabjax.data.sources.records import class_names, find_records, named_labels, read_records
from crabjax.files import DataError

ABOUT = About(
    title="UK-LEX (18 labels)",
    files="uk-lex18.jsonl, or train, validation and test as .jsonl or .parquet from the hub",
    where="https://zenodo.org/records/6355465 (free to download; see there for the licence)",
    train_size=20_000,
    test_size=8_500,
)


@register_source("uklex", ABOUT)
def prepare(asked: Asked) -> Prepared:
    """Writes ``train.jsonl`` and ``test.jsonl``.

    They are drawn at random from all usable documents of the one file of the archive; files that
    are split already stay so.
    """
    if (whole := find_records(asked.raw, ("uk-lex18",))) is not None:
        return write_drawn(partial(read_documents, whole), asked, whole)
    stems = {"train": ("train",), "test": ("test",), "validation": ("validation", "dev")}
    paths = {name: find_records(asked.raw, own) for name, own in stems.items()}
    if paths["train"] is None or paths["test"] is None:
        raise missing_raw(asked.raw, "uk-lex18.jsonl or uk-lex18.jsonl.gz", ABOUT)
    splits = {name: partial(read_documents, path) for name, path in paths.items() if path}
    return write_published(splits, asked)


def read_documents(path: Path, omitted: Omitted) -> Iterator[Document]:
    """The laws with at least one label: title, then body."""
    names = class_names(path, "labels")
    for number, record in read_records(path):
        where = f"{path}:{number}"
        labels, title = record.get("labels"), record.get("title", "")
        body = record.get("body", record.get("text"))
        if not isinstance(labels, list) or not isinstance(body, str):
            found = ", ".join(record)
            raise DataError(f'{where}: expected "body" text and a "labels" list, found {found}')
        if not all(isinstance(one, int | str) for one in labels):
            raise DataError(f'{where}: "labels" must be names or numbers, found {labels!r:.80}')
        if not (labels := named_labels(labels, names, where)):
            omitted.add("no labels", where)
            continue
        text = f"{title}\n{body}" if isinstance(title, str) and title else body
        yield Document(str(number), text, labels)
