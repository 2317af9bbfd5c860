"""Learners on disk: of earlier versions, after a failed save, damaged."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from crabjax.config import Config, from_overrides
from crabjax.data.lsa import LatentWords
from crabjax.labelling import learner, saved_learner
from crabjax.labelling.learner import Learner
from crabjax.labelling.saved_learner import (
    SavedLearner,
    SavedLearnerError,
    read_saved,
    write_saved,
)


def test_layers_that_were_saved_one_by_one_are_read_side_by_side(tmp_path):
    layers = {str(layer): {"bias": np.full((3, 2), layer, np.float32)} for layer in range(11)}
    embeddings = np.ones((3, 5, 2), np.float32)
    old = {"encoder": {"layers": layers, "words": embeddings}, "head": {"bias": np.zeros((3, 4))}}
    write_saved(tmp_path, SavedLearner({"texts": []}, old))
    found = read_saved(tmp_path).params
    assert found is not None
    bias = found["encoder"]["layers"]["bias"]  # [M, layers, ...]
    assert bias.shape == (3, 11, 2)
    np.testing.assert_array_equal(bias[0, :, 0], np.arange(11))
    np.testing.assert_array_equal(found["encoder"]["words"], embeddings)
    write_saved(tmp_path, SavedLearner({"texts": []}, found))
    again = read_saved(tmp_path).params
    assert again is not None
    np.testing.assert_array_equal(again["encoder"]["layers"]["bias"], bias)


def weights(folder):
    params = read_saved(folder).params
    assert params is not None
    return params["w"].tolist()


def test_a_save_that_fails_leaves_the_one_before(tmp_path, monkeypatch):
    write_saved(tmp_path, SavedLearner({"texts": ["a"]}, {"w": np.ones(2, np.float32)}))

    def disk_full(path, text):
        raise OSError(28, "No space left on device", str(path))

    later = SavedLearner({"texts": ["a", "b"]}, {"w": np.zeros(2, np.float32)})
    with monkeypatch.context() as patch:
        patch.setattr(saved_learner, "write_text", disk_full)
        with pytest.raises(OSError, match="No space left"):
            write_saved(tmp_path, later)
    assert read_saved(tmp_path).state == {"texts": ["a"]}
    assert weights(tmp_path) == [1, 1]
    write_saved(tmp_path, later)
    assert weights(tmp_path) == [0, 0]
    assert len(list(tmp_path.iterdir())) == 2  # what neither needs is gone
    write_saved(tmp_path, SavedLearner({"texts": []}, None))
    assert [path.name for path in tmp_path.iterdir()] == ["learner.json"]


def test_a_save_replaces_the_parameters_of_an_earlier_version(tmp_path):
    write_saved(tmp_path, SavedLearner({"texts": []}, {"w": np.ones(2, np.float32)}))
    (params,) = tmp_path.glob("params-*.safetensors")
    params.rename(tmp_path / "params.safetensors")
    assert weights(tmp_path) == [1, 1]
    write_saved(tmp_path, SavedLearner({"texts": []}, {"w": np.zeros(2, np.float32)}))
    assert weights(tmp_path) == [0, 0]
    assert not (tmp_path / "params.safetensors").exists()


def damage(state, what):
    """A saved state with one thing wrong."""
    changed = {
        "no texts": {"texts": None},
        "texts twice": {"texts": ["x"] * len(state["texts"])},
        "no names": {"label_names": None},
        "other names": {"label_names": ["sport"]},
        "other config": {"config": {"no such": {}}},
        "no config": {"config": None},
        "odd answers": {"answers": [1, 2]},
        "answers about nothing": {"answers": [[10_000, []]]},
        "unchosen rows that are none": {"unchosen": [0.0]},
        "unchosen rows of nothing": {"unchosen": [10_000]},
    }
    return state | changed[what]


@pytest.mark.parametrize(
    "what",
    [
        "no texts",
        "texts twice",
        "no names",
        "other names",
        "other config",
        "no config",
        "odd answers",
        "answers about nothing",
        "unchosen rows that are none",
        "unchosen rows of nothing",
    ],
)
def test_folders_of_other_forms_are_named_errors(tmp_path, what):
    names = ("sport", "money", "science")
    Learner(Config(), names).tell(["a", "b"], [["money"], []]).save(tmp_path)
    path = tmp_path / "learner.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(damage(stored, what)))
    with pytest.raises(SavedLearnerError, match="damaged: the content is not what was written"):
        Learner.load(tmp_path)
    del stored["sum"]  # as earlier versions wrote it
    path.write_text(json.dumps(damage(stored, what)))
    with pytest.raises(SavedLearnerError, match="damaged, or of another version"):
        Learner.load(tmp_path)


def test_a_threshold_is_kept_with_the_parameters(tmp_path, monkeypatch):
    config = from_overrides(["model.name=frozen", "ensemble.members=2", "ensemble.epochs=2"])
    vectors = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    answers = [["a"], ["b"]] * 10
    told = Learner(config, ["a", "b"]).tell(vectors, answers)
    monkeypatch.setattr(Learner, "_pool", None)  # there is no open text to predict
    threshold = told.threshold()
    told.train().save(tmp_path / "documents")
    told.save(tmp_path / "none", documents=False)
    monkeypatch.setattr(learner, "out_of_fold", None)  # nothing is trained again
    assert Learner.load(tmp_path / "documents").threshold() == threshold
    other = Learner(config, ["a", "b"]).tell(vectors, answers)
    assert other.restore(tmp_path / "none")
    assert other.threshold() == threshold
    Learner(config, ["a", "b"]).tell(vectors, answers).save(tmp_path / "untrained")
    assert not other.restore(tmp_path / "untrained")  # what is known already is kept
    assert other.threshold() == threshold
    parts = Learner(config, ["a", "b"]).tell(vectors[:10], answers[:10])
    parts.tell(vectors[10:], answers[10:])  # a strategy may have chosen these
    assert parts.restore(tmp_path / "none")
    assert not parts.knows_threshold
    parts.save(tmp_path / "parts")
    assert len(Learner.load(tmp_path / "parts")._known.unchosen_rows()) == 10


def test_words_are_read_back_whole_or_not_at_all(tmp_path):
    words = LatentWords(np.ones(3, np.float32), np.zeros((3, 2), np.float32))
    params = {"w": np.ones(2, np.float32)}
    write_saved(tmp_path, SavedLearner({"texts": []}, params, words=words))
    found = read_saved(tmp_path)
    assert found.words is not None
    assert found.params is not None
    assert found.params.keys() == {"w"}
    np.testing.assert_array_equal(found.words.weights, words.weights)
    np.testing.assert_array_equal(found.words.directions, words.directions)
    for missing in words._fields:
        half: Any = SimpleNamespace(_asdict=lambda left=missing: {left: words.weights})
        write_saved(tmp_path, SavedLearner({"texts": []}, params, words=half))
        with pytest.raises(SavedLearnerError, match=f"damaged: found :lsa/{missing} alone"):
            read_saved(tmp_path)
