"""Answers that a strategy may have asked for say nothing of how many labels there are."""

import numpy as np
import pytest

from crabjax.config import from_overrides
from crabjax.labelling.learner import Learner
from crabjax.thresholds import Unchosen, mean_threshold

CONFIG = from_overrides(["model.name=frozen", "ensemble.members=2", "ensemble.epochs=2"])
VECTORS = np.random.default_rng(0).normal(size=(250, 3)).astype(np.float32)
LABELS = VECTORS[:, :2] > 0.3
NAMES = np.array(["a", "b"])


def told(*parts):
    """One that was told a part after another."""
    learner = Learner(CONFIG, NAMES.tolist())
    learner.see(VECTORS)
    for first, last in parts:
        learner.tell(VECTORS[first:last], [NAMES[row].tolist() for row in LABELS[first:last]])
    return learner


def test_the_first_answers_say_how_many_labels_there_are():
    """Those of a cold start, whole as they came; skipped ones say nothing."""
    learner = told((0, 3), (3, 13), (13, 50)).tell(VECTORS[1:2], ["skipped"])
    unchosen = [0, *range(2, 13)]
    assert sorted(learner._known.unchosen_rows().tolist()) == unchosen
    probabilities = learner.predict_proba(VECTORS[50:])
    known = Unchosen(LABELS[unchosen], 49)
    wanted = mean_threshold(probabilities, np.arange(200), known=known)
    assert learner.threshold() == pytest.approx(wanted, abs=1e-6)
    assert abs(wanted - mean_threshold(probabilities, np.arange(200))) > 1e-3


def test_who_could_choose_once_is_not_taken_for_one_who_could_not():
    learner = told((0, 13)).tell(VECTORS[:9], ["skipped"] * 9)  # four are left
    learner.tell(VECTORS[60:61], [["a"]])
    assert learner._known.unchosen_rows().tolist() == [9, 10, 11, 12]
    learner.fit(VECTORS[:20], LABELS[:20])  # starts again
    assert len(learner._known.unchosen_rows()) == 20


@pytest.mark.parametrize(("before", "unchosen"), [(3, 20), (12, 12)])
def test_a_saved_learner_goes_on_in_its_cold_start(tmp_path, before, unchosen):
    told((0, before)).save(tmp_path)
    again = Learner.load(tmp_path)
    again.tell(VECTORS[before:20], LABELS[before:20])
    assert len(again._known.unchosen_rows()) == unchosen
