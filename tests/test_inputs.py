"""Where data and models meet: what is kept of an encoder is kept by its files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from crabjax import inputs as module
from crabjax.config import from_dict
from crabjax.experiments.problem import prepare
from crabjax.inputs import encode_texts, model_inputs
from crabjax.labelling.learner import Learner
from crabjax.models import embed

ENCODER = Path(__file__).parent / "fixtures" / "tiny_bert"


def test_other_weights_in_the_same_folder_give_other_vectors(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "encoder"
    shutil.copytree(ENCODER, folder)
    config = from_dict({"model": {"name": "frozen", "pretrained": str(folder)}})
    tokens = np.random.default_rng(0).integers(1, 50, (6, 8)).astype(np.int32)
    first = np.array(model_inputs(config, tokens))
    np.testing.assert_array_equal(model_inputs(config, tokens), first)
    weights = folder / "model.safetensors"
    save_file({name: 2 * array for name, array in load_file(weights).items()}, weights)
    assert not np.allclose(model_inputs(config, tokens), first)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{n}" for n in range(40))]
TEXTS = [f"word{n} word{2 * n}" for n in range(12)]


@pytest.fixture
def encoder(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_IN_MEMORY", 0)
    folder = shutil.copytree(ENCODER, tmp_path / "encoder")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder


def frozen(folder):
    model = {"name": "frozen", "pretrained": str(folder), "label_names": False, "hidden": 4}
    return from_dict({"data": {"max_tokens": 8}, "model": model})


def other_pooling(folder):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')


def other_words(folder):
    (folder / "vocab.txt").write_text("\n".join([*WORDS[:5], *reversed(WORDS[5:])]))


CHANGES = pytest.mark.parametrize("change", [other_pooling, other_words])


@CHANGES
def test_other_files_of_an_encoder_give_other_vectors(encoder, change):
    vectors = lambda: np.array(encode_texts(frozen(encoder), TEXTS, ["a"], lambda: "same").inputs)
    first = vectors()
    np.testing.assert_array_equal(vectors(), first)
    change(encoder)
    changed = vectors()
    assert not np.allclose(changed, first)
    fresh = encode_texts(frozen(encoder), TEXTS, ["a"]).inputs
    np.testing.assert_allclose(changed, fresh, atol=1e-5)


def test_another_window_does_not_go_on_with_vectors_of_the_last(encoder, monkeypatch):
    tokens = np.random.default_rng(0).integers(1, 50, (40, 8)).astype(np.int32)
    for row, length in enumerate(np.random.default_rng(1).integers(1, 8, 40)):
        tokens[row, length:] = 0
    expected = np.array(model_inputs(frozen(encoder), tokens))
    shutil.rmtree(encoder.parent / "cache")
    real = embed.encode_documents

    def stopped(*given, **more):
        for done, block in enumerate(real(*given, batch_size=8, **more)):
            if done == 2:
                raise KeyboardInterrupt
            yield block

    monkeypatch.setattr(embed, "WINDOW", 10)
    monkeypatch.setattr(module, "encode_documents", stopped)
    with pytest.raises(KeyboardInterrupt):
        model_inputs(frozen(encoder), tokens)
    monkeypatch.undo()
    monkeypatch.setenv("CRABJAX_CACHE", str(encoder.parent / "cache"))
    np.testing.assert_allclose(model_inputs(frozen(encoder), tokens), expected, atol=1e-5)


@CHANGES
def test_learners_of_another_encoder_are_not_restored(encoder, tmp_path, change):
    labels = [["a"], []] * 6
    learner = Learner(frozen(encoder), ["a"]).tell(TEXTS, labels)
    learner.train().save(tmp_path / "kept")
    assert Learner(frozen(encoder), ["a"]).tell(TEXTS, labels).restore(tmp_path / "kept")
    change(encoder)
    assert not Learner(frozen(encoder), ["a"]).tell(TEXTS, labels).restore(tmp_path / "kept")


@CHANGES
def test_runs_know_their_encoder(encoder, tmp_path, change):
    for name, texts in {"train": TEXTS, "test": ["word30"]}.items():
        lines = [json.dumps({"text": text, "labels": ["a"]}) for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "test")}
    model = {"name": "frozen", "pretrained": str(encoder), "hidden": 4, "label_names": False}
    loop = {"initial_size": 2, "query_size": 2, "rounds": 1}
    config = from_dict({"data": {**files, "max_tokens": 8}, "model": model, "loop": loop})
    before = prepare(config).fingerprint
    assert prepare(config).fingerprint == before
    change(encoder)
    assert prepare(config).fingerprint != before
