"""Reading encoder files: every mistake is named, nothing is lost on the way."""

import json
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from crabjax.models.pretrained import (
    Pooling,
    PretrainedError,
    load_parameters,
    read_architecture,
    read_pooling,
)
from crabjax.models.transformer import parameter_shapes

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
FAMILIES = ("distilbert", "bert")
LABELS = 5


@pytest.fixture
def folder(tmp_path):
    """A copy of the tiny DistilBERT, to damage."""
    return shutil.copytree(FIXTURES / "tiny_distilbert", tmp_path / "encoder")


def load(folder, labels: int | None = LABELS):
    architecture = read_architecture(folder)
    return load_parameters(folder, architecture.family, parameter_shapes(architecture, labels))


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors")


def change_settings(folder, **settings):
    path = folder / "config.json"
    merged = json.loads(path.read_text()) | settings
    path.write_text(json.dumps({key: value for key, value in merged.items() if value is not None}))


@pytest.mark.parametrize("family", FAMILIES)
def test_architecture_is_read_from_the_settings(family):
    found = read_architecture(FIXTURES / f"tiny_{family}")
    assert (found.family, found.vocabulary, found.positions) == (family, 100, 40)
    assert (found.width, found.inner, found.heads, found.layers) == (32, 64, 4, 2)
    assert found.token_types == {"distilbert": 0, "bert": 2}[family]
    assert (found.epsilon, found.dropout, found.head_dropout) == (1e-12, 0.1, 0.2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "roberta"}, "model_type: expected distilbert or bert, found 'roberta'"),
        ({"activation": "relu"}, "activation: expected 'gelu', found 'relu'"),
        ({"pad_token_id": 1}, "pad_token_id: expected 0, found 1"),
        ({"n_layers": None}, "n_layers: missing"),
        ({"n_heads": 5}, "divisible by the 5 attention heads, found 32"),
    ],
)
def test_settings_that_cannot_be_built_are_named(folder, settings, message):
    change_settings(folder, **settings)
    with pytest.raises(PretrainedError, match=message):
        read_architecture(folder)


def test_every_misfit_is_named_at_once(folder):
    def change(weights):
        del weights["distilbert.transformer.layer.1.ffn.lin1.bias"]
        weights["distilbert.transformer.layer.2.ffn.lin1.bias"] = np.zeros(64, np.float32)
        weights["classifier.weight"] = np.zeros((7, 32), np.float32)
        return weights

    change_weights(folder, change)
    with pytest.raises(PretrainedError) as error:
        load(folder)
    message = str(error.value)
    assert "model.safetensors: missing transformer.layer.1.ffn.lin1.bias" in message
    assert "left over transformer.layer.2.ffn.lin1.bias" in message
    assert "classifier.weight: expected shape [5, 32], found [7, 32]" in message
    assert message.count(";") == 2


def test_half_a_head_is_an_error(folder):
    change_weights(folder, lambda w: {k: v for k, v in w.items() if "pre_classifier" not in k})
    with pytest.raises(PretrainedError, match=r"missing pre_classifier\.bias"):
        load(folder)


def test_no_weights_file_is_an_error(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(PretrainedError, match="safetensors only"):
        load(folder)


def test_names_of_other_tasks_and_old_norm_names_are_understood(folder):
    expected = load(folder)["encoder"]

    def change(weights):
        kept = {k: v for k, v in weights.items() if not k.startswith(("pre_", "classifier"))}
        old = {}
        for name, value in kept.items():
            if "LayerNorm" in name:
                name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
            old[name.removeprefix("distilbert.")] = value
        for extra in ("embeddings.position_ids", "vocab_transform.weight", "vocab_projector.bias"):
            old[extra] = np.zeros(3, np.float32)
        return old

    change_weights(folder, change)
    found = load(folder)
    assert set(found) == {"encoder"}  # no head in the file: the model draws one
    np.testing.assert_array_equal(
        found["encoder"]["embeddings"]["norm"]["bias"], expected["embeddings"]["norm"]["bias"]
    )


def test_an_encoder_alone_ignores_the_head_in_the_file(folder):
    assert set(load(folder, labels=None)) == {"encoder"}


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_half_precision_files_load_as_float32(folder, dtype):
    expected = load(folder)["head"]["dense"]["kernel"]
    change_weights(folder, lambda w: {k: v.astype(dtype) for k, v in w.items()})
    found = load(folder)["head"]["dense"]["kernel"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (None, Pooling(mean=False, normalise=False)),
        (["pooling_mode_mean_tokens"], Pooling(mean=True, normalise=True)),
        (["pooling_mode_cls_token"], Pooling(mean=False, normalise=True)),
    ],
)
def test_pooling_follows_the_files(folder, modes, expected):
    if modes is not None:
        (folder / "1_Pooling").mkdir()
        settings = {"pooling_mode_max_tokens": False} | dict.fromkeys(modes, True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    assert read_pooling(folder, "distilbert") == expected


def test_bert_without_pooling_file_is_a_mean():
    assert read_pooling(FIXTURES / "tiny_bert", "bert") == Pooling(mean=True, normalise=True)


def test_other_pooling_is_an_error(folder):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(PretrainedError, match="found pooling_mode_max_tokens"):
        read_pooling(folder, "distilbert")
