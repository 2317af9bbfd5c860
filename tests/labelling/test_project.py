"""A project loses nothing: not by a crash, a wrong file, or two commands at once."""

import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from crabjax.config import from_overrides
from crabjax.data.documents import Documents
from crabjax.files import DataError
from crabjax.labelling import Project, ProjectError, answer_log
from crabjax.labelling.answers import Answer
from crabjax.labelling.decisions import decide
from crabjax.labelling.project import ProjectWarning

SMALL = from_overrides(["model.kernels=4", "model.embedding=4", "model.widths=2"])


def entry(identity, labels, line=2):
    return Answer(f"in.csv:{line}", identity, labels)


def by_id(project):
    """What was said about each document that has an answer."""
    answers = {text: answer.labels for text, answer in project.answers().items()}
    return {one: answers[text] for one, text in zip(project.ids, project.texts) if text in answers}


def test_a_project_is_read_back_as_it_was_made(project):
    again = Project.open(project.folder)
    assert again == project
    assert again.ids[:2] == ["d0", "d1"]
    assert again.texts[1] == "words of text 1"
    assert again.label_names == ("a", "b")
    assert again.config == SMALL
    with pytest.raises(ProjectError, match="there is a project already"):
        Project.create(project.folder, project.folder.parent / "pool.csv", ["a"], SMALL)


def test_texts_without_ids_are_numbered(tmp_path):
    lines = '{"doc_token": ["one", "two"]}\n{"doc_token": ["three"]}\n'
    (tmp_path / "pool.jsonl").write_text(lines)
    project = Project.create(tmp_path / "p", tmp_path / "pool.jsonl", ["a"], SMALL)
    assert (project.ids, project.texts) == (["1", "2"], ["one two", "three"])


@pytest.mark.parametrize("names", [["a;b"], ["-"], [" a"], ["a", "a"], [""], ["skipped"]])
def test_labels_that_files_could_not_carry_are_refused(tmp_path, names):
    (tmp_path / "pool.csv").write_text("text\nx\n")
    with pytest.raises(ValueError, match="label"):
        Project.create(tmp_path / "p", tmp_path / "pool.csv", names, SMALL)


def test_a_folder_without_project_is_named(tmp_path):
    with pytest.raises(ProjectError, match="no labelling project here"):
        Project.open(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        Project.create(tmp_path / "p", tmp_path / "absent.csv", ["a"], SMALL)
    with pytest.raises(ProjectError):  # a failed init leaves no project behind
        Project.open(tmp_path / "p")


def test_answers_are_kept_and_counted(project):
    added = project.add([entry("d1", ["a"]), entry("d2", "skipped"), entry("d3", None)])
    assert added._asdict() == {
        "labelled": 1, "skipped": 1, "withdrawn": 0, "blank": 1, "kept": 0, "known": 0,
        "replaced": 0,
    }  # fmt: skip
    assert by_id(project) == {"d1": ["a"], "d2": "skipped"}
    assert project.add([entry("d1", ["a"])]).known == 1


def test_the_labels_file_only_grows(project):
    path = project.folder / "labels.jsonl"
    contents = [path.read_text()]
    project.add([entry("d1", ["a"])])
    contents.append(path.read_text())
    project.add([entry("d1", ["b"]), entry("d4", [])], replace=True)
    contents.append(path.read_text())
    assert contents[2].startswith(contents[1])
    assert contents[1].startswith(contents[0])
    assert len(contents[2].splitlines()) == 3
    assert by_id(project) == {"d1": ["b"], "d4": []}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (entry("d99", ["a"]), r'in\.csv:2: unknown id "d99"'),
        (entry("d5", ["aa"]), r'in\.csv:2: unknown label "aa"; did you mean "a"'),
        (entry("d1", ["b"]), r'in\.csv:2: id "d1" was answered "a" before, now "b"; --replace'),
        (entry("d0", ["b"]), r'in\.csv:2: id "d0" twice, first at in\.csv:1'),
        (entry("d0", ["a"]), r'in\.csv:2: id "d0" twice, with other labels, first at in\.csv:1'),
    ],
)
def test_one_wrong_row_and_nothing_is_added(project, bad, message):
    project.add([entry("d1", ["a"])])
    before = (project.folder / "labels.jsonl").read_bytes()
    with pytest.raises(ProjectError, match=message) as caught:
        project.add([entry("d0", ["b"], line=1), bad])
    assert "nothing was added" in str(caught.value)
    assert (project.folder / "labels.jsonl").read_bytes() == before


def test_all_wrong_rows_are_listed_up_to_ten(project):
    with pytest.raises(ProjectError) as caught:
        project.add([entry(f"x{number}", ["a"], number) for number in range(15)])
    lines = str(caught.value).splitlines()
    assert len(lines) == 12
    assert lines[-2:] == ["... and 5 more", "nothing was added"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "d2", "la', "JSON|delimiter|Unterminated"),
        ('{"id": "d2"}', 'expected an object with "id" and "labels"'),
        ("[]", 'expected an object with "id" and "labels"'),
        ('{"id": "d99", "labels": []}', "unknown id 'd99'"),
        ('{"id": null, "labels": []}', "unknown id None"),
        ('{"id": ["d2"], "labels": []}', "unknown id"),
        ('{"id": "d2", "labels": null}', 'expected "labels" to be a list or "skipped", found None'),
        ('{"id": "d2", "labels": ["c"]}', 'unknown label "c"'),
        ('{"id": "d2", "labels": [null]}', 'unknown label "None"'),
    ],
)
def test_a_damaged_labels_file_is_named_not_ignored(project, line, message):
    path = project.folder / "labels.jsonl"
    path.write_text('{"id": "d1", "labels": ["a"]}\n' + line)
    with pytest.raises(
        ProjectError, match=rf"labels\.jsonl:2: not an answer: .*({message})"
    ) as caught:
        project.answers()
    assert "put a copy of the file back" in str(caught.value)
    with pytest.raises(ProjectError, match=r"labels\.jsonl:2"):
        project.add([entry("d5", ["a"])])


def test_answers_without_their_project_are_not_written_over(project):
    project.add([entry("d1", ["a"])])
    (project.folder / "project.json").unlink()
    before = (project.folder / "labels.jsonl").read_bytes()
    with pytest.raises(ProjectError, match=r"labels\.jsonl: holds answers of a project"):
        Project.create(project.folder, project.folder.parent / "pool.csv", ["a", "b"], SMALL)
    assert (project.folder / "labels.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"format": 1}', '{"format": 1, "labels": 3}', '{"format": 1, "labels": []}'],
)
def test_a_damaged_project_file_is_named_with_what_to_do(project, content):
    (project.folder / "project.json").write_text(content)
    with pytest.raises(ProjectError, match=r"project\.json: damaged .*; put a copy back, or write"):
        Project.open(project.folder)


def test_a_project_of_another_format_is_refused(project):
    (project.folder / "project.json").write_text('{"format": 2, "labels": ["a"]}')
    with pytest.raises(ProjectError, match="expected format 1, found 2"):
        Project.open(project.folder)


KILLED_AT_EVERY_LINE = """
import json, os, signal, sys
from pathlib import Path
from crabjax.labelling import Project
from crabjax.labelling.answers import Answer

def kill_after(lines):
    def trace(frame, event, _):
        nonlocal lines
        if not frame.f_code.co_filename.endswith(("project.py", "write.py")):
            return None
        lines -= event == "line"
        if lines < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)

project = Project.open(Path(sys.argv[1]))
for lines in range(1000):
    child = os.fork()
    if child == 0:
        kill_after(lines)
        project.add([Answer("test", one, ["b"]) for one in ("d1", "d2")])
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = {text: answer.labels for text, answer in project.answers().items()}
    answers = [said.get(f"words of text {n}") for n in range(3)]
    print(json.dumps([code, answers]))
    if code == 0:
        break
"""

ADD_TWENTY = """
import sys
from pathlib import Path
from crabjax.labelling import Project
from crabjax.labelling.answers import Answer
project = Project.open(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    project.add([Answer("test", f"d{int(sys.argv[2]) + number}", ["a"])])
"""


def test_a_kill_at_any_line_loses_no_answer_and_leaves_no_half_batch(project):
    project.add([entry("d0", ["a"])])
    command = [sys.executable, "-W", "ignore", "-c", KILLED_AT_EVERY_LINE, str(project.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [code for code, _ in outcomes[:-1]] == [-signal.SIGKILL] * (len(outcomes) - 1)
    assert outcomes[-1][0] == 0
    assert len(outcomes) > 20
    before, after = [["a"], None, None], [["a"], ["b"], ["b"]]
    seen = [answers for _, answers in outcomes]
    changed = seen.index(after)
    assert seen == [before] * changed + [after] * (len(seen) - changed)


def test_two_writers_at_once_lose_nothing(project):
    command = [sys.executable, "-c", ADD_TWENTY, str(project.folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([*command, str(first)], **pipes) for first in (0, 20)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:  # all start at the same moment, and not before
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    assert len(project.answers()) == 40


def test_the_learner_gets_all_answers_in_order(project):
    project.add([entry("d3", ["a"]), entry("d1", "skipped"), entry("d2", [])])
    learner = project.learner()
    assert learner.labelled == 2
    suggestion = learner.ask(project.texts, 40)
    assert set(range(40)) - set(suggestion.indices.tolist()) == {1, 2, 3}


def test_the_learner_knows_which_answers_came_before_it_could_choose(project, monkeypatch):
    """All that were added together are, while fewer than ten had labels, whatever came later."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def added(minute, answers, **how):
        clock = SimpleNamespace(now=lambda _: noon + timedelta(minutes=minute))
        monkeypatch.setattr(answer_log, "datetime", clock)
        project.add(answers, **how)
        known = project.learner()._known
        return [known.documents[row] for row in known.unchosen_rows()]

    text = dict(zip(project.ids, project.texts))
    wanted = lambda *places: [text[f"d{place}"] for place in places]
    assert added(0, [entry(f"d{n}", []) for n in range(9)]) == wanted(*range(9))
    assert added(1, [entry("d9", [])]) == wanted(*range(10))  # ten, but none has a label
    assert added(2, [entry(f"d{n}", ["a"]) for n in range(10, 15)]) == wanted(*range(15))
    assert added(2, [entry("d15", ["a"])]) == wanted(*range(16))  # at the same time
    assert added(3, [entry("d20", ["a"])]) == wanted(*range(16))
    assert added(4, [entry("d0", ["a"])], replace=True) == wanted(*range(1, 16), 0)
    gone = [entry(f"d{n}", "withdrawn") for n in range(2, 14)]
    assert added(5, gone, replace=True) == wanted(1, 14, 15, 0)
    assert added(6, [entry("d30", ["b"])]) == wanted(1, 14, 15, 0)


def restored(project):
    learner = project.learner()
    project.restore(learner)
    return learner


def test_a_kept_learner_is_used_only_for_the_same_answers(project):
    assert restored(project)._params is None  # nothing is kept yet, and nothing said about it
    project.add([entry("d3", ["a"])])
    learner = project.learner()
    learner._params = {"mark": np.zeros(1, np.float32)}
    project.keep(learner)
    assert restored(project)._params is not None
    project.add([entry("d4", ["b"])])
    assert restored(project)._params is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"^.*$", "damaged", "no saved learner here"),
        (r'"format": 1', '"format": 0', "expected a learner of format 1"),
        (r'"version": "[^"]*"', '"version": "0.0.1"', r"of crabjax 0\.0\.1, this is"),
        (r'"params": null, ', "", '"params" or "version" is missing'),
    ],
)
def test_a_stale_model_is_trained_again_in_one_line(project, old, new, message):
    project.add([entry("d3", ["a"])])
    project.keep(project.learner())
    path = project.folder / "model" / "learner.json"
    unsealed = re.sub(r', "sum": "[0-9a-f]+"', "", path.read_text())
    path.write_text(re.sub(old, new, unsealed))
    with pytest.warns(ProjectWarning, match=message) as caught:
        assert restored(project).labelled == 1
    assert str(caught[0].message).endswith("the model is trained again")
    assert "\n" not in str(caught[0].message)


def test_a_model_that_cannot_be_kept_stops_nobody(project):
    (project.folder / "model").write_text("a file where a folder should be")
    with pytest.warns(ProjectWarning, match="could not be kept"):
        project.keep(project.learner())
    with pytest.warns(ProjectWarning, match="trained again"):
        assert restored(project).labelled == 0


def test_people_have_the_last_word(project):
    project.add([entry("d0", ["b"]), entry("d1", "skipped"), entry("d2", [])])
    labels, sources = zip(*decide(project, np.tile([True, False], (40, 1))))
    assert labels[:4] == (["b"], ["a"], [], ["a"])
    assert sources[:4] == ("person", "model", "person", "model")


def test_texts_of_many_answers_are_read_in_one_pass(project, monkeypatch):
    passes, real, ids = [], Documents.records, list(project.ids)
    monkeypatch.setattr(Documents, "records", lambda *given: passes.append(1) or real(*given))
    project.add([Answer("x", own, []) for own in ids[:2]])
    project.add([Answer("x", own, []) for own in reversed(ids)])
    assert len(passes) <= 4  # those asked about, and those answered before
    assert len(project.answers()) == len(set(project.texts))
