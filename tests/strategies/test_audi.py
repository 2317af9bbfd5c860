import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.config import StrategyConfig
from crabjax.strategies import Pool, audi, get_strategy
from crabjax.strategies.audi import Pairs, Ranking, fit_ranking, label_values


@pytest.fixture
def learnable():
    """Features [160, 8] and labels [160, 4] that one linear map decides."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(160, 8)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, features @ generator.normal(size=(8, 4)) > 0.3


def test_ranking_learns_which_labels_are_above_the_threshold(learnable):
    features, labels = learnable
    ranking = fit_ranking(features[:120], labels[:120], np.random.default_rng(1))
    values = label_values(ranking, features[120:])
    accuracy = np.mean((values[:, :-1] > values[:, -1:]) == labels[120:])
    assert accuracy > max(0.85, 1 - labels.mean() + 0.1)


def test_values_are_the_best_prototype_of_each_label():
    generator = np.random.default_rng(0)
    projection = generator.normal(size=(7, 3)).astype(np.float32)
    prototypes = generator.normal(size=(4, 5, 7)).astype(np.float32)
    features = generator.normal(size=(6, 3)).astype(np.float32)
    found = label_values(Ranking(jnp.asarray(projection), jnp.asarray(prototypes)), features)
    for document, values in zip(features, found):
        expected = [max(b @ (projection @ document) for b in label) for label in prototypes]
        np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


def slow_step(projection, prototypes, pair, draws, rival):
    """One update, given which irrelevant label violated the margin, and when."""
    hidden = projection @ pair.features
    values = prototypes @ hidden
    own, other = values[pair.label].argmax(), values[rival].argmax()
    rank = int(pair.irrelevant.sum()) // draws
    size = 0.05 * sum(1.0 / i for i in range(1, rank + 1))
    pull = prototypes[pair.label, own] - prototypes[rival, other]
    projection = projection + size * np.outer(pull, pair.features)
    prototypes = prototypes.copy()
    prototypes[pair.label, own] += size * hidden
    prototypes[rival, other] -= size * hidden
    return projection, prototypes


def one_pair(uniform: float, irrelevant: list[bool]) -> tuple[Ranking, Pairs]:
    generator = np.random.default_rng(3)
    ranking = Ranking(
        jnp.asarray(0.1 * generator.normal(size=(4, 3)), jnp.float32),
        jnp.asarray(0.1 * generator.normal(size=(5, 5, 4)), jnp.float32),
    )
    uniforms = np.array([uniform, 0.2, 0.9, 0.3, 0.8, 0.5], np.float32)
    features = generator.normal(size=3).astype(np.float32)
    pair = (features, np.int32(0), np.array(irrelevant), np.float32(0.25), uniforms)
    return ranking, Pairs(*(jnp.asarray(part)[None] for part in pair))


def run(ranking: Ranking, pairs: Pairs):
    copy = jax.tree.map(jnp.array, ranking)
    return audi._run_block(copy, jax.tree.map(jnp.zeros_like, ranking), pairs)


def test_one_step_by_hand():
    # All four irrelevant labels violate: the first draw meets one, and 0.9 makes it label 1.
    ranking, pairs = one_pair(0.5, [False, True, True, True, True])
    current, missed = run(ranking, pairs)
    first = jax.tree.map(lambda part: np.asarray(part)[0], pairs)
    start = (np.asarray(ranking.projection), np.asarray(ranking.prototypes))
    expected = slow_step(*start, first, draws=1, rival=1)
    for found, lacking, before, after in zip(current, missed, start, expected):
        np.testing.assert_allclose(found, after, atol=1e-6)
        np.testing.assert_allclose(lacking, 0.25 * (after - before), atol=1e-6)


def test_nothing_to_rank_changes_nothing():
    ranking, pairs = one_pair(0.5, [False] * 5)
    for found, expected in zip(run(ranking, pairs)[0], ranking):
        np.testing.assert_array_equal(found, expected)


def test_a_margin_that_holds_changes_nothing():
    ranking, pairs = one_pair(0.5, [False, True, True, True, True])
    hidden = ranking.projection @ pairs.features[0]
    prototypes = ranking.prototypes.at[0, 0].set(2 * hidden / jnp.vdot(hidden, hidden))
    ranking = Ranking(ranking.projection, prototypes)
    for found, expected in zip(run(ranking, pairs)[0], ranking):
        np.testing.assert_array_equal(found, expected)


def test_draws_match_drawing_labels_one_by_one():
    """The share of draws that find a violator at draw v, and the weights that follow."""
    generator = np.random.default_rng(0)
    irrelevant, violators, trials = 6, 2, 20_000
    values = np.full((irrelevant + 1, 5), -5.0, np.float32)
    values[1 : 1 + violators] = 0.0
    values[0] = 0.0
    uniforms = 1 - generator.random((trials, irrelevant + 2), dtype=np.float32)
    mask = jnp.asarray([False] + [True] * irrelevant)

    def size(uniform):
        pair = Pairs(jnp.zeros(1), jnp.int32(0), mask, jnp.float32(0), uniform)
        return audi._violation(jnp.asarray(values), pair)[2]

    found = np.asarray(jax.jit(jax.vmap(size))(uniforms)) / audi._STEP_SIZE
    drawn = generator.integers(irrelevant, size=(trials, irrelevant)) < violators
    first = drawn.argmax(axis=1) + 1
    harmonic = np.cumsum(1.0 / np.arange(1, irrelevant + 1))
    expected = np.where(drawn.any(axis=1), harmonic[irrelevant // first - 1], 0.0)
    assert abs(found.mean() - expected.mean()) < 0.03
    np.testing.assert_allclose(np.unique(found.round(4)), np.unique(expected.round(4)), rtol=1e-3)


@pytest.mark.parametrize(
    ("uniform", "weight"),  # four labels, one violator: draw v has v - 1 misses of chance 3/4
    [(0.8, 1 + 1 / 2 + 1 / 3 + 1 / 4), (0.7, 1 + 1 / 2), (0.5, 1), (0.4, 1), (0.3, 0)],
)
def test_the_first_random_number_decides_which_draw_finds_the_violator(uniform, weight):
    values = np.full((5, 5), -2.0, np.float32)
    values[0, 3], values[2, 1] = 0.0, -0.5
    _, pairs = one_pair(uniform, [False, True, True, True, True])
    pair = jax.tree.map(lambda part: part[0], pairs)
    own, rival, size = audi._violation(jnp.asarray(values), pair)
    np.testing.assert_allclose(size, 0.05 * weight, rtol=1e-6)
    assert (*map(int, own), *map(int, rival)) == (0, 3, 2, 1)


def test_starting_values_have_variance_one_over_width(learnable, monkeypatch):
    monkeypatch.setattr(audi, "_run_block", lambda current, missed, pairs: (current, missed))
    features, labels = learnable
    start = fit_ranking(features, labels, np.random.default_rng(0))
    for part, shape in zip(start, ((200, 8), (5, 5, 200))):
        assert part.shape == shape
        assert np.std(part) == pytest.approx(1 / np.sqrt(8), rel=0.1)


def test_queries_inconsistent_cardinality_then_uncertain_labels(monkeypatch):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(30, 4)).astype(np.float32)
    labels = generator.random((30, 3)) < 0.3
    labelled, unlabelled = np.arange(8), np.arange(10, 30)
    values = generator.normal(size=(20, 4))  # of three labels and the threshold
    values[3, 0] = values[3, 3]  # a label that ties with the threshold is not relevant
    fitted_on = []

    def record(features, labels, _):
        fitted_on.extend([features, labels])
        return "ranking"

    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    monkeypatch.setattr(audi, "fit_ranking", record)
    monkeypatch.setattr(audi, "label_values", lambda ranking, rows: values)
    pool = Pool(np.zeros((1, 30, 3), np.float32), labels, labelled, unlabelled, features)
    found = get_strategy("audi")(jax.random.key(0), pool, 12, StrategyConfig())

    np.testing.assert_allclose(fitted_on[0], unit[:8], rtol=1e-5)
    np.testing.assert_array_equal(fitted_on[1], labels[:8])
    usual = labels[:8].sum() / 8
    ranked = []
    for document, (*of_labels, threshold) in zip(unlabelled, values):
        cardinality = sum(value > threshold for value in of_labels)
        nearest = min(abs(value - threshold) for value in of_labels)
        ranked.append((-abs(cardinality - usual), nearest, document))
    assert found.indices.tolist() == [document for *_, document in sorted(ranked)[:12]]


def test_averaging_equals_the_mean_over_steps(learnable, monkeypatch):
    features, labels = (part[:12, :3] for part in learnable)
    fitted = fit_ranking(features, labels, np.random.default_rng(5))
    steps = []
    run_block = audi._run_block

    def record(current, missed, pairs):
        for step in range(audi._BLOCK_SIZE):
            one = Pairs(*(part[step : step + 1] for part in pairs))
            current, missed = run_block(current, missed, one)
            steps.append(jax.tree.map(np.array, current))
        return current, missed

    monkeypatch.setattr(audi, "_run_block", record)
    fit_ranking(features, labels, np.random.default_rng(5))
    steps = steps[: 10 * (12 + int(labels.sum()))]  # ten passes; what comes after is padding
    for found, parts in zip(fitted, zip(*steps)):
        np.testing.assert_allclose(found, np.mean(parts, axis=0), rtol=1e-3, atol=1e-4)
