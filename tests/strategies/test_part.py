"""A pool of a part of the training set says of its documents what one of all of them says."""

import dataclasses

import jax
import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.pool.look import AllBut
from crabjax.strategies import Part, Pool, get_strategy, part_of, with_features

DOCUMENTS, LABELS = 90, 3
CONFIG = StrategyConfig(
    anchor_fraction=0.1, candidate_limit=20, first_look=30, per_label=None, hard_size=None
)
RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.normal(size=(2, DOCUMENTS, LABELS)).astype(np.float32)
TRUTH = RANDOM.random((DOCUMENTS, LABELS)) < 0.4
VECTORS = RANDOM.normal(size=(DOCUMENTS, 5)).astype(np.float32)
LABELLED = np.array([4, 17, 33, 60, 61, 88])
KEY = jax.random.key(1)


def part(name: str, config: StrategyConfig = CONFIG, most_labelled: int = 10) -> Part:
    strategy = get_strategy(name)
    look = strategy.look(KEY, AllBut(DOCUMENTS, LABELLED), 5, config, DOCUMENTS)
    return part_of(strategy, look, LABELLED, most_labelled, DOCUMENTS, 5, config)


def pool_of(some: Part) -> Pool:
    return some.pool(LOGITS[:, some.predicted], TRUTH[LABELLED], 2, 7)


@pytest.mark.parametrize("name", ["entropy", "mmc", "crab", "coreset"])
def test_every_document_keeps_what_is_known_of_it(name):
    some = part(name)
    pool = pool_of(some)
    assert pool.rows is not None
    assert (pool.round, pool.rounds) == (2, 7)
    np.testing.assert_array_equal(pool.rows[pool.labelled], LABELLED)
    np.testing.assert_array_equal(pool.rows[pool.unlabelled], some.look.documents)
    np.testing.assert_array_equal(pool.rows[pool.candidates], some.look.candidates)
    np.testing.assert_array_equal(pool.rows[pool.looked.anchors], some.look.anchors)
    np.testing.assert_array_equal(pool.logits[:, pool.unlabelled], LOGITS[:, some.look.documents])
    np.testing.assert_array_equal(pool.labels[pool.labelled], TRUTH[LABELLED])
    assert pool.labels.sum() == TRUTH[LABELLED].sum()  # of the others none is told
    predicted = LOGITS[:, LABELLED] if get_strategy(name).needs_labelled else 0
    np.testing.assert_array_equal(
        pool.logits[:, pool.labelled], np.broadcast_to(predicted, (2, 6, LABELS))
    )


@pytest.mark.parametrize(
    ("name", "most_labelled", "limit", "size"),
    [
        ("entropy", 10, 20, 10 + 20),
        ("epig", 10, 20, 10 + 20 + 9),  # 9 anchors at most: a tenth of 90
        ("crab", 10, 20, 10 + 30 + 9),  # which narrows its first look
        ("crab", 60, 20, 90),  # never more than there are
        ("entropy", 10, None, 90),
    ],
)
def test_the_axis_is_as_long_as_it_can_get(name, most_labelled, limit, size):
    config = dataclasses.replace(CONFIG, candidate_limit=limit)
    some = part(name, config, most_labelled)
    assert some.size == size
    pool = pool_of(some)
    assert pool.logits.shape == (2, size, LABELS)
    assert pool.labels.shape == (size, LABELS)


@pytest.mark.parametrize("name", ["coreset", "crab"])
@pytest.mark.parametrize("whole", [False, True])
def test_vectors_are_asked_for_by_row_of_the_training_set_where_they_are_read(name, whole):
    strategy, some = get_strategy(name), part(name)
    pool, asked = pool_of(some), []
    if whole:
        look = some.look
        pool = Pool(LOGITS, TRUTH, LABELLED, look.documents, look=look)

    def features_of(rows):
        asked.extend(rows)
        return VECTORS[rows]

    found = with_features(pool, strategy, features_of)
    rows = np.arange(DOCUMENTS) if pool.rows is None else pool.rows
    read = {*some.look.candidates, *(LABELLED if strategy.needs_labelled else ())}
    assert set(asked) == read
    assert found.features is not None
    assert found.features.shape == (pool.logits.shape[1], 5)
    for place, row in enumerate(rows):
        np.testing.assert_array_equal(found.features[place], VECTORS[row] if row in read else 0)


def test_it_works_from_a_sample_unless_pseudo_labels_decide_what_is_looked_at():
    whole = StrategyConfig(candidate_limit=50)
    crab_strategy = get_strategy("crab")
    assert crab_strategy.samples(51, 10, whole, 60)
    assert not crab_strategy.samples(50, 10, whole, 60)
    for change in (
        {"per_label": 5},
        {"hard_size": 5},
        {"hard_sampling": False},
        {"candidate_limit": None},
    ):
        assert not crab_strategy.samples(10**6, 10, dataclasses.replace(whole, **change), 10**6)
