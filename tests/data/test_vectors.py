"""Own document vectors: mapped as they are, and what is said of files that cannot be used."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from crabjax.config import from_overrides
from crabjax.data.vectors import open_vectors
from crabjax.experiments.layout import layout
from crabjax.experiments.loop import run
from crabjax.experiments.problem import prepare
from crabjax.files import DataError
from crabjax.inputs import load_dataset

GENERATOR = np.random.default_rng(0)
ARRAY = GENERATOR.normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_a_file_of_vectors_is_mapped(tmp_path, kind):
    path = tmp_path / f"pool.{kind}"
    np.save(path, ARRAY) if kind == "npy" else save_file({"any name": ARRAY}, path)
    found = open_vectors(path, 6, "the train file")
    np.testing.assert_array_equal(found, ARRAY)
    assert not found.flags.writeable
    assert not found.flags.owndata


def spoilt(value):
    array = ARRAY.copy()
    array[4, 1] = value
    return array


WRONG = {
    r"pool.npy: expected 6 rows, one a document of the train file, found 5": ARRAY[:5],
    r"pool.npy: row 4 \(from 0\): expected numbers, found nan": spoilt(np.nan),
    r"pool.npy: row 4 \(from 0\): expected numbers, found -inf": spoilt(-np.inf),
    r"pool.npy: expected one row a document, \[N, D\], found \(6,\)": ARRAY[:, 0],
    r"found \(6, 4, 1\)": ARRAY[..., None],
    r"found \(6, 0\)": ARRAY[:, :0],
    r"pool.npy: expected float32, found float64; convert": ARRAY.astype(float),
    r"expected float32, found int64": np.ones((6, 4), int),
    r"expected float32, found \|?S1|found \|S1": np.full((6, 4), b"x"),
    r"no whole .npy file of numbers": np.array([[None]]),
    r"expected rows one after another, found columns": np.asfortranarray(ARRAY),
}


@pytest.mark.parametrize("said", WRONG)
def test_what_cannot_be_used_is_named(tmp_path, said):
    np.save(tmp_path / "pool.npy", WRONG[said])
    with pytest.raises(DataError, match=said):
        open_vectors(tmp_path / "pool.npy", 6, "the train file")


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "pool.npy"
    np.save(path, ARRAY)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"pool\.npy: no whole \.npy file"):
        open_vectors(path, 6, "x")
    path = tmp_path / "pool.safetensors"
    save_file({"a": ARRAY, "b": ARRAY}, path)
    with pytest.raises(DataError, match=r"pool\.safetensors: expected one array, found 2: a, b"):
        open_vectors(path, 6, "x")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match="not all of the file"):
        open_vectors(path, 6, "x")


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """A run on vectors that say which of two labels a document has; there is no encoder."""
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))
    sizes = {"train": 60, "test": 20, "validation": 10}
    overrides = ["model.name=frozen", "model.pretrained=no/such-encoder", "loop.seeds=0"]
    overrides += ["loop.rounds=1", "loop.initial_size=20", "loop.query_size=5"]
    overrides += ["ensemble.members=2", "ensemble.epochs=40"]
    for split, documents in sizes.items():
        side = GENERATOR.integers(0, 2, documents)
        rows = [{"text": f"{split} {n}", "labels": ["ab"[own]]} for n, own in enumerate(side)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{split}.jsonl").write_text(text)
        vectors = GENERATOR.normal(size=(documents, 5)) + 4 * side[:, None]
        np.save(tmp_path / f"{split}.npy", vectors.astype(np.float32))
        overrides.append(f"data.{split}={tmp_path / f'{split}.jsonl'}")
        name = "vectors" if split == "train" else f"{split}_vectors"
        overrides.append(f"data.{name}={tmp_path / f'{split}.npy'}")
    return overrides


@pytest.mark.parametrize("keep", ["last", "best"])
def test_a_run_on_own_vectors_needs_no_encoder(settings, tmp_path, keep):
    config = from_overrides([*settings, f"ensemble.keep={keep}"])
    problem = prepare(config)
    expected = [np.load(tmp_path / "train.npy")]
    expected += [np.load(tmp_path / "validation.npy")] if keep == "best" else []
    np.testing.assert_array_equal(problem.inputs, np.concatenate(expected))
    records = run(config, tmp_path / "run")
    assert records[-1]["micro_f1"] > 0.85
    assert layout(config).sizes.inputs.shape == problem.inputs.shape


def test_other_vectors_are_other_data(settings, tmp_path):
    config = from_overrides(settings)
    before = prepare(config).fingerprint
    changed = np.load(tmp_path / "test.npy")
    changed[3, 2] += 1
    np.save(tmp_path / "other.npy", changed)
    data = replace(config.data, test_vectors=str(tmp_path / "other.npy"))
    assert prepare(replace(config, data=data)).fingerprint != before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model.name=text_cnn", r"data\.vectors: expected model\.name frozen, found text_cnn"),
        ("data.test_vectors=null", r"data\.test_vectors: expected a file, as data\.vectors has"),
        ("data.validation_vectors=null", r"data\.validation_vectors: expected a file"),
        ("data.vectors=null", r"data\.test_vectors: expected data\.vectors beside it"),
        ("data.vectors=gone.npy", r"data\.vectors: no such file: .*gone\.npy"),
    ],
)
def test_settings_that_do_not_fit_are_named(settings, change, said):
    with pytest.raises(DataError, match=said):
        load_dataset(from_overrides([*settings, change]))


def test_vectors_of_another_length_are_named(settings, tmp_path):
    np.save(tmp_path / "test.npy", np.ones((20, 3), np.float32))
    with pytest.raises(DataError, match=r"test\.npy: expected vectors of 5 numbers, .* found 3"):
        load_dataset(from_overrides(settings))
