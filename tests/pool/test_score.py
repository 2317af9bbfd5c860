import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from crabjax.keys import draw_up_to, host_generator
from crabjax.pool import score
from crabjax.pool.score import anchors_at, pool_gains, pool_totals, released_gains
from crabjax.scoring.beta import BetaRule
from crabjax.scoring.elr import expected_loss_reduction
from crabjax.scoring.released import released_score

RULE = BetaRule()


@pytest.fixture(scope="module")
def logits() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, 40, 4)).astype(np.float32)


def test_anchors_are_padded_to_capacity(logits):
    rows = np.array([17, 3, 30])
    anchors = anchors_at(logits, rows, 5)
    assert anchors.count == 3
    np.testing.assert_array_equal(anchors.probabilities[:, :3], expit(logits)[:, rows])
    assert not anchors.probabilities[:, 3:].any()
    assert anchors.probabilities.shape == (3, 5, 4)


def test_gains_do_not_depend_on_padding(logits):
    anchors = anchors_at(logits, np.arange(5), 8)
    assert anchors.count < anchors.probabilities.shape[1]
    candidates = np.array([3, 5, 8, 13, 21, 34, 35])
    weights = np.array([1.0, 0.5, 2.0, 0.0], np.float32)
    direct = expected_loss_reduction(
        expit(logits[:, candidates]), anchors.probabilities[:, : anchors.count], RULE, weights
    )
    found = pool_gains(logits, candidates, anchors, RULE, weights)
    assert found.shape == (7, anchors.count)
    np.testing.assert_allclose(found, direct, rtol=1e-5, atol=1e-7)
    totals = pool_totals(logits, candidates, anchors, RULE, weights)
    np.testing.assert_allclose(totals, direct.sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("weights", [None, np.array([1.0, 0.5, 2.0, 0.0])])
def test_released_gains_are_those_of_the_released_score(logits, weights):
    anchors = anchors_at(logits, np.arange(5), 8)
    candidates = np.array([3, 5, 8])
    found = released_gains(logits, candidates, anchors, RULE, weights)
    direct = released_score(
        jnp.asarray(expit(logits[:, candidates])),
        jnp.asarray(anchors.probabilities[:, : anchors.count]),
        RULE,
        jnp.asarray([1.0] * 4 if weights is None else weights, np.float32),
    )
    assert found.shape == (3, anchors.count)
    np.testing.assert_allclose(found, direct, rtol=1e-5)


def test_memory_is_asked_for_all_anchors_there_can_be(logits, monkeypatch):
    asked = []

    def record(*sizes):
        asked.append(sizes)
        return 8

    monkeypatch.setattr(score, "_largest_chunk", record)
    anchors = anchors_at(logits, np.arange(5), 8)
    pool_gains(logits, np.arange(5), anchors, RULE)
    members, capacity, labels = 3, 8, 4
    assert asked == [(members, capacity, labels, RULE)]


def test_equal_keys_give_equal_streams():
    draw = lambda seed: host_generator(jax.random.key(seed)).random(4).tolist()
    assert draw(1) == draw(1) != draw(2)


def test_draws_are_without_replacement_and_stop_at_the_end():
    rows = np.array([4, 8, 15, 16])
    found = draw_up_to(np.random.default_rng(0), rows, 3)
    assert len(set(found.tolist()) & set(rows.tolist())) == 3
    np.testing.assert_array_equal(np.sort(draw_up_to(np.random.default_rng(0), rows, 9)), rows)
