"""What is looked at: drawn without predictions, from documents nobody lists."""

import dataclasses
from statistics import pvariance

import jax
import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.keys import host_generator
from crabjax.pool.look import AllBut, Look, disagreement, draw_look, first_size, narrow, sample_size

CONFIG = StrategyConfig(anchor_fraction=0.2, candidate_limit=30, anchor_limit=None)
KEY = jax.random.key(3)


def look(unlabelled, query_size=5, config=CONFIG, documents=100, everything=False, anchors=True):
    limit = None if everything else sample_size(query_size, config)
    return draw_look(KEY, unlabelled, limit, config, documents, with_anchors=anchors)


@pytest.mark.parametrize("without", [[], [0], [9], [0, 1, 2], [3, 4, 7], [0, 9], list(range(10))])
def test_all_but_some_are_those_that_a_list_would_have(without):
    listed = np.setdiff1d(np.arange(10), without)
    found = AllBut(10, np.array(without, np.int64))
    assert len(found) == len(listed)
    np.testing.assert_array_equal(found[np.arange(len(found))], listed)
    places = np.arange(len(listed))[::-1]
    np.testing.assert_array_equal(found[places], listed[places])


def test_all_but_some_by_chance():
    generator = np.random.default_rng(0)
    for _ in range(50):
        without = np.sort(generator.choice(200, generator.integers(200), replace=False))
        listed = np.setdiff1d(np.arange(200), without)
        np.testing.assert_array_equal(AllBut(200, without)[np.arange(len(listed))], listed)


def test_a_list_and_all_but_some_give_the_same_look():
    without = np.array([2, 3, 50, 99])
    listed = np.setdiff1d(np.arange(100), without)
    for one, other in zip(look(listed), look(AllBut(100, without))):
        np.testing.assert_array_equal(one, other)


def test_candidates_and_anchors_are_draws_of_their_own():
    unlabelled = np.arange(10, 90)
    found = look(unlabelled)
    limit, anchors = (host_generator(KEY, draw) for draw in ("limit", "anchors"))
    expected = np.sort(limit.choice(unlabelled, 30, replace=False))
    np.testing.assert_array_equal(found.candidates, expected)
    np.testing.assert_array_equal(found.anchors, anchors.choice(unlabelled, 16, replace=False))
    assert found.unlabelled == 80
    assert found.anchor_capacity == 20
    assert set(found.documents) == {*found.candidates, *found.anchors}
    assert (np.diff(found.documents) > 0).all()


def test_limits_hold_and_none_means_all():
    unlabelled = np.arange(100)
    assert len(look(unlabelled, query_size=40).candidates) == 40
    everything = dataclasses.replace(CONFIG, candidate_limit=None)
    np.testing.assert_array_equal(look(unlabelled, config=everything).candidates, unlabelled)
    np.testing.assert_array_equal(look(unlabelled, everything=True).candidates, unlabelled)
    few = look(unlabelled, config=dataclasses.replace(CONFIG, anchor_limit=7))
    assert len(few.anchors) == few.anchor_capacity == len(set(few.anchors)) == 7


def test_small_pools():
    one = look(np.array([7]))
    assert one.candidates.tolist() == one.anchors.tolist() == one.documents.tolist() == [7]
    none = look(AllBut(4, np.arange(4)))
    assert len(none.candidates) == len(none.anchors) == len(none.documents) == 0
    assert len(look(np.arange(50), anchors=False).anchors) == 0


def test_candidates_and_anchors_together_are_a_uniform_sample():
    """Every document is as likely to be looked at: 2000 looks, within five standard errors."""
    counts = np.zeros(40)
    for seed in range(2000):
        everyone = AllBut(40, np.zeros(0, np.int64))
        drawn = draw_look(jax.random.key(seed), everyone, 8, CONFIG, 40, with_anchors=True)
        counts[drawn.documents] += 1
    share = counts.mean() / 2000
    assert np.abs(counts - counts.mean()).max() < 5 * np.sqrt(2000 * share * (1 - share))


def test_places_of_a_look_among_rows():
    found = look(np.arange(10, 90))
    rows = np.union1d(found.documents, [0, 5, 95])
    there = found.at(rows)
    np.testing.assert_array_equal(rows[there.candidates], found.candidates)
    np.testing.assert_array_equal(rows[there.anchors], found.anchors)


@pytest.mark.parametrize("digits", [9, 1])  # rounded to one digit many are disputed alike
def test_narrowing_keeps_half_by_disagreement_and_half_at_random(digits):
    """The oracle sorts by variance in plain Python, and draws from what is left."""
    generator = np.random.default_rng(1)
    candidates = np.sort(generator.choice(1000, 40, replace=False))
    probabilities = generator.uniform(size=(4, 40, 3)).astype(np.float32)
    drawn = Look(candidates, np.array([5, 2]), 900, 2)
    spread = [sum(pvariance(map(float, p)) for p in probabilities[:, x].T) for x in range(40)]
    spread = np.round(spread, digits)
    found = narrow(KEY, drawn, spread, 15)
    generator = host_generator(KEY, "narrow")
    # those that are disputed alike stay in the order that was drawn, whatever a machine sorts by
    order = sorted(generator.permutation(40).tolist(), key=lambda place: -spread[place])
    chance = generator.choice(order[7:], 8, replace=False)
    expected = sorted(candidates[[*order[:7], *chance]])
    assert found.candidates.tolist() == expected
    assert found._replace(candidates=candidates) == drawn


def test_disagreement_is_the_variance_over_members_whatever_the_blocks():
    generator = np.random.default_rng(2)
    logits = generator.normal(size=(4, 1300, 3)).astype(np.float32)
    rows = generator.permutation(1300)[:1201]
    found = disagreement(logits, rows)
    for place in (0, 499, 500, 1000, 1200):
        chances = 1 / (1 + np.exp(-logits[:, rows[place]].astype(float)))
        assert found[place] == pytest.approx(
            sum(pvariance(p) for p in chances.T.tolist()), rel=1e-5
        )


def test_documents_that_are_disputed_alike_are_kept_wherever_they_stand():
    drawn = Look(np.arange(8000), np.zeros(0, np.int64), 9000, 0)
    found = narrow(KEY, drawn, np.full(8000, 0.5, np.float32), 3000)
    assert len(set(found.candidates.tolist())) == 3000
    assert abs(found.candidates.mean() - 4000) < 200


@pytest.mark.parametrize(
    ("limit", "first", "drawn"),
    [(30, 60, 60), (30, None, 30), (30, 20, 30), (None, 60, None), (30, 99, 99), (30, 100, 30)],
)
def test_a_first_look_widens_a_sample_of_a_larger_pool_and_nothing_else(limit, first, drawn):
    config = dataclasses.replace(CONFIG, candidate_limit=limit, first_look=first)
    assert first_size(5, config, 100) == drawn
    found = draw_look(KEY, np.arange(100), drawn, config, 100, with_anchors=True)
    assert len(found.candidates) == (drawn or 100)
    assert len(look(np.arange(100), config=config).candidates) == (limit or 100)
