"""What `status` says, and what it keeps."""

import json

import pytest

from crabjax.cli.main import main
from crabjax.labelling.answers import Answer
from crabjax.labelling.learner import Learner
from crabjax.labelling.learning_curve import LearningCurve
from crabjax.labelling.status import estimate, hint, status_facts, status_text
from crabjax.report.figures import draw_progress


def entry(identity, labels, line=2):
    return Answer(f"in.csv:{line}", identity, labels)


CURVE = LearningCurve([25, 50], [0.5, 0.6], [0.4, 0.5], [0.02, 0.02], [0.7, 0.3], 0.1, 0.02)


@pytest.mark.parametrize(
    ("gain", "error", "expected"),
    [
        (0.1, 0.02, "more labels still help"),
        (0.1, 0.08, "not clear yet"),
        (0.0, 0.005, "stopped helping"),
        (0.0, 0.05, "not clear yet"),
        (-0.01, 0.01, "stopped helping"),
        (float("nan"), float("nan"), "too few labels to tell"),
    ],
)
def test_the_hint_follows_the_last_doubling(gain, error, expected):
    assert expected in hint(CURVE._replace(gain=gain, gain_error=error))


def test_status_counts_without_labels_enough_for_scores(project):
    project.add([entry("d0", ["b"]), entry("d1", "skipped"), entry("d2", ["a", "b"])])
    text = status_text(project, estimate(project))
    assert "40 documents, 2 labelled (5%), 1 skipped, 37 without an answer" in text
    assert ["b", "2"] in [line.split() for line in text.splitlines()]
    assert "too few labels to estimate" in text


def test_status_uses_the_kept_estimate_only_for_the_same_answers(project):
    project.add([entry("d0", ["b"])])
    kept = {"answers": project.learner().fingerprint(), "curve": CURVE._asdict()}
    (project.folder / "estimate.json").write_text(json.dumps(kept))
    text = status_text(project, estimate(project))
    assert "0.600 ±0.020" in text
    assert "more labels still help" in text
    assert (project.folder / "progress.png").stat().st_size > 10_000
    project.add([entry("d1", ["b"])])
    assert "too few labels to estimate" in status_text(project, estimate(project))


def test_status_is_valid_json_where_the_curve_has_one_point(project):
    nan = float("nan")
    one = CURVE._replace(labelled=[3], gain=nan, gain_error=nan)
    found = json.loads(json.dumps(status_facts(project, one), allow_nan=False))
    assert (found["curve"]["gain"], found["curve"]["gain_error"]) == (None, None)
    assert found["curve"]["labelled"] == [3]
    assert status_facts(project, None)["curve"] is None


def test_status_estimates_once_where_nothing_can_be_kept(project, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(Learner, "learning_curve", lambda self: calls.append(self) or CURVE)
    (project.folder / "estimate.json").mkdir()  # which no file can replace
    assert main(["status", "--project", str(project.folder)]) == 0
    assert "0.600 ±0.020" in capsys.readouterr().out
    assert len(calls) == 1


def test_a_picture_of_many_long_labels(tmp_path):
    counts = {f"a rather long name of a label, number {number}": number for number in range(60)}
    draw_progress(CURVE, counts, tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 10_000
