"""MIMIC-III: discharge summaries with the ICD-9 chapters of the admission's diagnoses.

MIMIC-IV is read by :mod:`crabjax.data.sources.mimic4`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from crabjax.data.sources.common import (
    About,
    Asked,
    Document,
    Omitted,
    Prepared,
    draw_split,
    find_raw,
    read_table,
    register_source,
    write_splits,
)
from crabjax.files import DataError

ABOUT = About(
    title="MIMIC-III",
    files="NOTEEVENTS.csv.gz and DIAGNOSES_ICD.csv.gz",
    where="https://physionet.org/content/mimiciii/1.4/ (credentialed access, after a course; "
    "access may not be shared, nor the data sent to services of others)",
    train_size=29_999,
    test_size=10_000,
)

# The first and last three-digit category of each numeric chapter of ICD-9-CM.
CHAPTERS = (
    (1, 139),
    (140, 239),
    (240, 279),
    (280, 289),
    (290, 319),
    (320, 389),
    (390, 459),
    (460, 519),
    (520, 579),
    (580, 629),
    (630, 679),
    (680, 709),
    (710, 739),
    (740, 759),
    (760, 779),
    (780, 799),
    (800, 999),
)
_BRACKETS = re.compile(r"\[\*\*.*?\*\*\]", re.DOTALL)


@register_source("mimic", ABOUT)
def prepare(asked: Asked) -> Prepared:
    """Writes ``train.jsonl`` and ``test.jsonl``, drawn at random from all usable admissions.

    The notes are read twice, first without keeping any text, so memory holds the notes of the
    admissions whose parts are still being met, never the file.
    """
    notes = find_raw(asked.raw, "NOTEEVENTS.csv", ABOUT)
    diagnoses = find_raw(asked.raw, "DIAGNOSES_ICD.csv", ABOUT)
    omitted = Omitted()
    chapters = read_chapters(diagnoses, omitted)
    parts = Counter(admission for admission, *_ in read_notes(notes, chapters, omitted))
    split = draw_split(len(parts), asked.sizes, asked.seed, str(asked.raw))
    again = read_notes(notes, chapters, Omitted())
    documents = join_notes(again, parts, chapters)
    return Prepared(write_splits(documents, split, asked.sizes, asked.output), omitted.lines())


def chapter(code: str) -> str | None:
    """The chapter of an ICD-9 code without its dot: "390-459", "E", "V"; None if it is no code."""
    code = code.strip().upper()
    if code[:1] in ("E", "V"):
        return code[0] if code[1:].isdecimal() else None
    if len(code) < 3 or not code.isdecimal():
        return None
    category = int(code[:3])
    for first, last in CHAPTERS:
        if first <= category <= last:
            return f"{first:03d}-{last:03d}"
    return None


def read_chapters(path: Path, omitted: Omitted) -> dict[str, tuple[str, ...]]:
    """The sorted chapters of every admission."""
    found: dict[str, set[str]] = {}
    for number, row in read_table(path, ("HADM_ID", "ICD9_CODE")):
        where = f"{path}:{number}"
        if not row["HADM_ID"]:
            omitted.add("diagnosis without admission", where)
        elif (name := chapter(row["ICD9_CODE"])) is None:
            omitted.add("diagnosis without a valid ICD-9 code", where)
        else:
            found.setdefault(row["HADM_ID"], set()).add(name)
    return {admission: tuple(sorted(names)) for admission, names in found.items()}


def read_notes(
    path: Path, chapters: dict[str, tuple[str, ...]], omitted: Omitted
) -> Iterator[tuple[str, tuple[bool, str, int], str]]:
    """Yields (admission, place among its notes, text) of usable discharge summaries, cleaned."""
    columns = ("ROW_ID", "HADM_ID", "CHARTDATE", "CATEGORY", "DESCRIPTION", "ISERROR", "TEXT")
    for number, row in read_table(path, columns):
        where = f"{path}:{number}"
        if row["CATEGORY"].strip() != "Discharge summary":
            continue
        if row["ISERROR"].strip() == "1":
            omitted.add("discharge summary marked as an error", where)
        elif not row["HADM_ID"]:
            omitted.add("discharge summary without admission", where)
        elif row["HADM_ID"] not in chapters:
            omitted.add("discharge summary of an admission without diagnoses", where)
        elif not row["ROW_ID"].isdecimal():
            raise DataError(f"{where}: ROW_ID must be a number, found {row['ROW_ID']!r}")
        elif not (text := clean(row["TEXT"])):
            omitted.add("no text", where)
        else:
            addendum = row["DESCRIPTION"].strip() == "Addendum"
            place = (addendum, row["CHARTDATE"], int(row["ROW_ID"]))
            yield row["HADM_ID"], place, text


def join_notes(
    notes: Iterator[tuple[str, tuple[bool, str, int], str]],
    parts: dict[str, int],
    chapters: dict[str, tuple[str, ...]],
) -> Iterator[Document]:
    """One document an admission, as soon as all its ``parts`` were met: reports, then addenda."""
    pending: dict[str, list[tuple[tuple[bool, str, int], str]]] = {}
    for admission, place, text in notes:
        pending.setdefault(admission, []).append((place, text))
        if len(pending[admission]) == parts[admission]:
            ordered = sorted(pending.pop(admission))
            body = "\n".join(text for _, text in ordered)
            yield Document(admission, body, chapters[admission])


def clean(text: str) -> str:
    """Removes de-identification brackets such as ``[**2151-7-16**]``."""
    return _BRACKETS.sub(" ", text).strip()
