"""A run that reads words, begins from label names and covers its pool first: a tiny encoder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crabjax import inputs as module
from crabjax.config import ConfigError, from_dict
from crabjax.config.build import merge
from crabjax.data.beside import JoinedRows
from crabjax.data.lsa import latent_words
from crabjax.data.names import compare_with_names
from crabjax.devices.processes import DistributedError
from crabjax.experiments import loop
from crabjax.experiments.layout import layout
from crabjax.experiments.problem import prepare
from crabjax.experiments.seen import document_features
from crabjax.experiments.state import first_state
from crabjax.inputs import model_inputs

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
ENCODER, WORDS, LABELS = 32, 6, 3
WIDTH = ENCODER + WORDS


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))
    encoder = shutil.copytree(FIXTURES / "tiny_bert", tmp_path / "encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{n}" for n in range(95))]
    (encoder / "vocab.txt").write_text("\n".join(words))
    generator = np.random.default_rng(0)
    for name, size in {"train": 60, "validation": 20, "test": 10}.items():
        lines = []
        for row in range(size):
            text = " ".join(f"word{n}" for n in generator.integers(0, 95, 5))
            lines.append(json.dumps({"text": text, "labels": [f"word{row % LABELS}"]}))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "validation", "test")}
    return {
        "data": {**files, "max_tokens": 8},
        "model": {"name": "frozen", "pretrained": str(encoder), "hidden": 4, "lsa": WORDS},
        "ensemble": {"members": 2, "epochs": 1, "keep": "best"},
        "strategy": {"name": "random"},
        "loop": {"initial_size": 6, "query_size": 5, "rounds": 2, "seeds": [0, 1]},
    }


def test_similarities_are_those_of_the_training_file(tree):
    named = prepare(from_dict(tree))
    plain = prepare(from_dict(merge(tree, {"model": {"label_names": False}})))
    assert plain.inputs.shape == (80, WIDTH)
    assert named.inputs.shape == (80, WIDTH + LABELS)
    np.testing.assert_array_equal(named.inputs[:, :WIDTH], plain.inputs)
    np.testing.assert_array_equal(named.initial, plain.initial)  # k-means knows no name
    np.testing.assert_allclose(named.inputs[:60, WIDTH:].mean(axis=0), np.zeros(3), atol=1e-4)
    np.testing.assert_allclose(named.inputs[:60, WIDTH:].std(axis=0), np.ones(3), atol=1e-3)
    config = from_dict(merge(tree, {"data": {"label_texts": {"word0": "word5 word6"}}}))
    of_names = np.array([[2, 5 + n, 3] for n in (0, 1, 2)], np.int32)
    similarity = compare_with_names(
        np.array(model_inputs(config, of_names)), plain.inputs[:60, :ENCODER]
    )
    expected = similarity.of(plain.test_inputs[:, :ENCODER])
    np.testing.assert_allclose(named.test_inputs[:, WIDTH:], expected, atol=1e-4)
    told = prepare(config).test_inputs[:, WIDTH:]
    assert np.abs(told[:, 0] - expected[:, 0]).max() > 0.1
    np.testing.assert_allclose(told[:, 1:], expected[:, 1:], atol=1e-4)


def test_words_are_those_of_the_training_file(tree):
    config = from_dict(merge(tree, {"model": {"label_names": False}}))
    problem = prepare(config)
    data = module.load_dataset(config)
    words = latent_words(data.train.tokens, WORDS)
    for inputs, own in ((problem.inputs[:60], data.train), (problem.test_inputs, data.test)):
        expected = np.sqrt(WORDS) * words.of(own.tokens)
        np.testing.assert_allclose(inputs[:, ENCODER:], expected, atol=1e-5)
    without = prepare(from_dict(merge(tree, {"model": {"label_names": False, "lsa": 0}})))
    assert without.inputs.shape == (80, ENCODER)
    assert without.initial.tolist() != problem.initial.tolist()  # k-means knows words


@pytest.mark.parametrize("lsa", [0, WORDS])
def test_what_is_made_when_read_is_told_apart_without_names(tree, monkeypatch, lsa):
    config = from_dict(merge(tree, {"model": {"lsa": lsa}}))
    tokens, labels = module.load_dataset(config).train.tokens, [f"word{n}" for n in range(LABELS)]
    words = module.pool_words(config, tokens)
    assert (words is None) == (lsa == 0)
    at_once, beside = module.first_inputs(config, tokens, labels, words)
    monkeypatch.setattr(module, "_IN_MEMORY", 0)
    when_read, _ = module.first_inputs(config, tokens, labels, words)
    assert isinstance(when_read, JoinedRows)
    expected = at_once[:, : ENCODER + lsa]
    for inputs in (at_once, when_read):
        found = np.asarray(module.without_names(inputs, beside))
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert isinstance(model_inputs(config, tokens), np.ndarray)  # nothing beside: nothing to make


def test_own_vectors_are_read_as_they_are(tree):
    config = from_dict(merge(tree, {"data": {"vectors": "own.npy"}}))
    vectors = np.ones((4, 5), np.float32)
    assert module.pool_words(config, vectors) is None
    inputs, beside = module.first_inputs(config, vectors, ["a", "b"], None)
    assert inputs is vectors
    assert beside == (None, None)


def test_all_processes_take_the_directions_of_the_first(tree, monkeypatch):
    own = prepare(from_dict(tree)).inputs[:, ENCODER:WIDTH]
    of_first = lambda array: (
        array[:, ::-1] if array.dtype == np.float32 and array.ndim == 2 else array
    )
    monkeypatch.setattr("crabjax.experiments.problem.array_of_first", of_first)
    problem = prepare(from_dict(tree))
    np.testing.assert_allclose(problem.inputs[:, ENCODER:WIDTH], own[:, ::-1], atol=1e-5)


def test_processes_agree_on_the_data_before_they_share_directions(tree, monkeypatch):
    """Of other data there may be others in number: sharing them would break off without a word."""
    shared = []
    monkeypatch.setattr("crabjax.experiments.problem.array_of_first", shared.append)

    def disagree(name, digest):
        raise DistributedError(f"{name}: {digest}")

    monkeypatch.setattr("crabjax.experiments.problem.check_agreement", disagree)
    with pytest.raises(DistributedError, match="data: "):
        prepare(from_dict(tree))
    assert not shared


@pytest.mark.slow
def test_many_documents_are_compared_when_they_are_read(tree, tmp_path, monkeypatch):
    """The same picks (products of fewer rows may round otherwise), and no further file."""
    picks = lambda records: [one["selected"] for one in records]
    config = from_dict(merge(tree, {"strategy": {"name": "crab", "candidate_limit": 20}}))
    expected = loop.run(config, tmp_path / "at once")
    files = sorted((tmp_path / "cache").rglob("*"))
    monkeypatch.setattr(module, "_IN_MEMORY", 0)
    assert isinstance(prepare(config).inputs, JoinedRows)
    assert picks(loop.run(config, tmp_path / "when read")) == picks(expected)
    whole = replace(config, strategy=replace(config.strategy, candidate_limit=None))
    monkeypatch.undo()
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))
    expected = loop.run(whole, tmp_path / "all at once")
    monkeypatch.setattr(module, "_IN_MEMORY", 0)
    assert picks(loop.run(whole, tmp_path / "all when read")) == picks(expected)
    assert [one for one in files if one.name == "vectors"] == sorted(
        (tmp_path / "cache").rglob("vectors")
    )


def test_the_layout_and_document_vectors_of_a_run_with_names(tree):
    config = from_dict(tree)
    sizes, problem = layout(config).sizes, prepare(config)
    assert sizes.inputs.shape == problem.inputs.shape
    assert sizes.model is problem.model
    params, _ = loop.fit(config, problem, first_state(problem))
    vectors = document_features(config, problem, params, 0, np.arange(4))
    assert vectors.shape == (4, WIDTH)


def test_a_run_stopped_and_continued_has_the_same_records(tree, tmp_path, monkeypatch):
    config = from_dict(tree)
    timeless = lambda records: [{**one, "seconds": None} for one in records]
    whole = loop.run(config, tmp_path / "whole")
    step = loop.step

    def stopped(config, problem, state, progress):
        if state.round == 1:
            raise KeyboardInterrupt
        return step(config, problem, state, progress)

    monkeypatch.setattr(loop, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        loop.run(config, tmp_path / "part")
    monkeypatch.setattr(loop, "step", step)
    assert timeless(loop.run(config, tmp_path / "part")) == timeless(whole)
    other = merge(tree, {"data": {"label_texts": {"word0": "word9"}}})
    with pytest.raises(ConfigError, match=r"label_texts\.word0: None there, word9 asked for"):
        loop.run(from_dict(other), tmp_path / "part")
    with pytest.raises(ConfigError, match="first_batch: half_covering there, random asked for"):
        loop.run(from_dict(merge(tree, {"loop": {"first_batch": "random"}})), tmp_path / "part")


def test_words_for_what_is_no_label_are_an_error_of_one_line(tree):
    config = from_dict(merge(tree, {"data": {"label_texts": {"wrd0": "word9"}}}))
    with pytest.raises(
        ConfigError, match=r"^data\.label_texts: 'wrd0' is not a label; .* word0\?$"
    ):
        prepare(config)
