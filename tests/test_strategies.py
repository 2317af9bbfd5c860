"""The protocol that every registered strategy keeps."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.strategies import (
    EmptyPoolError,
    Pool,
    Selection,
    SelectionError,
    UnknownStrategyError,
    base,
    get_strategy,
    register,
    strategy_names,
)

MEMBERS, DOCUMENTS, LABELS, FEATURES = 3, 60, 4, 6
CONFIG = StrategyConfig(anchor_fraction=0.2, per_label=5, hard_size=4)
EXPECTED = [
    *("adaptive", "audi", "bald", "besra", "cmal", "coreset"),
    *("crab", "entropy", "epig", "mmc", "random"),
]


def make_pool(seed: int = 0, labelled: int = 12, members: int = MEMBERS) -> Pool:
    """Documents 0 to 4 are held out; labels follow the mean logits, so that heads can learn."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(-0.5, 1.5, (members, DOCUMENTS, LABELS)).astype(np.float32)
    order = generator.permutation(np.arange(5, DOCUMENTS))
    features = generator.normal(size=(DOCUMENTS, FEATURES)).astype(np.float32)
    labels = logits.mean(axis=0) + generator.normal(size=(DOCUMENTS, LABELS)) > 0
    return Pool(
        logits=logits,
        labels=labels,
        labelled=np.sort(order[:labelled]),
        unlabelled=np.sort(order[labelled:]),
        features=features,
        round=1,
        rounds=4,
    )


def select(name: str, pool: Pool, query_size: int = 7, seed: int = 0, config=CONFIG):
    return get_strategy(name)(jax.random.key(seed), pool, query_size, config)


def check_protocol(name: str, pool: Pool, query_size: int, config=CONFIG) -> None:
    selection = select(name, pool, query_size, config=config)
    assert selection.indices.dtype == np.int64
    assert selection.indices.shape == (min(query_size, len(pool.unlabelled)),)
    assert len(np.unique(selection.indices)) == len(selection.indices)
    assert np.isin(selection.indices, pool.unlabelled).all()
    json.dumps(selection.info)


def test_every_strategy_is_registered():
    assert strategy_names() == EXPECTED


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("query_size", [1, 7, 47, 48, 500])
def test_distinct_unlabelled_and_as_many_as_asked_for(name, query_size):
    check_protocol(name, make_pool(), query_size)


@pytest.mark.parametrize("name", EXPECTED)
def test_deterministic_by_key(name):
    first, again = select(name, make_pool(), seed=3), select(name, make_pool(), seed=3)
    np.testing.assert_array_equal(first.indices, again.indices)
    assert first.info == again.info


@pytest.mark.parametrize("name", ["random", "crab", "besra", "epig", "audi"])
def test_another_key_draws_otherwise(name):
    picks = {tuple(np.sort(select(name, make_pool(), seed=seed).indices)) for seed in range(4)}
    assert len(picks) > 1


@pytest.mark.parametrize("name", EXPECTED)
def test_labels_outside_the_labelled_set_are_never_read(name):
    pool = make_pool()
    hidden = np.setdiff1d(np.arange(DOCUMENTS), pool.labelled)
    garbage = pool.labels.copy()
    garbage[hidden] = ~garbage[hidden]
    expected, found = select(name, pool), select(name, pool._replace(labels=garbage))
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.info == expected.info


@pytest.mark.parametrize("name", EXPECTED)
def test_predictions_of_labelled_documents_are_asked_for_where_they_are_read(name):
    pool, picks = make_pool(labelled=30), []
    right = np.where(pool.labels[pool.labelled], np.float32(4), np.float32(-4))
    for sign in (1, -1):
        logits, features = np.array(pool.logits), np.array(pool.features)
        logits[:, pool.labelled] = sign * right
        features[pool.labelled] *= sign
        picks.append(select(name, pool._replace(logits=logits, features=features)).indices)
    assert np.array_equal(*picks) != get_strategy(name).needs_labelled


@pytest.mark.parametrize("name", EXPECTED)
def test_inputs_stay_as_they_are(name):
    pool = make_pool()
    select(name, pool)
    for found, expected in zip(pool, make_pool()):
        np.testing.assert_array_equal(found, expected)


def identical_rows(pool: Pool) -> Pool:
    assert pool.features is not None
    logits = np.broadcast_to(pool.logits[:, :1], pool.logits.shape).copy()
    features = np.broadcast_to(pool.features[:1], pool.features.shape).copy()
    return pool._replace(logits=logits, features=features)


def agreeing_members(pool: Pool) -> Pool:
    return pool._replace(logits=np.broadcast_to(pool.logits[:1], pool.logits.shape).copy())


def no_pseudo_label(pool: Pool) -> Pool:
    return pool._replace(logits=-np.abs(pool.logits))


def saturated(pool: Pool) -> Pool:
    return pool._replace(logits=np.sign(pool.logits) * np.float32(200))


def unseen_label(pool: Pool) -> Pool:
    labels = pool.labels.copy()
    labels[:, 0] = False
    return pool._replace(labels=labels)


def no_labels_at_all(pool: Pool) -> Pool:
    return pool._replace(labels=np.zeros_like(pool.labels))


def every_label(pool: Pool) -> Pool:
    return pool._replace(labels=np.ones_like(pool.labels), logits=np.abs(pool.logits))


def zero_features(pool: Pool) -> Pool:
    return pool._replace(features=np.zeros((DOCUMENTS, FEATURES), np.float32))


def one_labelled(pool: Pool) -> Pool:
    return pool._replace(labelled=pool.labelled[:1])


HARD_CASES = [
    identical_rows,
    agreeing_members,
    no_pseudo_label,
    saturated,
    unseen_label,
    no_labels_at_all,
    every_label,
    zero_features,
    one_labelled,
]


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("change", HARD_CASES)
def test_degenerate_pools_still_give_a_full_query(name, change):
    check_protocol(name, change(make_pool()), 7)


@pytest.mark.parametrize("name", EXPECTED)
def test_one_member_is_enough(name):
    check_protocol(name, make_pool(members=1), 7)


@pytest.mark.parametrize("name", EXPECTED)
def test_one_document_left(name):
    pool = make_pool()
    check_protocol(name, pool._replace(unlabelled=pool.unlabelled[:1]), 7)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_empty_pool_is_a_named_error(name):
    pool = make_pool()._replace(unlabelled=np.array([], dtype=np.int64))
    with pytest.raises(EmptyPoolError, match=f"{name}: no unlabelled document"):
        select(name, pool)


@pytest.mark.parametrize("name", ["adaptive", "audi", "coreset"])
def test_missing_features_are_named(name):
    assert get_strategy(name).needs_features(CONFIG)
    with pytest.raises(ValueError, match=r"pool\.features"):
        select(name, make_pool()._replace(features=None))


@pytest.mark.parametrize(
    "name", [name for name in EXPECTED if not get_strategy(name).needs_features(CONFIG)]
)
def test_features_are_optional_elsewhere(name):
    check_protocol(name, make_pool()._replace(features=None), 7)


def test_crab_needs_features_only_to_cluster_by_them():
    gains = dataclasses.replace(CONFIG, cluster="gains")
    check_protocol("crab", make_pool()._replace(features=None), 7, gains)
    with pytest.raises(ValueError, match=r"pool\.features"):
        select("crab", make_pool()._replace(features=None))


@pytest.mark.parametrize("name", ["crab", "mmc", "cmal", "audi", "adaptive"])
def test_no_labelled_document_is_named(name):
    nothing = np.array([], dtype=np.int64)
    with pytest.raises(ValueError, match=r"pool\.labelled"):
        select(name, make_pool()._replace(labelled=nothing))


def test_query_size_must_be_positive():
    with pytest.raises(ValueError, match="query_size"):
        select("random", make_pool(), 0)


def test_unknown_names_list_the_known_and_the_nearest():
    with pytest.raises(UnknownStrategyError, match=r"adaptive, audi.*'crub'; did you mean crab\?"):
        get_strategy("crub")


def test_a_strategy_stays_as_it_was_registered():
    with pytest.raises(dataclasses.FrozenInstanceError):
        get_strategy("crab").name = "other"  # pyright: ignore


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="already registered"):
        register("crab")(lambda key, pool, query_size, config: None)  # pyright: ignore


def test_a_strategy_that_says_nothing_of_its_needs_sees_a_sample_and_what_is_labelled(monkeypatch):
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    seen = []

    @register("mine")
    def mine(key, pool, query_size, config):
        seen.append(pool)
        return Selection(pool.unlabelled[:query_size], {})

    config = dataclasses.replace(CONFIG, candidate_limit=20, first_look=30)
    mine(jax.random.key(0), make_pool()._replace(features=None), 7, config)
    assert len(seen[0].candidates) == len(seen[0].unlabelled) == 20
    assert len(seen[0].looked.anchors) == 0
    assert mine.needs_labelled
    mine.check_members(1)  # warns of nothing


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda pool, n: np.repeat(pool.unlabelled[:1], n), ", found one twice"),
        (lambda pool, n: pool.unlabelled[: n - 1], r", found int64 \(6,\)"),
        (lambda pool, n: pool.unlabelled[: n + 1], r", found int64 \(8,\)"),
        (lambda pool, n: pool.unlabelled[:n][None], r", found int64 \(1, 7\)"),
        (lambda pool, n: pool.unlabelled[:n] * 1.0, r", found float64 \(7,\)"),
        (lambda pool, n: pool.labelled[:n], ", found row 6"),
        (lambda pool, n: np.r_[pool.unlabelled[: n - 1], 99], ", found row 99"),
    ],
)
def test_picks_that_cannot_be_are_named(monkeypatch, choose, message):
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    register("mine")(lambda key, pool, n, config: Selection(choose(pool, n), {}))
    with pytest.raises(SelectionError, match=f"strategy mine: expected 7 distinct .*{message}"):
        select("mine", make_pool(), 7)


SWITCHES = {
    "attention": False,
    "rarity": 1.0,
    "keep_least": 0.01,
    "attention_norm": "row_sum",
    "asymmetric_removal": False,
    "negative_sampling": False,
    "hard_sampling": False,
    "draw": "kmeans",
    "decay": "cosine",
    "per_label": 0,
    "hard_size": 0,
    "keep_fraction": 0.01,
    "sigma": 0.0,
    "two_sigma": 0.0,
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_crab_with_each_switch(switch):
    check_protocol(
        "crab", make_pool(), 7, dataclasses.replace(CONFIG, **{switch: SWITCHES[switch]})
    )
