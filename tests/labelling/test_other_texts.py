"""Answers land on the document they were given for, and can be taken back."""

import json

import pytest

from crabjax.config import from_overrides
from crabjax.labelling import Project, ProjectError
from crabjax.labelling.answers import Answer
from crabjax.labelling.exchange import read_answers
from crabjax.labelling.review import same_text


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pool.csv").write_text("text\nfirst words\nsecond words\nthird words\n")
    return Project.create(
        tmp_path / "labelling", tmp_path / "pool.csv", ["a", "b"], from_overrides([])
    )


def said(project):
    return {text: answer.labels for text, answer in project.answers().items()}


FILES = {
    "in.csv": "id,text,labels\n1,first words,a\n2,{other},b\n3,third words,\n",
    "in.jsonl": '{{"id": 1, "text": "first words", "labels": ["a"]}}\n'
    '{{"id": 2, "text": "{other}", "labels": ["b"]}}\n',
    "in.json": json.dumps(
        [
            {
                "data": {"document_id": number, "text": text},
                "annotations": [{"result": [{"type": "choices", "value": {"choices": [label]}}]}],
            }
            for number, text, label in (("1", "first words", "a"), ("2", "OTHER", "b"))
        ]
    )
    .replace("{", "{{")
    .replace("}", "}}")
    .replace("OTHER", "{other}"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_row_with_another_text_refuses_the_whole_file(project, tmp_path, name):
    path = tmp_path / name
    path.write_text(FILES[name].format(other="words of another project"))
    with pytest.raises(ProjectError) as caught:
        project.add(read_answers(path))
    message, end = str(caught.value).splitlines()
    where = "task 2" if name == "in.json" else "3" if name == "in.csv" else "2"
    assert message.startswith(f"{path}:")
    assert where in message
    assert "'second words' in the project, but 'words of another project' here" in message
    assert "--ignore-texts" in message
    assert end == "nothing was added"
    assert said(project) == {}
    assert project.add(read_answers(path), ignore_texts=True).labelled == 2


@pytest.mark.parametrize("name", FILES)
def test_the_same_text_is_accepted(project, tmp_path, name):
    (tmp_path / name).write_text(FILES[name].format(other="second words"))
    assert project.add(read_answers(tmp_path / name)).labelled == 2


def test_a_file_of_another_project_is_one_line_however_long(project, tmp_path):
    rows = [f"{number},other {number},a" for number in (1, 2, 3)]
    (tmp_path / "in.csv").write_text("\n".join(["id,text,labels", *rows]))
    with pytest.raises(ProjectError, match=r"in\.csv:2: .* as in 3 of 3 rows") as caught:
        project.add(read_answers(tmp_path / "in.csv"))
    assert len(str(caught.value).splitlines()) == 2


def test_an_unadded_file_of_another_project_is_not_written_over(project, tmp_path):
    project.add([Answer("x", "1", ["a"])])
    (tmp_path / "in.csv").write_text("id,text,labels\n1,other words,a\n")
    with pytest.raises(ProjectError, match="not added yet"):
        project.check_output(tmp_path / "in.csv")


@pytest.mark.parametrize(
    ("shown", "text", "same"),
    [
        ("two\nlines", "two\r\nlines ", True),  # spreadsheets change line ends
        ("cafe\u0301", "café", True),
        ("x" * 32_767, "x" * 40_000, True),  # and cut long cells
        ("x" * 100, "x" * 200, False),
        ("a b", "ab", False),
    ],
)
def test_what_a_spreadsheet_does_to_a_text_is_no_other_text(shown, text, same):
    assert same_text(shown, text) is same


def test_an_answer_can_be_withdrawn_and_an_empty_cell_does_not(project, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("id,labels\n1,a\n2,skipped\n")
    project.add(read_answers(path))
    path.write_text("id,labels\n1,\n2,\n3,\n")
    added = project.add(read_answers(path), replace=True)
    assert (added.blank, added.kept, added.labelled) == (3, 2, 0)
    assert said(project) == {"first words": ["a"], "second words": "skipped"}
    path.write_text("id,labels\n1,withdrawn\n2,withdrawn\n3,withdrawn\n")
    with pytest.raises(ProjectError, match='id "1" was answered "a" before, now "withdrawn"'):
        project.add(read_answers(path))
    with pytest.raises(ProjectError, match="not added yet"):
        project.check_output(path)
    added = project.add(read_answers(path), replace=True)
    assert (added.withdrawn, added.known, added.replaced, added.labelled) == (2, 1, 0, 0)
    assert said(Project.open(project.folder)) == {}
    project.check_output(path)
    assert project.add(read_answers(path)).known == 3
    assert project.add([Answer("x", "1", ["b"])]).labelled == 1
    assert project.learner().labelled == 1


def test_an_answer_in_json_lines_can_be_withdrawn(project, tmp_path):
    project.add([Answer("x", "1", ["a"])])
    (tmp_path / "in.jsonl").write_text('{"id": "1", "labels": "withdrawn"}\n')
    assert project.add(read_answers(tmp_path / "in.jsonl"), replace=True).withdrawn == 1


def test_the_word_for_it_is_no_label(tmp_path):
    (tmp_path / "pool.csv").write_text("text\nx\n")
    with pytest.raises(ProjectError, match='other than "-" and "withdrawn"'):
        Project.create(tmp_path / "p", tmp_path / "pool.csv", ["withdrawn"], from_overrides([]))
