"""MIMIC-III notes and diagnoses, and the chapters of ICD-9."""

import gzip

import pytest

from crabjax.data.sources import mimic
from crabjax.files import DataError

NOTES_HEADER = (
    '"ROW_ID","SUBJECT_ID","HADM_ID","CHARTDATE","CHARTTIME","STORETIME","CATEGORY",'
    '"DESCRIPTION","CGID","ISERROR","TEXT"\n'
)


DIAGNOSES = (
    '"ROW_ID","SUBJECT_ID","HADM_ID","SEQ_NUM","ICD9_CODE"\n'
    '1,9,100,1,"40301"\n2,9,100,2,"V4511"\n3,9,100,3,"4280"\n'
    '4,9,101,1,"E8497"\n5,9,101,2,\n6,9,101,3,"0389"\n7,9,,1,"0389"\n'
)


def note(
    row,
    admission,
    text,
    description="Report",
    date="2151-08-04",
    error="",
    kind="Discharge summary",
):
    return f'{row},9,{admission},{date},,,"{kind}","{description}",,{error},"{text}"\n'


@pytest.fixture
def mimic_folder(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    notes = NOTES_HEADER + "".join(
        [
            note(1, 100, "Later: see [**Hospital1 **] now.", "Addendum", "2151-08-06"),
            note(2, 101, 'Says ""hi"",\nborn [**2080-\n1-4**] there.'),
            note(3, 100, "First."),
            note(4, 100, "An X-ray.", kind="Radiology"),
            note(5, 102, "No diagnoses."),
            note(6, "", "No admission."),
            note(7, 101, "Wrong.", error="1"),
            note(8, 100, "Second.", date="2151-08-05"),
        ]
    )
    (raw / "NOTEEVENTS.csv.gz").write_bytes(gzip.compress(notes.encode()))
    (raw / "DIAGNOSES_ICD.csv").write_text(DIAGNOSES)
    return raw


def test_mimic(mimic_folder, tmp_path, run, by_id):
    prepared, corpora = run(mimic, mimic_folder, tmp_path / "out", 1, 1)
    assert by_id(corpora) == {
        "100": ("First.\nSecond.\nLater: see   now.", ("390-459", "V")),
        "101": ('Says "hi",\nborn   there.', ("001-139", "E")),
    }
    assert [line.split(" (")[0] for line in prepared.omitted] == [
        "left out 1: diagnosis without a valid ICD-9 code",
        "left out 1: diagnosis without admission",
        "left out 1: discharge summary of an admission without diagnoses",
        "left out 1: discharge summary without admission",
        "left out 1: discharge summary marked as an error",
    ]


def test_mimic_leaves_out_notes_without_words(mimic_folder, tmp_path, run, by_id):
    notes = NOTES_HEADER + note(2, 101, "Words.") + note(3, 101, " ", "Addendum")
    (mimic_folder / "NOTEEVENTS.csv.gz").unlink()
    path = mimic_folder / "NOTEEVENTS.csv"
    path.write_text(notes + note(1, 100, "First."))
    prepared, corpora = run(mimic, mimic_folder, tmp_path / "out", 1, 1)
    assert by_id(corpora)["101"] == ("Words.", ("001-139", "E"))
    assert prepared.omitted[-1].startswith("left out 1: no text")
    path.write_text(notes + note(1, 100, "[**Name**] "))
    with pytest.raises(DataError, match="found 1 usable"):
        run(mimic, mimic_folder, tmp_path / "out", 1, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (NOTES_HEADER + "1,9,100\n", r"NOTEEVENTS\.csv:2: expected 11 columns .* found 3"),
        ('"ROW_ID","TEXT"\n1,"x"\n', r"NOTEEVENTS\.csv:1: expected the columns HADM_ID"),
        (NOTES_HEADER + note("x", 100, "y"), r"NOTEEVENTS\.csv:2: ROW_ID must be a number"),
        (NOTES_HEADER + '1,9,100,"open\n', r"NOTEEVENTS\.csv:2: malformed CSV"),
    ],
)
def test_mimic_bad_rows_are_named(mimic_folder, tmp_path, content, message, run):
    (mimic_folder / "NOTEEVENTS.csv.gz").unlink()
    (mimic_folder / "NOTEEVENTS.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        run(mimic, mimic_folder, tmp_path / "out", 1, 1)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("001", "001-139"),
        ("1398", "001-139"),
        ("140", "140-239"),
        ("4280", "390-459"),
        ("99999", "800-999"),
        ("E8497", "E"),
        ("v3001", "V"),
        ("", None),
        ("000", None),
        ("42", None),
        ("E", None),
        ("ABC", None),
    ],
)
def test_icd9_chapters(code, expected):
    assert mimic.chapter(code) == expected


def test_icd9_has_nineteen_chapters_without_gaps():
    numeric = {mimic.chapter(f"{category:03d}") for category in range(1, 1000)}
    assert None not in numeric
    assert len(numeric | {"E", "V"}) == 19
