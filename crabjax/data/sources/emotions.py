"""Emotions in short texts: GoEmotions (comments) and SemEval-2018 task 1 E-c (tweets)."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from crabjax.data.sources.common import (
    About,
    Asked,
    Document,
    Omitted,
    Prepared,
    find_raw,
    register_source,
    write_published,
)
from crabjax.files import DataError, read_lines

GO = About(
    title="GoEmotions (27 emotions and neutral)",
    files="train.tsv, dev.tsv, test.tsv and emotions.txt",
    where="https://github.com/google-research/google-research/tree/master/goemotions/data (free; "
    "CC BY 4.0)",
)
SEMEVAL = About(
    title="SemEval-2018 task 1 E-c (English, 11 emotions)",
    files="2018-E-c-En-train.txt, 2018-E-c-En-dev.txt and 2018-E-c-En-test-gold.txt",
    where="https://competitions.codalab.org/competitions/17751 (cite the task's paper; may not be "
    "passed on)",
)


@register_source("goemotions", GO)
def prepare(asked: Asked) -> Prepared:
    """Writes the published splits; the development file becomes ``validation.jsonl``."""
    lines = read_lines(find_raw(asked.raw, "emotions.txt", GO))
    names = [name for line in lines if (name := line.strip())]
    files = {"train": "train.tsv", "test": "test.tsv", "validation": "dev.tsv"}
    paths = {split: find_raw(asked.raw, file, GO) for split, file in files.items()}
    splits = {split: partial(read_comments, path, names) for split, path in paths.items()}
    return write_published(splits, asked)


def read_comments(path: Path, names: list[str], omitted: Omitted) -> Iterator[Document]:
    """Lines of text, comma-separated numbers of emotions, and an id, with tabs between them."""
    for number, line in enumerate(read_lines(path), start=1):
        where, parts = f"{path}:{number}", line.rstrip("\r\n").split("\t")
        if not line.strip():
            continue
        numbers = parts[1].split(",") if len(parts) == 3 else [""]
        if not all(one.isdecimal() and int(one) < len(names) for one in numbers):
            raise DataError(
                f"{where}: expected text, numbers below {len(names)} and an id, with tabs between "
                f"them, found {line.strip()[:60]!r}"
            )
        if not parts[0].strip():
            omitted.add("no text", where)
        else:
            yield Document(parts[2], parts[0], tuple(sorted({names[int(one)] for one in numbers})))


@register_source("semeval2018ec", SEMEVAL)
def prepare_tweets(asked: Asked) -> Prepared:
    """Writes the published splits, without the tweets that have no emotion."""
    files = {"train": "train", "test": "test-gold", "validation": "dev"}
    paths = {
        split: find_raw(asked.raw, f"2018-E-c-En-{file}.txt", SEMEVAL)
        for split, file in files.items()
    }
    splits = {split: partial(read_tweets, path) for split, path in paths.items()}
    return write_published(splits, asked)


def read_tweets(path: Path, omitted: Omitted) -> Iterator[Document]:
    """Lines of ID, Tweet and a column of 0 or 1 for each emotion, with tabs between them."""
    header: list[str] = []
    for number, line in enumerate(read_lines(path), start=1):
        # Not as CSV: the quotation marks of a tweet are its own.
        where, parts = f"{path}:{number}", line.rstrip("\r\n").split("\t")
        if number == 1:
            header = parts
            if header[:2] != ["ID", "Tweet"] or len(header) < 3:
                raise DataError(f"{where}: expected ID, Tweet and emotions, found {line.strip()!r}")
            continue
        if not line.strip():
            continue
        if len(parts) != len(header) or not set(parts[2:]) <= {"0", "1"}:
            raise DataError(
                f"{where}: expected an id, a tweet and {len(header) - 2} times 0 or 1, found "
                f"{line.strip()[:60]!r}"
            )
        labels = tuple(sorted(name for name, one in zip(header[2:], parts[2:]) if one == "1"))
        if not labels:
            omitted.add("no emotion", where)
        else:
            yield Document(parts[0], parts[1], labels)
