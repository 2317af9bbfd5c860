"""Steps on the rows of training words against optax on the whole table."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.ensemble import word_rows
from crabjax.ensemble.optimizer import learn, start_training
from crabjax.ensemble.step import Recipe
from crabjax.ensemble.train import TrainingData, start
from crabjax.ensemble.word_rows import put_rows, renumber, take_rows, training_words
from crabjax.models import build_model

MEMBERS, VOCABULARY, WIDTH = 2, 21, 3
TOKENS = np.array([[3, 9, 20], [9, 12, 0], [15, 7, 0], [1, 2, 4], [16, 17, 18]], np.int32)
ROWS, COUNTS = np.array([[0, 1, 2], [3, 4, 0]]), np.array([2, 3])


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    monkeypatch.setattr(word_rows, "SMALLEST", 4)


def test_words_of_live_documents_and_what_fills_them_up():
    words = training_words(TOKENS, ROWS, COUNTS, VOCABULARY)
    assert words.dtype == np.int32
    np.testing.assert_array_equal(words[0], [0, 3, 9, 12, 20, *range(21, 32)])
    np.testing.assert_array_equal(words[1], [0, 1, 2, 3, 4, 9, 16, 17, 18, 20, *range(21, 27)])


def test_sizes_are_few():
    documents = np.arange(5000, dtype=np.int32).reshape(-1, 1)
    of = lambda count, vocabulary=10**4: training_words(
        documents, np.arange(5000)[None], np.array([count]), vocabulary
    ).shape[1]
    assert [of(count) for count in (1, 4, 5, 8, 9, 4097)] == [4, 4, 8, 8, 16, 8192]
    assert of(5000, 5000) == 5000  # never more than the vocabulary


def test_members_with_the_same_documents_have_the_same_words():
    rows, counts = ROWS[[0, 0, 1]], COUNTS[[0, 0, 1]]
    words = training_words(TOKENS, rows, counts, VOCABULARY)
    expected = training_words(TOKENS, ROWS, COUNTS, VOCABULARY)
    np.testing.assert_array_equal(words, expected[[0, 0, 1]])
    longer = training_words(TOKENS, rows, np.array([1, 2, 3]), VOCABULARY)
    assert np.sum(longer[0] < VOCABULARY) < np.sum(longer[1] < VOCABULARY)


def test_renumbered_documents_read_the_same_rows():
    words = training_words(TOKENS, ROWS, COUNTS, VOCABULARY)
    table = np.random.default_rng(0).normal(size=(VOCABULARY, 2)).astype(np.float32)
    for own, rows, count in zip(words, ROWS, COUNTS):
        tokens = TOKENS[rows[:count]]
        numbers = jax.jit(renumber, static_argnums=2)(tokens, own, VOCABULARY)
        np.testing.assert_array_equal(np.asarray(numbers) == 0, tokens == 0)
        rows = np.asarray(jax.jit(take_rows)(table, own))
        np.testing.assert_array_equal(rows[numbers], table[tokens])


@pytest.mark.parametrize("schedule", ["constant", "warmup_linear"])
def test_steps_equal_optax_on_the_whole_table(schedule):
    config = EnsembleConfig(
        epochs=2, batch_size=1, learning_rate=0.1, weight_decay=0.5, schedule=schedule
    )
    generator = np.random.default_rng(0)
    draw = lambda *shape: generator.normal(size=shape).astype(np.float32)
    params = {"table": draw(MEMBERS, VOCABULARY, WIDTH), "other": draw(MEMBERS, 4)}
    changes = [{"table": touched(generator), "other": draw(MEMBERS, 4)} for _ in range(4)]
    going = [[True, True], [True, False]] * 2
    found = jax.jit(partial(steps_on_rows, config, going))(params, changes)
    for member in range(MEMBERS):
        own = [of_member(change, member) for change, on in zip(changes, going) if on[member]]
        expected = plain_steps(config, COUNTS[member], of_member(params, member), own)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name][member], value, rtol=1e-5, atol=1e-6)


def steps_on_rows(config: EnsembleConfig, going, params, gradients):
    """Steps as training makes them, and the whole table after them."""
    words = jnp.asarray(training_words(TOKENS, ROWS, COUNTS, VOCABULARY))
    compact = lambda tree: {**tree, "table": jax.vmap(take_rows)(tree["table"], words)}
    trained = start_training(config, compact(params))
    for one, on in zip(gradients, going):
        trained = learn(config, trained, compact(one), jnp.asarray(COUNTS), jnp.asarray(on))
    rows, idle = trained.params["table"], trained.idle
    return {**trained.params, "table": jax.vmap(put_rows)(params["table"], words, rows, idle)}


def of_member(tree, member: int):
    return jax.tree.map(lambda leaf: leaf[member], tree)


def touched(generator) -> np.ndarray:
    """A gradient of the tables [M, V, D], zero at words of no live document."""
    gradient = generator.normal(size=(MEMBERS, VOCABULARY, WIDTH))
    for member, (rows, count) in enumerate(zip(ROWS, COUNTS)):
        idle = np.setdiff1d(np.arange(VOCABULARY), TOKENS[rows[:count]])
        gradient[member, idle] = 0
    return gradient.astype(np.float32)


def plain_steps(config: EnsembleConfig, documents: int, params, gradients):
    """Steps of optax, given the gradients of each."""
    steps = config.epochs * -(-documents // config.batch_size)
    rate = config.learning_rate
    if config.schedule == "warmup_linear":
        warmup = config.warmup_fraction * steps
        rate = lambda step: jnp.where(
            step < warmup, 0.0, config.learning_rate * (steps - step) / (steps - warmup)
        )
    optimizer = optax.adamw(rate, weight_decay=config.weight_decay)

    @jax.jit
    def run(params, gradients):
        state = optimizer.init(params)
        for one in gradients:
            updates, state = optimizer.update(one, state, params)
            params = optax.apply_updates(params, updates)
        return params

    with jax.numpy_dtype_promotion("standard"):
        return run(params, gradients)


def test_no_other_rows_are_trained():
    model = build_model(ModelConfig("text_cnn", embedding=WIDTH, kernels=2, widths=(1,)), 1000, 2)
    words = training_words(TOKENS, ROWS, COUNTS, 1000)
    keys = jax.random.split(jax.random.key(0), MEMBERS)
    documents: Any = TOKENS, np.zeros((5, 2), np.float32), keys, ROWS, COUNTS, ROWS, words
    data = TrainingData(*documents)
    params = jax.eval_shape(jax.vmap(model.init), keys)
    _, training = jax.eval_shape(partial(start, Recipe(model, EnsembleConfig(), 8)), params, data)
    assert model.table is not None
    assert params[model.table].shape == (MEMBERS, 1000, WIDTH)
    assert training.trained.params[model.table].shape == (MEMBERS, words.shape[1], WIDTH)
