"""Files that go out and come back never cost a person their answers."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import MultiLabelBinarizer

from crabjax.config import from_overrides
from crabjax.files import DataError
from crabjax.labelling import Project, ProjectError
from crabjax.labelling.answers import Answer, check_label_names
from crabjax.labelling.decisions import decide
from crabjax.labelling.exchange import (
    PredictionsError,
    read_answers,
    write_predictions,
    write_suggestion,
)
from crabjax.labelling.learner import Learner
from crabjax.labelling.learning_curve import LearningCurve
from crabjax.labelling.project import ProjectWarning
from crabjax.labelling.status import estimate, status_text
from crabjax.labelling.suggestion import Suggestion
from crabjax.models.pretrained import PretrainedError
from crabjax.models.pretrained_files import PretrainedNotFoundError
from crabjax.strategies.base import StrategyWarning


def said(project):
    return {text: answer.labels for text, answer in project.answers().items()}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pool.csv").write_text("id,text\nd0,some words\nd1,other words\n")
    return Project.create(
        tmp_path / "labelling", tmp_path / "pool.csv", ["a", "b"], from_overrides([])
    )


def test_outputs_never_replace_the_projects_own_files(project, tmp_path):
    with pytest.raises(ProjectError, match="inside the project"):
        project.check_output(project.folder / "labels.jsonl")
    project.check_output(tmp_path / "to_label.csv")


def test_a_filled_in_file_is_not_overwritten_before_it_is_added(project, tmp_path):
    path = tmp_path / "to_label.csv"
    path.write_text("")
    project.check_output(path)
    path.write_text("id,labels\nd0,a\nd1,\n")
    with pytest.raises(ProjectError, match="holds answers that were not added yet"):
        project.check_output(path)
    project.add(read_answers(path))
    project.check_output(path)
    path.write_text("id,labels\nof another project,a\n")
    with pytest.raises(ProjectError, match="holds answers that were not added yet"):
        project.check_output(path)


def test_files_of_another_kind_are_not_overwritten(project, tmp_path):
    (tmp_path / "thesis.csv").write_text("chapter,words\n1,9000\n")
    with pytest.raises(ProjectError, match="a file of another kind"):
        project.check_output(tmp_path / "thesis.csv")


def test_an_output_that_cannot_be_written_is_known_before_the_work(project, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot be written.*out\.csv"):
        project.check_output(tmp_path / "file" / "out.csv")
    with pytest.raises(IsADirectoryError):
        project.check_output(tmp_path)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_predictions_are_not_taken_for_answers(project, tmp_path, suffix):
    path = tmp_path / f"predictions{suffix}"
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8]])
    decided = decide(project, probabilities > 0.5)
    write_predictions(path, project.ids, decided, [probabilities], project.label_names)
    with pytest.raises(PredictionsError, match="`predict` wrote these labels"):
        read_answers(path)
    project.check_output(path)  # predictions may be written over


def test_a_column_with_the_annotators_name_is_left_alone(tmp_path):
    (tmp_path / "in.csv").write_text("id,labels,by\nd0,a,Ada\n")
    assert [entry.labels for entry in read_answers(tmp_path / "in.csv")] == [["a"]]


def test_a_pool_without_the_text_column_says_how_to_name_it(tmp_path):
    (tmp_path / "pool.csv").write_text("id,body\nd0,words\n")
    message = r"pool\.csv:1: expected a header with \"text\", found 'id,body'; --text-column"
    with pytest.raises(DataError, match=message):
        Project.create(tmp_path / "p", tmp_path / "pool.csv", ["a"], from_overrides([]))


def test_a_labels_file_without_its_last_line_end_stays_readable(project):
    project.add([Answer("in.csv:2", "d0", ["a"])])
    labels = project.folder / "labels.jsonl"
    labels.write_text(labels.read_text().rstrip("\n"))
    project.add([Answer("in.csv:2", "d1", ["b"])])
    assert said(project) == {"some words": ["a"], "other words": ["b"]}


def test_separators_alone_are_no_answer(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id,labels\nd0," ; "\n')
    with pytest.raises(DataError, match=r"in.csv:2: expected labels, \"-\" for none"):
        read_answers(path)


@pytest.mark.parametrize("text", ["a\rb", "a\nb", 'a "b"', "a,b", "a\r\nb"])
def test_any_text_survives_the_way_out_and_back(tmp_path, text):
    nothing = np.full((1, 2), np.nan)
    no_labels = np.zeros((1, 2), bool)
    suggestion = Suggestion(np.array([0]), np.array([np.nan]), nothing, no_labels, ["random"])
    write_suggestion(tmp_path / "out.csv", suggestion, ["d0"], [text], ["a", "b"])
    assert read_answers(tmp_path / "out.csv")[0].id == "d0"


def test_the_classes_of_a_binarizer_are_label_names():
    classes = MultiLabelBinarizer().fit([["b"], ["a"]]).classes_
    assert check_label_names(classes) == ("a", "b")


@pytest.fixture
def twins(tmp_path):
    """Four documents, three of them with one text."""
    (tmp_path / "pool.csv").write_text("id,text\nd0,same\nd1,same\nd2,other\nd3,same\n")
    return Project.create(
        tmp_path / "labelling", tmp_path / "pool.csv", ["a", "b"], from_overrides([])
    )


def test_an_answer_counts_for_all_documents_with_its_text(twins):
    twins.add([Answer("in.csv:2", "d1", ["a"])])
    assert twins.add([Answer("in.csv:2", "d3", ["a"])]).known == 1
    labels, sources = zip(*decide(twins, np.zeros((4, 2), bool)))
    assert labels == (["a"], ["a"], [], ["a"])
    assert sources == ("person", "person", "model", "person")
    assert twins.learner().labelled == 1
    said = status_text(twins, None)
    assert "2 documents (and 2 with the same text as another), 1 labelled (50%)" in said


def test_documents_with_one_text_must_agree(twins):
    first, second = Answer("in.csv:2", "d0", ["a"]), Answer("in.csv:3", "d3", ["b"])
    with pytest.raises(ProjectError, match=r'in\.csv:3: id "d3" has the same text as "d0"'):
        twins.add([first, second])
    added = twins.add([first, second._replace(labels=["a"]), Answer("in.csv:4", "d1", None)])
    assert (added.labelled, added.known, added.blank) == (1, 1, 1)
    with pytest.raises(ProjectError, match=r'id "d3" was answered "a" before, now "b"'):
        twins.add([second])
    assert twins.add([second], replace=True).replaced == 1
    assert said(twins) == {"same": ["b"]}
    assert twins.learner().fingerprint() == Project.open(twins.folder).learner().fingerprint()


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters_of_spreadsheets_are_read(tmp_path, delimiter):
    rows = [["id", "text", "labels"], ["d0", '"one; two"', '"a;b"'], ["d1", "three", ""]]
    path = tmp_path / "pool.csv"
    path.write_text("\n".join(delimiter.join(row) for row in rows))
    project = Project.create(tmp_path / "p", path, ["a", "b"], from_overrides([]))
    assert project.texts == ["one; two", "three"]
    assert [entry.labels for entry in read_answers(path)] == [["a", "b"], None]


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v3", "./no/such/folder", "no such name"])
def test_an_encoder_that_cannot_be_had_is_an_error_at_once(tmp_path, name, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "pool.csv").write_text("text\nx\n")
    config = from_overrides(["model.name=frozen", f"model.pretrained={name}"])
    with pytest.raises(PretrainedNotFoundError):
        Project.create(tmp_path / "p", tmp_path / "pool.csv", ["a"], config)
    assert not (tmp_path / "p").exists()


def test_an_encoder_of_a_kind_not_known_is_an_error_at_once(tmp_path):
    (tmp_path / "pool.csv").write_text("text\nx\n")
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text('{"model_type": "gpt2"}')
    config = from_overrides(["model.name=frozen", f"model.pretrained={tmp_path / 'encoder'}"])
    with pytest.raises(PretrainedError, match="model_type: expected"):
        Project.create(tmp_path / "p", tmp_path / "pool.csv", ["a"], config)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["sport", "Sport"], "labels 'sport' and 'Sport' differ in capitals only"),
        (["news\nworld"], "expected a name without line breaks"),
        (["tab\tbed"], "expected a name without line breaks"),
        (["caf\u00e9", "cafe\u0301"], "expected distinct labels"),
    ],
)
def test_names_that_people_could_not_tell_apart_are_refused(tmp_path, names, message):
    (tmp_path / "pool.csv").write_text("text\nx\n")
    with pytest.raises(ValueError, match=message):
        Project.create(tmp_path / "p", tmp_path / "pool.csv", names, from_overrides([]))
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.csv", "id,labels\nd0,cafe\u0301\n"),
        ("in.jsonl", '{"id": "d0", "labels": ["cafe\u0301"]}\n'),
        (
            "in.json",
            '[{"data": {"document_id": "d0"}, "annotations": [{"result": [{"type": "choices", '
            '"value": {"choices": ["cafe\u0301"]}}]}]}]',
        ),
    ],
)
def test_both_unicode_forms_of_a_label_are_one(tmp_path, name, content):
    (tmp_path / "pool.csv").write_text("id,text\nd0,words\n")
    project = Project.create(
        tmp_path / "p", tmp_path / "pool.csv", ["caf\u00e9"], from_overrides([])
    )
    (tmp_path / name).write_text(content, encoding="utf-8")
    project.add(read_answers(tmp_path / name))
    assert said(project) == {"words": ["caf\u00e9"]}
    labels = project.folder / "labels.jsonl"
    labels.write_text('{"id": "d0", "labels": ["cafe\u0301"]}\n', encoding="utf-8")
    assert said(project) == {"words": ["caf\u00e9"]}


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("model.safetensors", -10, r"model\.safetensors: expected \d+ bytes, found \d+: not all"),
        ("model.safetensors", 200, r"model\.safetensors: no safetensors file, or cut short"),
        ("model.safetensors", 3, r"model\.safetensors: no safetensors file, or cut short"),
        ("model.safetensors", 0, r"model\.safetensors: no safetensors file, or cut short"),
        ("config.json", 20, r"config\.json: malformed JSON"),
    ],
)
def test_encoder_files_cut_short_are_noticed_at_init(tmp_path, name, size, message):
    encoder = tmp_path / "encoder"
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "tiny_bert", encoder)
    content = (encoder / name).read_bytes()
    (encoder / name).write_bytes(content[:size])
    (tmp_path / "pool.csv").write_text("text\nx\n")
    config = from_overrides(["model.name=frozen", f"model.pretrained={encoder}"])
    with pytest.raises(DataError, match=message):
        Project.create(tmp_path / "p", tmp_path / "pool.csv", ["a"], config)
    assert not (tmp_path / "p").exists()


def test_texts_that_are_nearly_all_equal_are_said(tmp_path):
    (tmp_path / "pool.csv").write_text("text\n" + "same\n" * 9 + "other\n")
    with pytest.warns(ProjectWarning, match="10 documents, but 2 different texts"):
        Project.create(tmp_path / "p", tmp_path / "pool.csv", ["a"], from_overrides([]))


def test_one_member_is_said_at_init(tmp_path):
    (tmp_path / "pool.csv").write_text("text\nx\n")
    config = from_overrides(["ensemble.members=1"])
    with pytest.warns(StrategyWarning, match="1 member never does"):
        Project.create(tmp_path / "p", tmp_path / "pool.csv", ["a"], config)


def test_a_project_that_may_only_be_read_still_shows_its_state(project, monkeypatch):
    curve = LearningCurve([5, 10], [0.5, 0.6], [0.4, 0.5], [0.1, 0.1], [0.7, 0.3], 0.1, 0.02)
    monkeypatch.setattr(Learner, "learning_curve", lambda self: curve)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)  # what a folder of somebody else's does
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", refuse)
    text = status_text(project, estimate(project))
    assert "2 without an answer" in text
    assert "0.600" in text
    assert text.endswith("progress.png: Permission denied")
