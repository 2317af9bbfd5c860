"""UK-LEX: laws of the United Kingdom with 18 topics."""

from collections.abc import Iterator
from pathlib import Path

from crabjax.data.sources.common import (
    About,
    Document,
    Omitted,
    Prepared,
    draw_split,
    find_raw,
    register_source,
    write_splits,
)
from crabjax.files import DataError, read_json_lines

ABOUT = About(
    title="UK-LEX (18 labels)",
    files="uk-lex18.jsonl",
    where="https://zenodo.org/records/6355465 (free; the texts are under the Open Government "
    "Licence v3.0)",
    train_size=20_000,
    test_size=8_500,
)


@register_source("uklex", ABOUT)
def prepare(
    raw: Path, output: Path, train_size: int, test_size: int, seed: int, progress: bool = True
) -> Prepared:
    """Writes ``train.jsonl`` and ``test.jsonl``, drawn at random from all usable documents."""
    path = find_raw(raw, "uk-lex18.jsonl", ABOUT)
    omitted, sizes = Omitted(), {"train": train_size, "test": test_size}
    total = sum(1 for _ in read_documents(path, omitted, progress))
    split = draw_split(total, sizes, seed, str(path))
    documents = read_documents(path, Omitted(), progress)
    return Prepared(write_splits(documents, split, sizes, output), omitted.lines())


def read_documents(path: Path, omitted: Omitted, progress: bool = False) -> Iterator[Document]:
    """The laws with at least one label: title, then body."""
    for number, record in read_json_lines(path, progress):
        where = f"{path}:{number}"
        labels, body, title = record.get("labels"), record.get("body"), record.get("title", "")
        if not isinstance(labels, list) or not isinstance(body, str):
            found = ", ".join(record)
            raise DataError(f'{where}: expected "body" text and a "labels" list, found {found}')
        if not labels:
            omitted.add("no labels", where)
            continue
        text = f"{title}\n{body}" if isinstance(title, str) and title else body
        yield Document(str(number), text, tuple(sorted({str(label) for label in labels})))
