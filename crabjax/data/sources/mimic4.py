"""MIMIC-IV: discharge summaries with the ICD-9 or the ICD-10 chapters of the diagnoses.

Admissions were coded in ICD-9 until 2015 and in ICD-10 since; each is a data set of its own.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from crabjax.data.sources.common import (
    About,
    Asked,
    Document,
    Omitted,
    Prepared,
    find_raw,
    read_table,
    register_source,
    write_drawn,
)
from crabjax.data.sources.mimic import chapter as chapter_of_icd9

_FILES = "discharge.csv.gz (of MIMIC-IV-Note) and diagnoses_icd.csv.gz (of MIMIC-IV, folder hosp)"
_WHERE = (
    "https://physionet.org/content/mimic-iv-note/2.2/ and https://physionet.org/content/mimiciv/"
    "2.2/ (credentialed access: training on research with human data and a signed data use "
    "agreement; neither the files nor what is made of them may be passed on)"
)
ABOUT = {
    9: About("MIMIC-IV (ICD-9 chapters)", _FILES, _WHERE, 29_999, 10_000),
    10: About("MIMIC-IV (ICD-10 chapters)", _FILES, _WHERE, 29_999, 10_000),
}
# The first and last category of each chapter of ICD-10-CM.
CHAPTERS = (
    ("A00", "B99"),
    ("C00", "D49"),
    ("D50", "D89"),
    ("E00", "E89"),
    ("F01", "F99"),
    ("G00", "G99"),
    ("H00", "H59"),
    ("H60", "H95"),
    ("I00", "I99"),
    ("J00", "J99"),
    ("K00", "K95"),
    ("L00", "L99"),
    ("M00", "M99"),
    ("N00", "N99"),
    ("O00", "O9A"),
    ("P00", "P96"),
    ("Q00", "Q99"),
    ("R00", "R99"),
    ("S00", "T88"),
    ("U00", "U85"),
    ("V00", "Y99"),
    ("Z00", "Z99"),
)


def chapter(code: str) -> str | None:
    """The chapter of an ICD-10 code without its dot, such as "I00-I99"; None if it has none."""
    category = code.strip().upper()[:3]
    if len(category) < 3 or not (category[0].isalpha() and category[1].isdecimal()):
        return None
    for first, last in CHAPTERS:
        if first <= category <= last:
            return f"{first}-{last}"
    return None


_CHAPTER_OF: dict[int, Callable[[str], str | None]] = {9: chapter_of_icd9, 10: chapter}


def _prepare(version: int, asked: Asked) -> Prepared:
    """Writes the admissions coded in a version of ICD, drawn at random."""
    notes = find_raw(asked.raw, "discharge.csv", ABOUT[version])
    diagnoses = find_raw(asked.raw, "diagnoses_icd.csv", ABOUT[version])
    omitted = Omitted()
    chapters = read_chapters(diagnoses, version, omitted)
    prepared = write_drawn(partial(read_notes, notes, chapters), asked)
    return Prepared(prepared.written, [*omitted.lines(), *prepared.omitted])


for _version, _about in ABOUT.items():
    register_source(f"mimic4_icd{_version}", _about)(partial(_prepare, _version))


def read_chapters(path: Path, version: int, omitted: Omitted) -> dict[str, tuple[str, ...]]:
    """The sorted chapters of every admission that was coded in a version of ICD."""
    found: dict[str, set[str]] = {}
    columns = ("hadm_id", "icd_code", "icd_version")
    for number, row in read_table(path, columns):
        if row["icd_version"].strip() != str(version):
            continue
        if (name := _CHAPTER_OF[version](row["icd_code"])) is None:
            omitted.add(f"diagnosis without a valid ICD-{version} code", f"{path}:{number}")
        else:
            found.setdefault(row["hadm_id"], set()).add(name)
    return {admission: tuple(sorted(names)) for admission, names in found.items()}


def read_notes(
    path: Path, chapters: dict[str, tuple[str, ...]], omitted: Omitted
) -> Iterator[Document]:
    """One discharge summary an admission: the file has no more, and addenda lie elsewhere."""
    seen: set[str] = set()
    for number, row in read_table(path, ("note_id", "hadm_id", "text")):
        where, admission = f"{path}:{number}", row["hadm_id"]
        # De-identified passages are three underscores in MIMIC-IV.
        text = row["text"].replace("___", " ").strip()
        if not admission:
            omitted.add("discharge summary without admission", where)
        elif admission not in chapters:
            omitted.add("discharge summary of an admission without such diagnoses", where)
        elif admission in seen:
            omitted.add("second discharge summary of an admission", where)
        elif not text:
            omitted.add("no text", where)
        else:
            seen.add(admission)
            yield Document(admission, text, chapters[admission])
