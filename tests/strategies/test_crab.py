import dataclasses

import jax
import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.pool.refine import refine_pool
from crabjax.pool.score import pool_gains
from crabjax.scoring.beta import BetaRule
from crabjax.scoring.elr import expected_loss_reduction
from crabjax.strategies import Pool, crab, get_strategy
from crabjax.strategies.common import beliefs_of
from crabjax.strategies.crab import _relative_spread

CONFIG = StrategyConfig(anchor_fraction=0.2, per_label=6, hard_size=8, cluster="gains")


def pool_of(labelled: int = 30, round: int = 0, documents: int = 300) -> Pool:
    generator = np.random.default_rng(0)
    centre = generator.normal(-0.7, 1.2, (documents, 5))
    logits = centre + generator.normal(0, 0.8, (3, documents, 5))
    order = generator.permutation(documents)
    return Pool(
        logits.astype(np.float32),
        centre > 0,
        np.sort(order[:labelled]),
        np.sort(order[labelled:]),
        generator.normal(size=(documents, 7)).astype(np.float32),
        round,
        10,
    )


def query(pool: Pool, config: StrategyConfig = CONFIG, name: str = "crab", seed: int = 0):
    return get_strategy(name)(jax.random.key(seed), pool, 10, config)


def check_scores(selection, pool: Pool, rule=BetaRule(), weights=None):  # noqa: B008
    """They are the mean gains of the picks on all of U."""
    members = 1 / (1 + np.exp(-pool.logits))
    anchors = members[:, pool.unlabelled]
    gains = expected_loss_reduction(members[:, selection.indices], anchors, rule, weights)
    np.testing.assert_allclose(selection.scores, np.mean(gains, axis=1), rtol=1e-4)


def test_info_counts_candidates_by_source():
    info = query(pool_of()).info
    assert list(info) == ["candidates", "score_spread"]
    assert info["score_spread"] > 0.5
    assert tuple(info["candidates"]) == ("label_wise", "negative", "hard", "fill")
    assert info["candidates"]["hard"] == 8


def test_spread_of_scores_by_hand():
    totals = np.array([2, 4, 2], np.float32)
    assert _relative_spread(totals) == _relative_spread(-totals) == pytest.approx(2 / (8 / 3))
    assert _relative_spread(0 * totals) == 0.0


def test_hard_documents_left_are_those_without_a_predicted_label():
    pool = pool_of()
    mean = (1 / (1 + np.exp(-pool.logits))).mean(axis=0)[pool.unlabelled]
    left = beliefs_of(pool, CONFIG).traits.left(len(pool.unlabelled))
    assert left["hard_left"] == (mean <= 0.5).all(axis=1).sum() > 8


def test_hard_documents_decay_over_rounds():
    taken = [query(pool_of(round=t)).info["candidates"]["hard"] for t in (0, 5, 9)]
    assert taken == [8, round(8 * 0.5**0.5), round(8 * 0.1**0.5)]


def test_a_pool_that_says_nothing_of_rounds_is_in_its_first():
    pool = Pool(*pool_of()[:5])
    assert query(pool).info["candidates"]["hard"] == 8
    # one round is all there is, as far as it says: the next comes after the last
    assert query(pool._replace(round=1)).info["candidates"]["hard"] == 0


def test_a_source_that_is_switched_off_gives_nothing():
    for switch, source in (("hard_sampling", "hard"), ("negative_sampling", "negative")):
        config = dataclasses.replace(CONFIG, two_sigma=0.5, **{switch: False})
        assert query(pool_of(), config).info["candidates"][source] == 0


def test_members_that_disagree_are_preferred():
    """With everything refined in, the picks come from the half that has gains at all."""
    pool = pool_of()
    logits = pool.logits.copy()
    agreed = pool.unlabelled[::2]
    logits[:, agreed] = logits[:1, agreed]
    config = dataclasses.replace(CONFIG, per_label=300, hard_size=300)
    by_features = dataclasses.replace(config, cluster="features")
    for name, settings in (("crab", config), ("crab", by_features), ("besra", config)):
        picks = query(pool._replace(logits=logits), settings, name).indices
        assert not np.isin(picks, agreed).any()


def test_without_limits_every_unlabelled_document_is_a_candidate():
    pool = pool_of()
    config = dataclasses.replace(CONFIG, per_label=None, hard_size=None)
    for draw in ("random", "kmeans"):
        found = query(pool, dataclasses.replace(config, draw=draw)).info["candidates"]
        assert sum(found.values()) == len(pool.unlabelled)
        assert found["fill"] == 0 < min(found["label_wise"], found["hard"])


@pytest.mark.parametrize("refined", [{}, {"per_label": None, "hard_size": None}])
def test_the_limit_holds_for_all_candidates_and_never_falls_below_the_query(refined):
    for limit, expected in ((15, 15), (3, 10)):
        config = dataclasses.replace(CONFIG, candidate_limit=limit, **refined)
        found = query(pool_of(), config)
        assert sum(found.info["candidates"].values()) == expected
        assert len(set(found.indices)) == 10


def test_clusters_of_features_give_one_pick_each():
    """Ten far apart groups of documents; k-means on gains would know nothing of them."""
    pool = pool_of()
    groups = np.arange(len(pool.labels)) % 10
    features = np.eye(10, dtype=np.float32)[groups]
    config = dataclasses.replace(CONFIG, per_label=None, hard_size=None, cluster="features")
    picks = query(pool._replace(features=features), config).indices
    assert sorted(groups[picks]) == list(range(10))


def test_only_clusters_of_features_need_features():
    pool = pool_of()._replace(features=None)
    assert len(query(pool).indices) == 10
    with pytest.raises(ValueError, match=r"expected pool\.features"):
        query(pool, dataclasses.replace(CONFIG, cluster="features"))


def test_the_released_score_looks_at_no_candidate():
    """Documents on which all members agree score like any other: nothing is learnt from it."""
    pool = pool_of()
    config = dataclasses.replace(CONFIG, per_label=None, hard_size=None, score="released")
    assert query(pool, config).info["score_spread"] < 1e-5


def test_refined_drawing_by_kmeans_draws_as_many():
    by_chance, by_kmeans = (
        query(pool_of(), dataclasses.replace(CONFIG, draw=draw)).info["candidates"]
        for draw in ("random", "kmeans")
    )
    assert by_kmeans["hard"] == by_chance["hard"] == 8
    assert by_kmeans["fill"] == 0


@pytest.fixture
def scored(monkeypatch):
    """The documents of every call of the score."""
    calls = []

    def recorded(logits, candidates, *rest):
        calls.append(candidates)
        return pool_gains(logits, candidates, *rest)

    monkeypatch.setattr("crabjax.strategies.crab.pool_gains", recorded)
    return calls


def test_every_document_is_scored_once_whatever_the_drawing(scored):
    pool = pool_of()
    config = dataclasses.replace(CONFIG, draw="kmeans", anchor_fraction=1.0, attention=False)
    check_scores(query(pool, config), pool)
    assert len(scored) == 1
    np.testing.assert_array_equal(scored[0], pool.unlabelled)


def test_scores_attend_to_labels_as_the_labelled_documents_have_them():
    """Eq. 13 by counting, and Eq. 11 as one weight a label."""
    pool = pool_of()
    both = [
        [np.sum(m & n) / n.sum() for n in pool.labels[pool.labelled].T]
        for m in pool.labels[pool.labelled].T
    ]
    largest = [max(both[m][n] for m in range(5) if m != n) for n in range(5)]
    weights = [1 + sum(both[m][n] / (2 * largest[n]) for n in range(5) if n != m) for m in range(5)]
    config = dataclasses.replace(CONFIG, anchor_fraction=1.0, min_support=1)
    check_scores(query(pool, config), pool, weights=np.array(weights, np.float32))


def test_scores_of_rare_labels_count_for_more():
    """By how many documents are expected to have them: known ones, and by the members' mean."""
    pool = pool_of()
    members = 1 / (1 + np.exp(-pool.logits[:, pool.unlabelled]))
    expected = 1 + pool.labels[pool.labelled].sum(axis=0) + members.mean(axis=0).sum(axis=0)
    assert expected.max() > 1.1 * expected.min()
    config = dataclasses.replace(CONFIG, anchor_fraction=1.0, attention=False)
    for power in (0.5, 1.0):
        weights = (expected.mean() / expected) ** power
        found = query(pool, dataclasses.replace(config, rarity=power))
        check_scores(found, pool, weights=weights.astype(np.float32))


def test_drawing_by_chance_scores_the_candidates_alone(scored):
    pool = pool_of()
    selection = query(pool)
    (looked_at,) = scored
    assert len(looked_at) == sum(selection.info["candidates"].values()) < len(pool.unlabelled)
    assert set(selection.indices) <= set(looked_at)


def test_clusters_of_features_need_no_rows(monkeypatch):
    """The default forms no [X, P] array, and picks what it would pick from one."""
    pool = pool_of()
    pool = pool._replace(features=np.random.default_rng(0).random((300, 5), np.float32))
    config = dataclasses.replace(CONFIG, cluster="features")
    summed = lambda *given: pool_gains(*given).sum(axis=1)
    with monkeypatch.context() as patch:
        patch.setattr("crabjax.strategies.crab.pool_totals", summed)
        from_rows = query(pool, config)
    monkeypatch.setattr("crabjax.strategies.crab.pool_gains", None)
    found = query(pool, config)
    np.testing.assert_array_equal(found.indices, from_rows.indices)
    assert found.scores is not None
    assert from_rows.scores is not None
    np.testing.assert_allclose(found.scores, from_rows.scores, rtol=1e-5)


def test_scores_of_besra_are_mean_gains_under_its_rule():
    pool = pool_of()
    config = dataclasses.replace(CONFIG, alpha=1.0, beta=1.0, anchor_fraction=1.0)
    check_scores(query(pool, config, "besra"), pool, BetaRule(1, 1))


@pytest.mark.parametrize("name", ["crab", "besra", "epig", "audi", "adaptive", "entropy", "bald"])
def test_later_rounds_compile_nothing(name):
    compilations = []
    query(pool_of(labelled=30, round=0), name=name)

    def listen(event: str, duration_secs: float, **_) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compilations.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for t in (1, 2, 3):
            query(pool_of(labelled=30 + 13 * t, round=t), name=name, seed=t)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not compilations


def test_with_more_labelled_documents_kmeans_sees_fewer_candidates():
    config = dataclasses.replace(CONFIG, per_label=None, hard_size=None, cluster="features")
    falling = dataclasses.replace(config, keep_least=0.1)
    refined = query(pool_of(150), dataclasses.replace(CONFIG, keep_least=0.1))
    # Of U*, 37 of the 150, the half is fewer than twice the query, and stays.
    np.testing.assert_array_equal(refined.indices, query(pool_of(150)).indices)
    whole = dataclasses.replace(CONFIG, keep_fraction=1.0)
    assert set(refined.indices) != set(query(pool_of(150), whole).indices)
    fixed = lambda share: dataclasses.replace(config, keep_fraction=share)
    for name in ("crab", "besra"):
        for labelled, share in ((100, 0.5), (150, 0.5 / 1.5)):
            pool = pool_of(labelled)
            expected = query(pool, fixed(share), name).indices
            np.testing.assert_array_equal(query(pool, falling, name).indices, expected)
        assert set(expected) != set(query(pool, config, name).indices)


def test_labels_without_support_exclude_nothing():
    pool = pool_of()
    left = [
        beliefs_of(
            pool, dataclasses.replace(CONFIG, two_sigma=0.5, min_support=support)
        ).traits.left(len(pool.unlabelled))
        for support in (1, 10**6)
    ]
    assert left[0]["negative_left"] > left[1]["negative_left"] == 0


def test_beliefs_that_a_pool_brings_along_are_not_worked_out_again():
    pool = pool_of()
    known = pool._replace(beliefs=beliefs_of(pool, CONFIG))
    assert beliefs_of(known, CONFIG) is known.beliefs
    np.testing.assert_array_equal(query(known).indices, query(pool).indices)
    nobody_carries = known.beliefs.traits._replace(
        carries=np.zeros_like(known.beliefs.traits.carries)
    )
    other = known._replace(beliefs=known.beliefs._replace(traits=nobody_carries))
    assert query(other).info["candidates"]["label_wise"] == 0


def test_a_draw_does_not_move_when_another_is_left_out(monkeypatch):
    """Every draw of a query has a stream of its own."""
    drawn: dict[tuple[str, int], list[int]] = {}

    def noting(traits, unlabelled, query_size, hard_size, config, draw, fill):
        def noted(documents, count, source, label=0):
            found = draw(documents, count, source, label)
            drawn[source, label] = found.tolist()
            return found

        return refine_pool(traits, unlabelled, query_size, hard_size, config, noted, fill)

    def draws(**changes):
        drawn.clear()
        query(pool_of(), dataclasses.replace(CONFIG, two_sigma=0.5, **changes))
        return dict(drawn)

    monkeypatch.setattr(crab, "refine_pool", noting)
    every = draws()
    assert {source for source, _ in every} == {"label_wise", "negative", "hard"}
    for changes, moved in (
        ({"negative_sampling": False}, "negative"),
        ({"hard_sampling": False}, "hard"),
        ({"per_label": 3}, "label_wise"),
        ({"anchor_fraction": 0.1}, ""),
    ):
        found = draws(**changes)
        for key in every:
            assert (found[key] == every[key]) == (key[0] != moved)


def test_it_chooses_from_a_first_look_by_disagreement():
    """Documents that members agree on come only by chance; of the others, all are candidates."""
    pool = pool_of()
    logits, disputed = np.full_like(pool.logits, 0.1), pool.unlabelled[::5]
    logits[:, disputed] = np.random.default_rng(0).normal(size=logits[:, disputed].shape)
    limits = {"candidate_limit": 2 * len(disputed), "first_look": len(pool.unlabelled) + 1}
    config = dataclasses.replace(CONFIG, per_label=None, hard_size=None, **limits)
    pool = pool._replace(logits=logits)
    strategy, key = get_strategy("crab"), jax.random.key(2)
    drawn = pool.looking_at(strategy.look(key, pool.unlabelled, 10, config, pool.logits.shape[1]))
    assert len(drawn.candidates) == len(pool.unlabelled)
    narrowed = strategy.narrowed(key, drawn, 10, config)
    assert len(narrowed.candidates) == 2 * len(disputed)
    assert set(disputed) < set(narrowed.candidates)
    np.testing.assert_array_equal(narrowed.unlabelled, drawn.unlabelled)  # a uniform sample still
    part = drawn._replace(look=drawn.looked._replace(candidates=pool.unlabelled[3:]))
    assert set(disputed[1:]) < set(strategy.narrowed(key, part, 10, config).candidates)
    found = strategy(key, pool, 10, config)
    assert sum(found.info["candidates"].values()) == 2 * len(disputed)
    np.testing.assert_array_equal(found.indices, strategy(key, narrowed, 10, config).indices)
    assert strategy.narrowed(key, narrowed, 10, config) is narrowed
    assert get_strategy("entropy").narrowed(key, drawn, 10, config) is drawn
    small = dataclasses.replace(config, first_look=pool.logits.shape[1])  # for larger pools only
    assert len(strategy.look(key, pool.unlabelled, 10, small, 300).candidates) == 2 * len(disputed)
    refining = dataclasses.replace(config, per_label=5)
    assert strategy.narrowed(key, drawn, 10, refining) is drawn


def test_limits_and_attention_that_change_nothing_leave_the_query_alone():
    everything = query(pool_of(), CONFIG)
    unlimited = query(pool_of(), dataclasses.replace(CONFIG, candidate_limit=None))
    np.testing.assert_array_equal(unlimited.indices, everything.indices)
