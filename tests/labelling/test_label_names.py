"""Label names and words in labelling: what they add, and that nothing else changes with names."""

import dataclasses
import json
import shutil
from pathlib import Path

import jax.monitoring
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from crabjax import inputs
from crabjax.config import ConfigError, from_dict, from_stored, to_dict
from crabjax.data.lsa import latent_words
from crabjax.labelling import learner as module
from crabjax.labelling.learner import Learner
from crabjax.labelling.project import Project

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
NAMES = ("word10", "word20", "word30")
_compiled: list[str] = []


def _count(event: str, duration_secs: float, **kwargs) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        _compiled.append(event)


jax.monitoring.register_event_duration_secs_listener(_count)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A tiny BERT whose document vectors are the means of what its words are."""
    folder = tmp_path_factory.mktemp("names") / "encoder"
    shutil.copytree(FIXTURES / "tiny_bert", folder)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *(f"word{number}" for number in range(95))]
    (folder / "vocab.txt").write_text("\n".join(words))
    pooling = json.dumps({"pooling_mode_mean_tokens": True})
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(pooling)
    weights = folder / "model.safetensors"
    parts = {"word_embeddings": 50, "output.dense": 0}
    scale = lambda name: next((by for part, by in parts.items() if part in name), 1)
    arrays = {name: (scale(name) * own) for name, own in load_file(weights).items()}
    save_file(arrays, weights)
    return str(folder)


def make_config(encoder, **changes):
    tree = {
        "data": {"max_tokens": 16},
        "devices": {"cache": False},
        "model": {"name": "frozen", "pretrained": encoder, "hidden": 8, "lsa": 6},
        "ensemble": {"members": 2, "epochs": 5},
        "strategy": {"name": "random"},
        "loop": {"seeds": [3]},
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        tree[section][name] = value
    return from_dict(tree)


def make_texts(count, seed=0):
    """Texts with the name of each label they have among their words."""
    generator = np.random.default_rng(seed)
    labels = generator.random((count, 3)) < 0.4
    texts = []
    for row in labels:
        own = [name for name, has in zip(NAMES, row) if has for _ in range(3)]
        others = generator.integers(40, 95, 13 - len(own))  # one length, one program
        texts.append(" ".join([*own, *(f"word{number}" for number in others)]))
    return texts, labels


TEXTS, LABELS = make_texts(70)  # more than the 64 that a fit has room for


def answers(count):
    told = [[name for name, has in zip(NAMES, row) if has] for row in LABELS[:count]]
    return told + [None] * (len(TEXTS) - count)


def told(config, names=NAMES, count=14):
    return Learner(config, names).tell(TEXTS, answers(count))


def average_precision(scores, truth):
    ranked = truth[np.argsort(-scores, kind="stable")]
    return (np.cumsum(ranked) / np.arange(1, len(ranked) + 1))[ranked].mean()


def test_a_label_that_was_never_given_is_ranked_by_its_name(encoder):
    """Two answers, neither with the last label: only its name can tell who has it."""
    found = {}
    for name in ("word30", "word41"):
        names = (*NAMES[:2], name)
        learner = Learner(make_config(encoder), names)
        learner.tell(TEXTS, [["word10"], ["word20"]] + [None] * 68)
        found[name] = average_precision(learner.predict_proba(TEXTS)[:, 2], LABELS[:, 2])
    assert found["word30"] > 0.7
    assert found["word41"] < 0.5


def test_words_of_the_user_stand_for_a_code(encoder):
    config = make_config(encoder, data__label_texts={"C3": "word30"})
    learner = Learner(config, (*NAMES[:2], "C3"))
    learner.tell(TEXTS, [["word10"], ["word20"]] + [None] * 68)
    assert average_precision(learner.predict_proba(TEXTS)[:, 2], LABELS[:, 2]) > 0.7
    with pytest.raises(ConfigError, match=r"'C3' is not a label; did you mean C33\?"):
        Learner(config, (*NAMES[:2], "C33"))


def test_new_texts_are_standardised_as_the_known_ones(encoder):
    learner = told(make_config(encoder))
    known = learner._documents()
    new = make_texts(9, seed=5)[0]
    encoded = module.text_inputs(learner.config, known, [*new, TEXTS[3]])
    assert known.beside.names is not None
    np.testing.assert_allclose(encoded[:, 38:], known.beside.names.of(encoded[:, :32]), atol=1e-6)
    np.testing.assert_allclose(encoded[-1], known.inputs[3], atol=1e-5)
    both = learner.predict_proba([*new, *TEXTS])  # a text that is new: all are encoded anew
    np.testing.assert_allclose(both[9:], learner.predict_proba(TEXTS), atol=1e-5)


def test_more_texts_compile_nothing_more(encoder):
    learner = told(make_config(encoder, devices__predict_batch=16))
    learner.predict_proba(TEXTS)
    before = len(_compiled)
    more = make_texts(20, seed=7)[0]
    learner.tell(more, [None] * 20).predict_proba(TEXTS)
    assert len(_compiled) == before


def test_a_cold_start_does_not_cover_names(encoder):
    """Standardised similarities are far longer than vectors: they would decide alone."""
    named, plain = (
        Learner(make_config(encoder, model__label_names=own), NAMES).ask(TEXTS, 6).indices
        for own in (True, False)
    )
    np.testing.assert_array_equal(named, plain)


def test_saved_and_loaded_it_says_the_same(encoder, tmp_path):
    learner = told(make_config(encoder))
    new = make_texts(5, seed=9)[0]
    expected = learner.predict_proba(new)
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path)
    np.testing.assert_allclose(loaded.predict_proba(new), expected, atol=1e-6)
    assert told(make_config(encoder)).restore(tmp_path)
    assert not told(make_config(encoder, data__label_texts={"word10": "word11"})).restore(tmp_path)
    assert not told(make_config(encoder, model__label_names=False)).restore(tmp_path)
    assert not told(make_config(encoder, model__lsa=5)).restore(tmp_path)


def test_loaded_where_directions_turn_it_says_the_same(encoder, tmp_path, monkeypatch):
    """Another machine's decomposition may: parameters are saved with what they read."""
    learner = told(make_config(encoder))
    new = make_texts(5, seed=9)[0]
    expected = learner.predict_proba(new)
    learner.save(tmp_path / "first")
    turned = lambda tokens, width: (words := latent_words(tokens, width))._replace(
        directions=words.directions[:, ::-1]
    )
    monkeypatch.setattr(inputs, "latent_words", turned)
    assert np.abs(told(make_config(encoder)).predict_proba(new) - expected).max() > 1e-3
    loaded = Learner.load(tmp_path / "first")
    loaded.save(tmp_path / "again")
    restored = told(make_config(encoder))
    restored.ask(TEXTS, 2)  # made inputs of its own
    assert restored.restore(tmp_path / "again")
    for one in (loaded, Learner.load(tmp_path / "again"), restored):
        np.testing.assert_allclose(one.predict_proba(new), expected, atol=1e-6)
        np.testing.assert_allclose(
            one.predict_proba(TEXTS), learner.predict_proba(TEXTS), atol=1e-6
        )
    loaded.tell(make_texts(3, seed=11)[0], [None] * 3)  # other texts, other words
    assert loaded._words is None


def test_what_was_saved_before_there_were_names_and_words_goes_on_without(encoder, tmp_path):
    learner = told(make_config(encoder, model__label_names=False, model__lsa=0))
    expected = learner.predict_proba(TEXTS)
    learner.save(tmp_path)
    tree = to_dict(learner.config)
    del tree["model"]["label_names"], tree["data"]["label_texts"], tree["model"]["lsa"]
    assert from_stored(tree, "config") == learner.config
    state = json.loads((tmp_path / "learner.json").read_text())
    state["config"] = tree
    del state["sum"]
    (tmp_path / "learner.json").write_text(json.dumps(state))
    np.testing.assert_allclose(Learner.load(tmp_path).predict_proba(TEXTS), expected, atol=1e-6)


def test_own_vectors_and_more_labels_than_numbers_leave_names_out(encoder):
    config = make_config(encoder)
    vectors = np.random.default_rng(0).normal(size=(70, 8)).astype(np.float32)
    learner = Learner(config, NAMES).tell(vectors, answers(14))
    assert learner._documents().beside == (None, None)
    assert learner._documents().inputs is learner._known.documents
    many = [f"label{number}" for number in range(33)]
    for names, expected in ((many[:32], 70), (many, 38)):
        learner = Learner(config, names).tell(TEXTS, [[names[0]]] * 12 + [None] * 58)
        assert learner._documents().inputs.shape == (70, expected)


def test_all_texts_of_a_project_are_predicted_with_names(encoder, tmp_path):
    path = tmp_path / "texts.jsonl"
    lines = [json.dumps({"id": f"d{row}", "text": text}) for row, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines))
    config = make_config(encoder, data__label_texts={"word10": "word10 word10"})
    project = Project.create(tmp_path / "project", path, NAMES, config)
    assert Project.open(tmp_path / "project").config == config
    learner = project.learner().tell(TEXTS, answers(14))
    assert None not in learner._documents().beside
    streamed = learner.predict_all(tmp_path / "probabilities")
    np.testing.assert_allclose(streamed, learner.predict_proba(TEXTS), atol=1e-6)


def test_classifiers_that_are_not_frozen_ignore_names_and_words(encoder):
    config = make_config(encoder, model__name="text_cnn", model__kernels=4)
    config = dataclasses.replace(
        config, data=dataclasses.replace(config.data, label_texts={"word10": "word11"})
    )
    assert told(config)._documents().beside == (None, None)
