"""A learner whose second members learn from what the first are sure of."""

import jax
import numpy as np
import pytest
from scipy.special import expit

from crabjax.config import from_dict
from crabjax.config.build import merge
from crabjax.ensemble import predict_logits
from crabjax.labelling import trained
from crabjax.labelling.learner import Learner
from crabjax.thresholds import expected_f1_threshold

MEMBERS, NAMES = 2, ["a", "b", "c"]
TREE = {
    "model": {"name": "frozen", "hidden": 4},
    "devices": {"cache": False},
    "ensemble": {"members": MEMBERS, "epochs": 10, "batch_size": 10, "guesses": 15},
}
GENERATOR = np.random.default_rng(0)
LABELS = GENERATOR.random((160, 3)) < 0.4
VECTORS = GENERATOR.normal(size=(160, 5)) + LABELS @ GENERATOR.normal(size=(3, 5))
VECTORS = VECTORS.astype(np.float32)


def learner(labelled=20, seen=160, guesses=15):
    new = Learner(from_dict(merge(TREE, {"ensemble": {"guesses": guesses}})), NAMES)
    new.tell(VECTORS[:labelled], LABELS[:labelled])
    new.see(VECTORS[:seen])
    return new


def members(of):
    return len(jax.tree.leaves(of._ensemble())[0])


def test_it_asks_as_one_without_guesses_and_all_members_decide():
    with_them, without = learner(), learner(guesses=0)
    asked, plain = with_them.ask(VECTORS, 7), without.ask(VECTORS, 7)
    np.testing.assert_array_equal(asked.indices, plain.indices)
    np.testing.assert_allclose(asked.scores, plain.scores, rtol=1e-3)
    assert (members(with_them), members(without)) == (2 * MEMBERS, MEMBERS)
    given = with_them._documents(), with_them._ensemble()
    logits = predict_logits(given[0].model, given[1], VECTORS, 256)
    mean = expit(logits).mean(axis=0)
    np.testing.assert_allclose(with_them.predict_proba(VECTORS), mean, atol=1e-6)
    np.testing.assert_allclose(asked.probabilities, mean[asked.indices], atol=1e-6)
    np.testing.assert_allclose(with_them.predict_all(), mean, atol=1e-6)
    open_ones = expected_f1_threshold(mean[20:]).value
    assert with_them.threshold() == pytest.approx(open_ones, abs=1e-6)
    first = expit(logits[:MEMBERS]).mean(axis=0)
    np.testing.assert_allclose(without.predict_proba(VECTORS), first, atol=1e-5)
    assert np.abs(mean - first).max() > 1e-3


def test_guesses_are_of_documents_without_an_answer(monkeypatch):
    drawn = []

    def noted(model, params, inputs, unlabelled, wanted, generator, batch_size):
        drawn.append((np.array(unlabelled[np.arange(len(unlabelled))]), wanted))
        assert len(jax.tree.leaves(params)[0]) == MEMBERS
        return guess_some(model, params, inputs, unlabelled, wanted, generator, batch_size)

    guess_some = trained.guess_some
    monkeypatch.setattr(trained, "guess_some", noted)
    new = learner(labelled=12, seen=40)
    new.tell(VECTORS[30:32], ["skipped", "skipped"]).train()
    rows, wanted = drawn.pop()
    assert rows.tolist() == [n for n in range(12, 40) if n not in (30, 31)]
    assert wanted == 12  # no more than there are answers
    assert members(new) == 2 * MEMBERS
    learner(labelled=30, seen=40).train()
    assert drawn.pop()[1] == 5  # half of what is open


def test_second_members_have_keys_of_their_own(monkeypatch):
    used, fit = [], trained.fit_ensemble

    def noted(model, config, keys, *rest, **devices):
        used.extend(jax.random.key_data(keys.train).tolist())
        return fit(model, config, keys, *rest, **devices)

    monkeypatch.setattr(trained, "fit_ensemble", noted)
    learner().train()
    assert len({tuple(key) for key in used}) == len(used) == 2 * MEMBERS


@pytest.mark.parametrize(("labelled", "seen"), [(20, 20), (20, 21), (9, 160)])
def test_nothing_to_guess_or_to_guess_by(labelled, seen):
    new = learner(labelled, seen)
    assert members(new) == MEMBERS
    assert new.predict_proba(VECTORS[:3]).shape == (3, 3)


def test_all_members_are_saved(tmp_path):
    known = learner()
    expected, threshold = known.predict_proba(VECTORS[:9]), known.threshold()
    known.save(tmp_path)
    for again in (Learner.load(tmp_path), learner()):
        again.restore(tmp_path)
        assert len(jax.tree.leaves(again._params)[0]) == 2 * MEMBERS
        np.testing.assert_allclose(again.predict_proba(VECTORS[:9]), expected, atol=1e-6)
        assert again.threshold() == pytest.approx(threshold)
