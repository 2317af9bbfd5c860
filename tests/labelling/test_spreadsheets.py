"""What spreadsheets do to files, on the way out and back."""

import numpy as np
import pytest

from crabjax.config import from_overrides
from crabjax.data.corpus import read_corpus
from crabjax.data.csv_rows import CsvStyle
from crabjax.files import DataError
from crabjax.labelling import Project, ProjectError
from crabjax.labelling.exchange import read_answers, write_predictions, write_suggestion
from crabjax.labelling.suggestion import Suggestion

NOTHING = np.full((1, 2), np.nan)
SUGGESTION = Suggestion(
    np.array([0]), np.array([np.nan]), NOTHING, np.zeros((1, 2), bool), ["random"]
)
MARK = b"\xef\xbb\xbf"


def create(folder, content):
    (folder / "pool.csv").write_bytes(content)
    return Project.create(folder / "labelling", folder / "pool.csv", ["a", "b"], from_overrides([]))


@pytest.mark.parametrize(
    ("mark", "delimiter"), [(b"", ","), (MARK, ","), (b"", ";"), (MARK, ";"), (MARK, "\t")]
)
def test_files_for_people_are_written_as_theirs_was(tmp_path, mark, delimiter):
    text = f"id{delimiter}text\nd0{delimiter}some words\n"
    create(tmp_path, mark + text.encode())
    project = Project.open(tmp_path / "labelling")
    assert project.style == CsvStyle(delimiter, bool(mark))
    out = tmp_path / "out.csv"
    names = project.label_names
    write_suggestion(out, SUGGESTION, project.ids, project.texts, names, project.style)
    header = ["id", "text", "labels", "predicted", "score", "source"]
    assert out.read_bytes().startswith(mark + delimiter.join(header).encode())
    assert read_answers(out)[0].text == "some words"
    write_predictions(
        out, project.ids, [(["a"], "model")], [np.array([[0.9, 0.1]])], names, project.style
    )
    assert out.read_bytes().startswith(mark + delimiter.join(["id", "labels", "by"]).encode())


def test_a_first_line_that_names_the_delimiter_is_understood(tmp_path):
    project = create(tmp_path, b"sep=;\r\nid;text\r\nd0;some words\r\n")
    assert (project.ids, project.texts) == (["d0"], ["some words"])
    (tmp_path / "in.csv").write_text('"sep=;"\nid;labels\nd0;a\nd9;b\n')
    answers = read_answers(tmp_path / "in.csv")
    assert [(one.id, one.labels) for one in answers] == [("d0", ["a"]), ("d9", ["b"])]
    assert answers[0].where.endswith("in.csv:3")
    (tmp_path / "train.csv").write_text("sep=;\ntext;labels\nx;a\n")
    assert read_corpus(tmp_path / "train.csv").documents == ["x"]


def test_rows_that_nobody_filled_in_are_passed_over(tmp_path):
    project = create(tmp_path, b"id,text\nd0,some words\n,\n\n ,\n")
    (tmp_path / "in.csv").write_text("id,text,labels\n,,\nd0,some words,a\n,,\n,,,,\n")
    assert project.add(read_answers(tmp_path / "in.csv")).labelled == 1


def test_an_id_that_lost_its_zeros_is_recognised(tmp_path):
    project = create(tmp_path, b"id,text\n001,some words\n002,other words\n")
    (tmp_path / "in.csv").write_text("id,labels\n1,a\n7,a\n")
    with pytest.raises(ProjectError) as caught:
        project.add(read_answers(tmp_path / "in.csv"))
    first, second, _ = str(caught.value).splitlines()
    assert 'in.csv:2: unknown id "1"; "001" is known: spreadsheets drop zeros' in first
    assert second.endswith('unknown id "7"')


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('id,labels\n1,a\n2,"b\n3,a\n4,a\n', r"in\.csv:3: malformed CSV: .*2 lines: is a quote"),
        ('id,labels\n1,a\n2,"b\n3,a\n4,"a"\n', r"in\.csv:3: malformed CSV: .*is a quote"),
        ('id,labels\n1,"a\nb"\n2,a,b\n', r"in\.csv:4: expected 2 columns .* found 3$"),
        ('id,labels\n1,"a\n2,b\n3","c\n', r"in\.csv:2: .*is a quote"),
    ],
)
def test_a_quote_left_open_is_blamed_on_its_own_row(tmp_path, content, message):
    (tmp_path / "in.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_answers(tmp_path / "in.csv")


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("id,labels\n1,é\n".encode("latin-1"), "iconv -f CP1252 -t UTF-8 in.csv > new_in.csv"),
        ("id,labels\n1,é\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8 in.csv > new_in.csv"),
    ],
)
def test_other_encodings_come_with_a_command_that_works(tmp_path, content, advice):
    (tmp_path / "in.csv").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_answers(tmp_path / "in.csv")
    assert advice in str(caught.value)
