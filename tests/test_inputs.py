"""Where data and models meet: what is kept of an encoder is kept by its weights."""

import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from crabjax.config import from_dict
from crabjax.inputs import model_inputs

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
