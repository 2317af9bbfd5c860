"""MultiEURLEX: laws of the European Union in English with the 21 EuroVoc domains."""

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
    title="MultiEURLEX (English, EuroVoc level 1)",
    files="train.jsonl, dev.jsonl and test.jsonl, unpacked from multi_eurlex.tar.gz",
    where="https://zenodo.org/records/5363165 (free; the licence is on that page)",
    train_size=55_000,
    test_size=5_000,
)


@register_source("eurlex", ABOUT)
def prepare(
    raw: Path, output: Path, train_size: int, test_size: int, seed: int, progress: bool = True
) -> Prepared:
    """Writes the published splits, or a random part of train and test where less is asked for.

    The published development file becomes ``validation.jsonl``, whole.
    """
    raw_names = {"train": "train.jsonl", "test": "test.jsonl", "validation": "dev.jsonl"}
    paths = {name: find_raw(raw, raw_name, ABOUT) for name, raw_name in raw_names.items()}
    sizes = {"train": train_size, "test": test_size}
    written, omitted = {}, Omitted()
    for name, path in paths.items():
        total = sum(1 for _ in read_documents(path, omitted, progress))
        split = draw_split(total, {name: sizes.get(name, total)}, seed, str(path))
        documents = read_documents(path, Omitted(), progress)
        written |= write_splits(documents, split, [name], output)
    return Prepared(written, omitted.lines())


def read_documents(path: Path, omitted: Omitted, progress: bool = False) -> Iterator[Document]:
    """The laws that have an English text and at least one level-1 concept."""
    for number, record in read_json_lines(path, progress):
        where = f"{path}:{number}"
        texts, concepts = record.get("text"), record.get("eurovoc_concepts")
        if not isinstance(texts, dict) or not isinstance(concepts, dict):
            found = ", ".join(record)
            raise DataError(
                f'{where}: expected "text" by language and "eurovoc_concepts" by level, '
                f"found {found}"
            )
        labels, text = concepts.get("level_1"), texts.get("en")
        if not labels:
            omitted.add("no level-1 concept", where)
        elif not text:
            omitted.add("no English text", where)
        elif not isinstance(labels, list) or not all(isinstance(one, str) for one in labels):
            raise DataError(f'{where}: "level_1" must be a list of strings, found {labels!r}')
        elif not isinstance(text, str):
            raise DataError(f'{where}: the "en" text must be a string, found {text!r}')
        else:
            identity = str(record.get("celex_id", f"{path.name}:{number}"))
            yield Document(identity, text, tuple(sorted(labels)))
