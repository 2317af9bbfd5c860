"""What is guessed of unlabelled documents, and how it comes beside what is known."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logit

from crabjax.ensemble import Guesses, beside, needed_rows, with_guesses
from crabjax.ensemble.self_training import draw_to_guess, guess
from crabjax.pool.look import AllBut

GENERATOR = np.random.default_rng(0)
INPUTS, LABELS = GENERATOR.integers(1, 99, (50, 6)), GENERATOR.random((50, 3)) < 0.5
ROWS = np.array([[7, 31, 7, 49, -1], [2, 31, -1, -1, -1]], np.int32)
COUNTS, NONE = np.array([4, 2], np.int32), np.zeros((2, 0), np.int32)
DOCUMENTS = np.array([[20, 3], [3, 44]])
GUESSES = Guesses(DOCUMENTS, GENERATOR.random((2, 2, 3)) < 0.5)


def expected_f1(mean, threshold):
    hits = sum(p for row in mean for p in row if p > threshold)
    decided = sum(p > threshold for row in mean for p in row)
    return 2 * hits / (decided + sum(p for row in mean for p in row))


@pytest.mark.parametrize("documents", [2, 9, 30])
def test_the_surer_half_is_guessed(documents):
    """Against the definitions, one number at a time."""
    probabilities = np.random.default_rng(documents).beta(0.4, 0.8, (4, documents, 3))
    rows = 100 + 7 * np.arange(documents)
    chosen, labels = guess(logit(probabilities), rows)
    mean = [[np.mean(probabilities[:, x, k]) for k in range(3)] for x in range(documents)]
    doubt = {row: sum(p * (1 - p) for p in own) for row, own in zip(rows, mean)}
    assert chosen.tolist() == sorted(rows, key=doubt.__getitem__)[: documents // 2]
    tried = sorted(p for own in mean for p in own)
    best = max([0, *tried], key=lambda threshold: expected_f1(mean, threshold))
    wanted = [[p > best for p in mean[int((row - 100) // 7)]] for row in chosen]
    assert labels.tolist() == wanted


def test_twice_as_many_are_drawn_as_are_wanted():
    unlabelled = AllBut(40, np.array([3, 8, 39]))
    draws = [draw_to_guess(np.random.default_rng(seed), unlabelled, 10) for seed in (0, 0, 1)]
    assert draws[0].tolist() == draws[1].tolist() != draws[2].tolist()
    for drawn in draws:
        assert len(drawn) == 20
        assert np.all(np.diff(drawn) > 0)
        assert not set(drawn) & {3, 8, 39}
    every = draw_to_guess(np.random.default_rng(0), unlabelled, 100)
    assert every.tolist() == [n for n in range(39) if n not in (3, 8)]


@pytest.mark.parametrize("capacity", [7, 1000])
@pytest.mark.parametrize("models", [1, 3])
def test_guesses_come_after_the_labelled_documents_of_their_seed(capacity, models):
    rows, counts = np.repeat(ROWS, models, axis=0), np.repeat(COUNTS, models)
    validation = np.tile(np.array([3, 7], np.int32), (2 * models, 1))
    needed = needed_rows(INPUTS, LABELS, rows, counts, validation, capacity)
    found = with_guesses(needed, INPUTS, GUESSES, 4)
    assert found.train_rows.shape == (2 * models, 9)
    assert len(found.inputs) == len(found.labels) == min(capacity, 50) + 8
    assert found.train_rows.dtype == found.train_counts.dtype == np.int32
    assert 0 <= found.train_rows.min() <= found.train_rows.max() < len(found.inputs)
    np.testing.assert_array_equal(found.validation_rows, needed.validation_rows)
    for model in range(2 * models):
        seed, count = model // models, COUNTS[model // models]
        assert found.train_counts[model] == count + 2
        own = found.train_rows[model, : count + 2]
        documents = [*ROWS[seed, :count], *DOCUMENTS[seed]]
        np.testing.assert_array_equal(found.inputs[own], INPUTS[documents])
        labels = np.concatenate([LABELS[ROWS[seed, :count]], GUESSES.labels[seed]])
        np.testing.assert_array_equal(found.labels[own], labels)


def test_shapes_do_not_depend_on_the_number_of_guesses():
    needed = needed_rows(INPUTS, LABELS, ROWS, COUNTS, NONE, 7)
    few = Guesses(DOCUMENTS[:, :0], GUESSES.labels[:, :0])
    none, all_four = (with_guesses(needed, INPUTS, own, 4) for own in (few, GUESSES))
    assert [one.shape for one in none] == [one.shape for one in all_four]
    np.testing.assert_array_equal(none.train_counts, COUNTS)
    np.testing.assert_array_equal(none.inputs[none.train_rows[0, :4]], INPUTS[ROWS[0, :4]])
    assert with_guesses(needed, INPUTS, few, 0) is needed


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])  # of devices they are fetched
def test_members_of_a_seed_stand_side_by_side(array):
    first, second = array(np.arange(12).reshape(6, 2)), array(np.arange(12, 24).reshape(6, 2))
    found = beside(3, {"w": first}, {"w": second})["w"]
    assert type(found) is np.ndarray
    rows = [
        *range(0, 4),
        *range(12, 16),
        *range(4, 8),
        *range(16, 20),
        *range(8, 12),
        *range(20, 24),
    ]
    assert np.ravel(found).tolist() == rows
