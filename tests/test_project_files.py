"""Files that go out and come back never cost a person their answers."""

import numpy as np
import pytest
from sklearn.preprocessing import MultiLabelBinarizer

from crabjax.answers import check_label_names
from crabjax.config import from_overrides
from crabjax.data.files import DataError
from crabjax.labelling import Project, ProjectError
from crabjax.labelling.exchange import Entry, read_answers, write_suggestion
from crabjax.learner import Suggestion


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pool.csv").write_text("id,text\nd0,some words\nd1,other words\n")
    return Project.create(
        tmp_path / "labelling", tmp_path / "pool.csv", ["a", "b"], from_overrides([])
    )


def test_outputs_never_replace_the_projects_own_files(project, tmp_path):
    with pytest.raises(ProjectError, match="inside the project"):
        project.check_outside(project.folder / "labels.jsonl")
    project.check_outside(tmp_path / "to_label.csv")


def test_a_filled_in_file_is_not_overwritten_before_it_is_added(project, tmp_path):
    path = tmp_path / "to_label.csv"
    project.check_added(path)
    path.write_text("id,labels\nd0,a\nd1,\n")
    with pytest.raises(ProjectError, match="holds answers that were not added yet"):
        project.check_added(path)
    project.add(read_answers(path))
    project.check_added(path)


def test_a_labels_file_without_its_last_line_end_stays_readable(project):
    project.add([Entry("in.csv:2", "d0", ["a"])])
    labels = project.folder / "labels.jsonl"
    labels.write_text(labels.read_text().rstrip("\n"))
    project.add([Entry("in.csv:2", "d1", ["b"])])
    assert project.answers() == {"d0": ["a"], "d1": ["b"]}


def test_separators_alone_are_no_answer(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id,labels\nd0," ; "\n')
    with pytest.raises(DataError, match=r"in.csv:2: expected labels, \"-\" for none"):
        read_answers(path)


@pytest.mark.parametrize("text", ["a\rb", "a\nb", 'a "b"', "a,b", "a\r\nb"])
def test_any_text_survives_the_way_out_and_back(tmp_path, text):
    nothing = np.full((1, 2), np.nan)
    suggestion = Suggestion(np.array([0]), np.array([np.nan]), nothing, ["random"])
    write_suggestion(tmp_path / "out.csv", suggestion, ["d0"], [text], ["a", "b"])
    assert read_answers(tmp_path / "out.csv")[0].id == "d0"


def test_the_classes_of_a_binarizer_are_label_names():
    classes = MultiLabelBinarizer().fit([["b"], ["a"]]).classes_
    assert check_label_names(classes) == ("a", "b")
