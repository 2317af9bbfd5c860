"""Files to people who label, and back."""

import csv
import json

import numpy as np
import pytest

from crabjax.files import DataError
from crabjax.labelling.exchange import (
    labelling_interface,
    read_answers,
    write_predictions,
    write_suggestion,
)
from crabjax.labelling.review import Known, find_problems
from crabjax.labelling.suggestion import Suggestion

NAMES = ("a", "b & c")
IDS = ["d1", "d2", "d3"]
TEXTS = ['plain, "quoted"', "two\nlines", "café ☕"]
WARM = Suggestion(
    np.array([2, 1]),
    np.array([0.25, 0.125], np.float32),
    np.array([[0.9, 0.8], [0.2, 0.4]], np.float32),
    np.array([[True, True], [False, False]]),
    ["hard", "label_wise"],
)
COLD = WARM._replace(
    scores=np.full(2, np.nan), probabilities=np.full((2, 2), np.nan), sources=["diverse"] * 2
)


def csv_rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_csv_file_waits_for_labels(tmp_path):
    path = tmp_path / "out.csv"
    write_suggestion(path, WARM, IDS, TEXTS, NAMES)
    rows = csv_rows(path)
    assert [row["id"] for row in rows] == ["d3", "d2"]
    assert [row["text"] for row in rows] == ["café ☕", "two\nlines"]
    assert [row["predicted"] for row in rows] == ["a;b & c", ""]
    assert rows[0] | {"labels": "", "score": "0.25", "source": "hard"} == rows[0]
    assert [entry.labels for entry in read_answers(path)] == [None, None]


def test_a_cold_start_has_no_scores_or_predictions(tmp_path):
    for name in ("out.csv", "out.jsonl", "out.json"):
        write_suggestion(tmp_path / name, COLD, IDS, TEXTS, NAMES)
        assert "nan" not in (tmp_path / name).read_text(encoding="utf-8").lower()
    assert "predictions" not in json.loads((tmp_path / "out.json").read_text())[0]


def test_json_lines_come_back(tmp_path):
    path = tmp_path / "out.jsonl"
    write_suggestion(path, WARM, IDS, TEXTS, NAMES)
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert first["predicted"] == ["a", "b & c"]
    assert first["probabilities"] == {"a": 0.9, "b & c": 0.8}
    assert [(entry.id, entry.labels) for entry in read_answers(path)] == [
        ("d3", None),
        ("d2", None),
    ]


def test_label_studio_tasks_carry_predictions_and_come_back(tmp_path):
    path = tmp_path / "tasks.json"
    write_suggestion(path, WARM, IDS, TEXTS, NAMES)
    tasks = json.loads(path.read_text(encoding="utf-8"))
    assert tasks[0]["data"] == {"text": "café ☕", "document_id": "d3", "source": "hard"}
    result = tasks[0]["predictions"][0]["result"][0]
    assert result["value"] == {"choices": ["a", "b & c"]}
    assert (result["from_name"], result["to_name"]) == ("labels", "text")
    for number, task in enumerate(tasks):  # what an annotator's work adds to an export
        task |= {"id": 900 + number, "annotations": [{"was_cancelled": False, "result": [result]}]}
    tasks[1]["annotations"] = [{"was_cancelled": True, "result": []}]
    path.write_text(json.dumps(tasks), encoding="utf-8")
    found = [(entry.id, entry.labels) for entry in read_answers(path)]
    assert found == [("d3", ["a", "b & c"]), ("d2", "skipped")]


def test_label_studio_exports_without_or_with_empty_annotations(tmp_path):
    path = tmp_path / "export.json"
    empty = {"was_cancelled": False, "result": []}
    tasks = [
        {"data": {"document_id": 7}, "annotations": []},
        {"data": {"document_id": "d1"}, "annotations": [empty, empty]},
    ]
    path.write_text(json.dumps(tasks))
    assert [(entry.id, entry.labels) for entry in read_answers(path)] == [("7", None), ("d1", [])]


def test_the_interface_names_every_label_once():
    interface = labelling_interface(NAMES)
    assert interface.count("<Choice ") == 2
    assert '"b &amp; c"' in interface


def test_csv_cells(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("id,labels\n1,b; a ;\n2,-\n3,skipped\n4,\n")
    assert [entry.labels for entry in read_answers(path)] == [["a", "b"], [], "skipped", None]
    assert read_answers(path)[1].where == f"{path}:3"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.csv", "id,label\n1,a\n", r'in\.csv:1: expected a header with "id", "labels"'),
        ("in.csv", "id,label\n", r"in\.csv:1: expected a header"),
        ("in.csv", "", r"in\.csv:1: expected a header .* found an empty line"),
        ("in.jsonl", "", r"in\.jsonl: no lines in this file"),
        ("in.jsonl", '{"id": "1", "label": []}\n', r'in\.jsonl:1: expected the field "labels"'),
        ("in.csv", "id,labels\n1,a,b\n", r"in\.csv:2: expected 2 columns"),
        ("in.jsonl", '{"labels": []}\n', r'in\.jsonl:1: expected the field "id"'),
        ("in.jsonl", '\n{"id": 1, "labels": "a"}\n', r"in\.jsonl:2: .*list of strings"),
        ("in.json", "{", r"in\.json: malformed JSON"),
        ("in.json", "{}", r"in\.json: expected a Label Studio export"),
        ("in.json", '[{"text": "x"}]', r"in\.json: task 1: .*JSON-MIN"),
        ("in.xlsx", "", r"in\.xlsx: expected a name ending in"),
    ],
)
def test_wrong_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_answers(tmp_path / name)


def test_annotators_who_disagree_are_an_error(tmp_path):
    result = [{"type": "choices", "value": {"choices": ["a"]}}]
    annotations = [{"result": result}, {"result": []}]
    tasks = [{"data": {"document_id": "d1"}, "annotations": annotations}]
    (tmp_path / "in.json").write_text(json.dumps(tasks))
    with pytest.raises(DataError, match="task 1: annotations disagree"):
        read_answers(tmp_path / "in.json")


def test_an_annotator_who_skips_leaves_it_to_the_others(tmp_path):
    result = [{"type": "choices", "value": {"choices": ["a"]}}]
    cancelled = {"was_cancelled": True, "result": []}
    tasks = [
        {"data": {"document_id": "d1"}, "annotations": [cancelled, {"result": result}]},
        {"data": {"document_id": "d2"}, "annotations": [{"result": result}, cancelled]},
        {"data": {"document_id": "d3"}, "annotations": [cancelled, cancelled]},
    ]
    (tmp_path / "in.json").write_text(json.dumps(tasks))
    said = [entry.labels for entry in read_answers(tmp_path / "in.json")]
    assert said == [["a"], ["a"], "skipped"]


def test_unknown_labels_come_with_the_advice_of_their_file(tmp_path):
    known = Known({"d1": "text"}, {}, NAMES)
    result = [{"type": "choices", "value": {"choices": ["z"]}}]
    tasks = [{"data": {"document_id": "d1"}, "annotations": [{"result": result}]}]
    (tmp_path / "in.json").write_text(json.dumps(tasks))
    (tmp_path / "in.csv").write_text('id,labels\nd1,"a,z"\n')
    (studio,) = find_problems(read_answers(tmp_path / "in.json"), known, replace=False)
    assert 'in.json: task 1: unknown label "z"; known are a, b & c (Label Studio must' in studio
    (table,) = find_problems(read_answers(tmp_path / "in.csv"), known, replace=False)
    assert table.endswith('(labels are separated by ";")')


def test_predictions(tmp_path):
    probabilities = np.array([[0.9, 0.1], [0.25, 0.3]])
    arguments = (IDS[:2], [(["a"], "person"), ([], "model")], [probabilities], NAMES)
    write_predictions(tmp_path / "p.csv", *arguments)
    rows = csv_rows(tmp_path / "p.csv")
    assert rows[0] == {"id": "d1", "labels": "a", "by": "person", "p(a)": "0.9", "p(b & c)": "0.1"}
    write_predictions(tmp_path / "p.jsonl", *arguments)
    second = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[1])
    assert second["probabilities"] == {"a": 0.25, "b & c": 0.3}
