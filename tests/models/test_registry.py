"""Classifiers found by name, and what is said of names that nobody registered."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.config import ConfigError, ModelConfig, from_dict, from_overrides
from crabjax.ensemble import predict_logits
from crabjax.inputs import check_encoder, encode_texts, load_dataset
from crabjax.models import (
    Classifier,
    UnknownClassifierError,
    base,
    build_model,
    classifier_names,
    register_classifier,
)

BUILT_IN = ["distilbert", "frozen", "text_cnn", "text_rnn"]
UNKNOWN = (
    r"model\.name: expected one of distilbert, frozen, text_cnn, text_rnn, found 'text_cn'; "
    r"did you mean text_cnn\?"
)


class CountOfWords(Classifier):
    """Logits are the number of words times a weight a label."""

    def __init__(self, config, input_size, labels, rngs):
        self.weight = base.uniform(rngs, (config.hidden, labels), input_size**-0.5)

    def features(self, inputs):
        count = jnp.sum((inputs != 0).astype(jnp.float32), axis=1, keepdims=True)
        return jnp.broadcast_to(count, (len(inputs), self.weight.shape[0]))

    def logits(self, features, key):
        return features @ self.weight[...]


@pytest.fixture
def mine(monkeypatch):
    """CountOfWords, registered for one test."""
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    return register_classifier("count")(CountOfWords)


def test_the_built_in_classifiers_are_registered():
    assert classifier_names() == BUILT_IN


def test_a_classifier_of_ones_own_is_built_once(mine):
    assert mine is CountOfWords
    config = ModelConfig(name="count", hidden=3)
    model = build_model(config, 16, 2)
    # The same object, which is what compiled programs are found by.
    assert build_model(replace(config), 16, 2) is model
    assert build_model(config, 16, 4) is not model
    params = model.init(jax.random.key(0))
    tokens = jnp.array([[1, 2, 0], [3, 0, 0]])
    np.testing.assert_array_equal(model.features(params, tokens), [[2.0] * 3, [1.0] * 3])
    assert model.apply(params, tokens).shape == (2, 2)
    assert float(jnp.abs(params["weight"]).max()) <= 0.25


def test_a_name_is_given_once(mine):
    for name in ("count", "text_cnn", "distilbert"):
        with pytest.raises(ValueError, match=f"classifier '{name}' is already registered"):
            register_classifier(name)(mine)


def test_an_unknown_name_is_an_error_with_the_nearest_one():
    with pytest.raises(UnknownClassifierError, match=UNKNOWN):
        build_model(ModelConfig(name="text_cn"), 16, 2)
    with pytest.raises(ConfigError, match=r"found 'zzz'$"):
        build_model(ModelConfig(name="zzz"), 16, 2)


def test_an_unknown_name_is_an_error_before_any_data_are_read():
    missing = [f"data.{split}=nosuch.jsonl" for split in ("train", "test")]
    config = from_overrides(["model.name=text_cn", *missing])
    for begin in (
        load_dataset,
        check_encoder,
        lambda config: encode_texts(config, ["a b"], ("a", "b")),
    ):
        with pytest.raises(UnknownClassifierError, match=UNKNOWN):
            begin(config)


def test_a_name_must_be_text():
    with pytest.raises(ConfigError, match=r"model\.name: expected text, found 3"):
        from_dict({"model": {"name": 3}})


class CountOfPlaces(CountOfWords):
    """Padding counts as well."""

    def features(self, inputs):
        return jnp.full((len(inputs), self.weight.shape[0]), inputs.shape[1], jnp.float32)


def test_a_model_that_reads_padding_is_not_given_narrower_batches(mine):
    register_classifier("places")(CountOfPlaces)
    model = build_model(ModelConfig(name="places", hidden=3), 16, 2)
    params = model.init(jax.random.key(0))
    inputs = np.tril(np.ones((80, 8), np.int32))  # 80 documents, most of them short
    inputs[8:] = inputs[0]
    one = jax.tree.map(lambda leaf: leaf[None], params)
    found = predict_logits(model, one, inputs, batch_size=8)[0]
    np.testing.assert_allclose(found, model.apply(params, jnp.asarray(inputs)), rtol=1e-6)


@pytest.mark.parametrize("name", ["text_cnn", "text_rnn"])
def test_padding_changes_nothing_where_it_is_said_to(name):
    model = build_model(ModelConfig(name=name, embedding=4, hidden=4, kernels=4), 16, 2)
    assert model.ignores_padding
    params = model.init(jax.random.key(0))
    inputs = jnp.array([[3, 1, 4, 1], [5, 9, 0, 0]])
    wider = jnp.pad(inputs, [(0, 0), (0, 5)])
    apply = jax.jit(model.apply)
    np.testing.assert_allclose(apply(params, wider), apply(params, inputs), rtol=1e-5, atol=1e-6)
