"""Folders that an earlier version wrote still open, and say what they said."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from crabjax.config import load_stored
from crabjax.experiments.loop import run
from crabjax.labelling import Project
from crabjax.labelling.answers import Answer
from crabjax.labelling.learner import Learner
from crabjax.report.find import find_runs
from crabjax.report.records import read_records

BEFORE = Path(__file__).parent / "fixtures" / "before_reliability"
WORDS = ("red", "blue", "neither")
TEXTS = [f"{WORDS[n % 3]} word{n % 7} word{n % 11}" for n in range(30)]


@pytest.fixture
def before(tmp_path):
    return Path(shutil.copytree(BEFORE, tmp_path / "before"))


def test_they_are_small():
    assert sum(path.stat().st_size for path in BEFORE.rglob("*")) < 100_000


def test_a_finished_run_is_reported_again(before):
    records = read_records(before / "run" / "records.jsonl")
    assert run(load_stored(before / "run" / "config.yaml"), before / "run") == records
    assert read_records(before / "run" / "records.jsonl") == records
    (runs,) = find_runs([before / "run"]).values()
    assert list(runs) == ["random"]


def test_a_learner_predicts_what_it_predicted(before):
    learner = Learner.load(before / "learner")
    assert learner.labelled == 15
    expected = json.loads((before / "learner_expected.json").read_text())
    found = learner.predict_proba(TEXTS)[: len(expected)]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_project_goes_on(before):
    project = Project.open(before / "project")
    assert project.texts == TEXTS
    learner = project.learner()
    assert learner.labelled == 12
    assert learner.restore(before / "project" / "model")
    project.add([Answer("in.csv:2", "20", ["red"])])
    again = Project.open(before / "project")
    assert len(again.answers()) == 14
    assert [one.labels for one in again.answers().values()][:3] == [["red"], ["blue"], []]
