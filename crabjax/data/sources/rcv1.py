"""RCV1-v2: Reuters news with topic codes.

Three forms are read: the token files of Lewis et al. (LYRL2004), their vector files, which are the
matrix of scikit-learn's ``fetch_rcv1``, and the original XML.
"""

import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator
from pathlib import Path

from crabjax.data.documents import TOKEN_SEPARATOR
from crabjax.data.sources.common import (
    About,
    Asked,
    Document,
    Omitted,
    Prepared,
    check_sum,
    find_raw,
    missing_raw,
    one_by_one,
    register_source,
    write_drawn,
)
from crabjax.files import DataError, read_lines

ABOUT = About(
    title="RCV1-v2",
    files="either lyrl2004_tokens_*.dat.gz or lyrl2004_vectors_*.dat.gz, with "
    "rcv1-v2.topics.qrels.gz, or the Reuters news items (*.xml, or the zip file of each day)",
    where="https://www.jmlr.org/papers/volume5/lewis04a/lyrl2004_rcv1v2_README.htm (tokens and "
    "vectors, free) or https://trec.nist.gov/data/reuters/reuters.html (XML, free for research "
    "after a signed agreement)",
    train_size=24_891,
    test_size=6_223,
)
QRELS = ("rcv1-v2.topics.qrels", "rcv1v2.topics.qrels")  # LYRL2004's name, and scikit-learn's
# SHA-256 of the vector files, as scikit-learn publishes them.
CHECKSUMS = {
    "lyrl2004_vectors_test_pt0.dat.gz":
        "ed40f7e418d10484091b059703eeb95ae3199fe042891dcec4be6696b9968374",
    "lyrl2004_vectors_test_pt1.dat.gz":
        "87700668ae45d45d5ca1ef6ae9bd81ab0f5ec88cc95dcef9ae7838f727a13aa6",
    "lyrl2004_vectors_test_pt2.dat.gz":
        "48143ac703cbe33299f7ae9f4995db49a258690f60e5debbff8995c34841c7f5",
    "lyrl2004_vectors_test_pt3.dat.gz":
        "dfcb0d658311481523c6e6ca0c3f5a3e1d3d12cde5d7a8ce629a9006ec7dbb39",
    "lyrl2004_vectors_train.dat.gz":
        "5468f656d0ba7a83afc7ad44841cf9a53048a5c083eedc005dcdb5cc768924ae",
}  # fmt: skip


@register_source("rcv1", ABOUT)
def prepare(asked: Asked) -> Prepared:
    """Writes ``train.jsonl`` and ``test.jsonl``, drawn at random from all usable documents."""
    forms = {
        "token files": _dat_files(asked.raw, "tokens"),
        "vector files": _dat_files(asked.raw, "vectors"),
        "news items": sorted([*asked.raw.rglob("*.xml"), *asked.raw.rglob("*.zip")]),
    }
    found = [form for form, files in forms.items() if files]
    if not found:
        raise missing_raw(asked.raw, "token files, vector files or news items", ABOUT)
    if len(found) > 1:
        raise DataError(f"{asked.raw}: found both {' and '.join(found)}; keep one kind here")
    files = forms[found[0]]
    if found[0] == "news items":
        return write_drawn(lambda omitted: read_news(files, omitted), asked)
    for file in files:
        check_sum(file, CHECKSUMS.get(file.name))
    name = next((one for one in QRELS if list(asked.raw.glob(f"{one}*"))), QRELS[0])
    topics = read_topics(find_raw(asked.raw, name, ABOUT))
    read = read_token_files if found[0] == "token files" else read_vector_files
    return write_drawn(lambda omitted: read(files, topics, omitted), asked)


def _dat_files(raw: Path, kind: str) -> list[Path]:
    return sorted([*raw.glob(f"lyrl2004_{kind}_*.dat"), *raw.glob(f"lyrl2004_{kind}_*.dat.gz")])


def read_topics(path: Path) -> dict[int, tuple[str, ...]]:
    """The topic codes of each document id, from lines such as ``E11 2286 1``."""
    topics: dict[int, tuple[str, ...]] = {}
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 3 or not parts[1].isdecimal():
            raise DataError(f'{path}:{number}: expected "topic document 1", found {line.strip()!r}')
        together = tuple(sorted({*topics.get(int(parts[1]), ()), parts[0]}))
        topics[int(parts[1])] = shared.setdefault(together, together)
    return topics


def read_token_files(
    paths: list[Path], topics: dict[int, tuple[str, ...]], omitted: Omitted
) -> Iterator[Document]:
    """Documents of the form ``.I id``, ``.W``, lines of tokens."""
    for path in paths:
        for where, identity, tokens in _token_blocks(path):
            if identity not in topics:
                omitted.add("no topic in the qrels file", where)
            elif not tokens:
                omitted.add("no tokens", where)
            else:
                body = TOKEN_SEPARATOR.join(tokens)
                yield Document(str(identity), body, topics[identity], tokenised=True)


def read_vector_files(
    paths: list[Path], topics: dict[int, tuple[str, ...]], omitted: Omitted
) -> Iterator[Document]:
    """Documents of the form ``id term:weight term:weight ...``: a bag, the heaviest terms first.

    A term is known by its number alone. The order lets a cut to a number of tokens keep those that
    say most.
    """
    for path in paths:
        for number, line in enumerate(read_lines(path), start=1):
            where, parts = f"{path}:{number}", line.split()
            if not parts:
                continue
            try:
                terms = [(-float(weight), int(term)) for term, weight in
                         (part.split(":") for part in parts[1:])]  # fmt: skip
                identity = int(parts[0])
            except ValueError:
                raise DataError(
                    f'{where}: expected "id term:weight ...", found {line.strip()[:40]!r}'
                ) from None
            if identity not in topics:
                omitted.add("no topic in the qrels file", where)
            elif not terms:
                omitted.add("no terms", where)
            else:
                body = TOKEN_SEPARATOR.join(str(term) for _, term in sorted(terms))
                yield Document(str(identity), body, topics[identity], tokenised=True)


def _token_blocks(path: Path) -> Iterator[tuple[str, int, list[str]]]:
    identity, where, tokens = None, "", []
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith(".I"):
            if identity is not None:
                yield where, identity, tokens
            where, tokens = f"{path}:{number}", []
            field = line[2:].strip()
            if not field.isdecimal():
                raise DataError(f'{where}: expected ".I" and a document id, found {line.strip()!r}')
            identity = int(field)
        elif identity is None and line.strip():
            raise DataError(
                f'{path}:{number}: expected ".I" and an id, found {line.strip()[:40]!r}'
            )
        elif line.strip() != ".W":
            tokens.extend(line.split())
    if identity is not None:
        yield where, identity, tokens


def read_news(paths: list[Path], omitted: Omitted) -> Iterator[Document]:
    """News items, loose or in zip files: headline, then paragraphs."""
    for path in one_by_one(paths):
        for where, content in _news_items(path):
            if (document := _parse_news(where, content, omitted)) is not None:
                yield document


def _news_items(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.suffix != ".zip":
        yield str(path), path.read_bytes()
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".xml"):
                    yield f"{path}:{name}", archive.read(name)
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: broken zip file: {error}") from error


def _parse_news(where: str, content: bytes, omitted: Omitted) -> Document | None:
    try:
        item = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise DataError(f"{where}: not well-formed XML: {error}") from error
    path = ".//codes[@class='bip:topics:1.0']/code"
    labels = tuple(sorted({code.get("code", "") for code in item.iterfind(path)} - {""}))
    identity = item.get("itemid")
    headline = item.findtext("headline") or ""
    paragraphs = ["".join(p.itertext()).strip() for p in item.iterfind("text/p")]
    body = "\n".join(part for part in (headline.strip(), *paragraphs) if part)
    if identity is None:
        omitted.add("no itemid", where)
    elif not labels:
        omitted.add("no topic code", where)
    elif not body:
        omitted.add("no text", where)
    else:
        return Document(identity, body, labels)
    return None
