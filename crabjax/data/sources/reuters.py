"""Reuters-21578: newswire of 1987 with topics, the ModApte split, from its SGML files."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from crabjax.data.sources.common import (
    About,
    Asked,
    Document,
    Omitted,
    Prepared,
    missing_raw,
    one_by_one,
    register_source,
    write_published,
)
from crabjax.files import DataError

_WHERE = (
    "https://archive.ics.uci.edu/dataset/137 or https://www.daviddlewis.com/resources/"
    "testcollections/reuters21578/ (free for research; Reuters and Carnegie Group hold the rights)"
)
_FILES = "reut2-000.sgm to reut2-021.sgm, unpacked from reuters21578.tar.gz"
ABOUT = About("Reuters-21578 (ModApte, topics with a document to train and one to test on)",
              _FILES, _WHERE)  # fmt: skip
ABOUT_26 = About("Reuters-21578 (ModApte, the 26 topics with 50 training documents)",
                 _FILES, _WHERE)  # fmt: skip

_ITEM = re.compile(r"<REUTERS (.*?)>(.*?)</REUTERS>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="(.*?)"')
_TAG = re.compile(r"<[^>]*>")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
_SPLITS = {"TRAIN": "train", "TEST": "test"}


@register_source("reuters", ABOUT)
def prepare(asked: Asked) -> Prepared:
    """Writes the ModApte split with all topics that occur in both of its parts."""
    return _prepare(asked, lambda train, test: train > 0 and test > 0)


@register_source("reuters26", ABOUT_26)
def prepare_26(asked: Asked) -> Prepared:
    """Writes the ModApte split with the topics of at least 50 training documents."""
    return _prepare(asked, lambda train, test: train >= 50)


def _prepare(asked: Asked, keep: Callable[[int, int], bool]) -> Prepared:
    files = sorted(asked.raw.glob("*.sgm"))
    if not files:
        raise missing_raw(asked.raw, "*.sgm file", ABOUT)
    counts = {split: Counter() for split in _SPLITS.values()}
    for split, document in _items(files, Omitted()):
        counts[split].update(document.labels)
    train, test = counts["train"], counts["test"]
    kept = {topic for topic in train if keep(train[topic], test[topic])}
    splits = {split: partial(_documents, files, split, kept) for split in _SPLITS.values()}
    return write_published(splits, asked)


def _documents(
    files: list[Path], split: str, kept: set[str], omitted: Omitted
) -> Iterator[Document]:
    for own, document in _items(files, omitted if split == "train" else Omitted()):
        labels = tuple(label for label in document.labels if label in kept)
        if own != split:
            continue
        if not labels:
            omitted.add(f"{split}: no topic among those kept", document.id)
        else:
            yield document._replace(labels=labels)


def _items(files: Sequence[Path], omitted: Omitted) -> Iterator[tuple[str, Document]]:
    """The stories of the ModApte split that have a text, with the part they are in."""
    for file in one_by_one(files):
        found = 0
        # Latin-1: the one file with a byte that is not UTF-8 was written so.
        for attributes, content in _ITEM.findall(file.read_text(encoding="latin-1")):
            found += 1
            about = dict(_ATTRIBUTE.findall(attributes))
            split = _SPLITS.get(about.get("LEWISSPLIT", ""))
            if split is None or about.get("TOPICS") != "YES":
                omitted.add("not in the ModApte split", f"{file}: story {about.get('NEWID')}")
                continue
            topics = re.search(r"<TOPICS>(.*?)</TOPICS>", content, re.DOTALL)
            labels = tuple(sorted(re.findall(r"<D>(.*?)</D>", topics[1]))) if topics else ()
            text = _text(content)
            if not text:
                omitted.add("no text", f"{file}: story {about.get('NEWID')}")
            else:
                yield split, Document(about.get("NEWID", f"{file.stem}-{found}"), text, labels)
        if not found:
            raise DataError(f"{file}: expected stories in <REUTERS ...> ... </REUTERS>, found none")


def _text(content: str) -> str:
    """Title, then body; where there is neither, all that stands in <TEXT>."""
    parts = [re.search(rf"<{tag}>(.*?)</{tag}>", content, re.DOTALL) for tag in ("TITLE", "BODY")]
    texts = [part[1] for part in parts if part]
    if not texts and (whole := re.search(r"<TEXT[^>]*>(.*?)</TEXT>", content, re.DOTALL)):
        texts = [_TAG.sub(" ", whole[1])]
    joined = "\n".join(_CONTROL.sub("", html.unescape(text)).strip() for text in texts)
    return re.sub(r"\n\s*reuter$", "", joined, flags=re.IGNORECASE).strip()
