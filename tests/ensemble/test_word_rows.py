"""Updates of the word table tile by tile against optax on the whole table."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from crabjax.config import EnsembleConfig
from crabjax.ensemble import word_rows
from crabjax.ensemble.optimizer import all_params, learn, shrink_idle_words, start_training
from crabjax.ensemble.word_rows import new_numbers, order_words, renumbered
from crabjax.models import Model

MEMBERS, VOCABULARY, WIDTH = 2, 21, 3
TOKENS = np.array([[3, 9, 20], [9, 12, 0], [15, 7, 0], [1, 2, 4], [16, 17, 18]])
ROWS, COUNTS = np.array([[0, 1, 2], [3, 4, 0]]), np.array([2, 3])  # the second fills three tiles


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(word_rows, "TILE", 4)


def test_words_of_live_documents_come_first():
    live = np.array([True, True, False])
    numbers, tiles = jax.jit(new_numbers, static_argnums=2)(TOKENS[:3], live, VOCABULARY)
    numbers = np.asarray(numbers)
    assert sorted(numbers) == list(range(VOCABULARY))
    np.testing.assert_array_equal(numbers[np.array([0, 3, 9, 12, 20])], range(5))
    assert tiles == 2


def test_renumbering_keeps_every_row():
    table = np.arange(VOCABULARY * 2.0, dtype=np.float32).reshape(VOCABULARY, 2)
    numbers = np.random.default_rng(0).permutation(VOCABULARY)
    moved = np.asarray(jax.jit(renumbered)(table, numbers))
    assert moved.shape == (24, 2)  # whole tiles
    np.testing.assert_array_equal(moved[numbers], table)


@pytest.mark.parametrize("schedule", ["constant", "warmup_linear"])
def test_several_tiles_equal_optax_on_the_whole_table(schedule):
    config = EnsembleConfig(
        epochs=2, batch_size=1, learning_rate=0.1, weight_decay=0.5, schedule=schedule
    )
    generator = np.random.default_rng(0)
    draw = lambda *shape: generator.normal(size=shape).astype(np.float32)
    params = {"table": draw(MEMBERS, VOCABULARY, WIDTH), "other": draw(MEMBERS, 4)}
    changes = [{"table": touched(generator), "other": draw(MEMBERS, 4)} for _ in range(4)]
    going = [[True, True], [True, False]] * 2
    found, tiles = jax.jit(partial(tiled_steps, config, going))(params, changes)
    assert tiles == 3
    for member in range(MEMBERS):
        own = [of_member(change, member) for change, on in zip(changes, going) if on[member]]
        expected = plain_steps(config, COUNTS[member], of_member(params, member), own)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name][member], value, rtol=1e-5, atol=1e-6)


def tiled_steps(config: EnsembleConfig, going, params, gradients):
    """Steps of an epoch of two, and another, as training makes them."""
    unused: Any = None
    model = Model(unused, unused, unused, "table")
    counts = jnp.asarray(COUNTS)
    words = order_words(jnp.asarray(TOKENS), jnp.asarray(ROWS), counts, VOCABULARY)
    learner = start_training(model, config, params, words)
    for step, (one, on) in enumerate(zip(gradients, going)):
        one = {**one, "table": jax.vmap(renumbered)(one["table"], words.numbers)}
        learner = learn(model, config, learner, one, counts, jnp.asarray(on), words)
        if step % 2:
            learner = shrink_idle_words(learner, words)
    found = all_params(model, learner)
    table = jax.vmap(lambda rows, numbers: rows[numbers])(found["table"], words.numbers)
    return {**found, "table": table}, words.tiles


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
