import dataclasses

import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.pool.look import Look
from crabjax.strategies import Pool
from crabjax.strategies.common import beliefs_of
from crabjax.strategies.crab import _label_weights

CONFIG = StrategyConfig(rarity=0.5, attention=False)


@pytest.fixture(scope="module")
def sampled() -> Pool:
    """A tenth of U was drawn, of which every other one is left; nobody has seen the last label."""
    generator = np.random.default_rng(0)
    logits = generator.normal(-0.7, 1.2, (3, 300, 5)).astype(np.float32)
    labels = logits[0] > 0
    labels[:, 4] = False
    unlabelled = np.arange(30, 300)
    seen = unlabelled[::10]
    look = Look(seen, seen[:3], len(unlabelled), 3)
    pool = Pool(logits, labels, np.arange(30), unlabelled).looking_at(look)
    return pool._replace(look=look._replace(candidates=seen[::2]))


def weights(pool: Pool, **changes) -> np.ndarray:
    config = dataclasses.replace(CONFIG, **changes)
    return _label_weights(pool, beliefs_of(pool, CONFIG).correlation, config)


def test_documents_that_are_looked_at_stand_for_all_that_are_unlabelled(sampled):
    """Each counts ten times, whether it is a candidate or not, and labelled documents once."""
    members = 1 / (1 + np.exp(-sampled.logits[:, sampled.unlabelled]))
    expected = 1 + sampled.labels[:30].sum(axis=0) + 10 * members.mean(axis=0).sum(axis=0)
    for power in (0.5, 1.0):
        by_hand = (expected.mean() / expected) ** power
        np.testing.assert_allclose(weights(sampled, rarity=power), by_hand, rtol=1e-5)


def test_rarity_and_attention_are_multiplied(sampled):
    attention = weights(sampled, rarity=0.0, attention=True)
    assert np.ptp(attention) > 0.1
    both = weights(sampled, attention=True)
    np.testing.assert_allclose(both, weights(sampled) * attention, rtol=1e-6)


def test_without_either_all_labels_count_alike(sampled):
    np.testing.assert_array_equal(weights(sampled, rarity=0.0), np.ones(5))
