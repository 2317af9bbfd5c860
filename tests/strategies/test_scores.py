"""Strategies whose score fits in a line: cmal, entropy, bald, epig, coreset."""

import jax
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import entropy as shannon

from crabjax.config import StrategyConfig
from crabjax.strategies import Pool, get_strategy
from crabjax.strategies.bald import mutual_information
from crabjax.strategies.cmal import cmal_scores
from crabjax.strategies.entropy import predictive_entropy


def binary(p):
    return shannon([p, 1 - p])


def test_entropy_and_bald_by_their_definitions():
    logits = np.random.default_rng(0).normal(0, 2, size=(4, 6, 3)).astype(np.float32)
    members = expit(logits.astype(np.float64))
    of_mean = np.vectorize(binary)(members.mean(axis=0))
    of_members = np.vectorize(binary)(members).mean(axis=0)
    np.testing.assert_allclose(predictive_entropy(logits), of_mean.sum(axis=1), rtol=1e-5)
    expected = (of_mean - of_members).mean(axis=1)
    np.testing.assert_allclose(mutual_information(logits), expected, rtol=1e-3, atol=1e-6)


def slow_cmal(probabilities, labels):
    n, label_count = labels.shape
    count = labels.sum(axis=0)
    scores = []
    for row in probabilities:
        score = 0.0
        for k in range(label_count):
            above = below = 0.0
            for b in range(label_count):
                both = (labels[:, k] & labels[:, b]).sum()
                cosine = both / np.sqrt(count[k] * count[b]) if count[k] and count[b] else 0.0
                if row[b] >= 0.75 or row[b] <= 0.25:
                    below += cosine
                    above += cosine * (row[b] > 0.5)
            explained = above / (below + 1e-12)
            score += (1 - abs(2 * row[k] - 1)) * (1 - explained) / (1 + count[k] / n)
        scores.append(score)
    return scores


def test_cmal_label_by_label():
    generator = np.random.default_rng(0)
    labels = generator.random((15, 5)) < 0.4
    labels[:, 3] = np.arange(15) == 0
    labels[:, 4] = False
    probabilities = generator.random((20, 5))
    probabilities[0] = [0.25, 0.75, 0.5, 0.3, 0.7]  # just confident, and not
    found = cmal_scores(probabilities, labels)
    np.testing.assert_allclose(found, slow_cmal(probabilities, labels), rtol=1e-9)


def test_cmal_prefers_what_correlated_labels_do_not_explain():
    labels = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]], dtype=bool)
    explained, unexplained = [0.5, 0.9, 0.1], [0.5, 0.1, 0.9]
    scores = cmal_scores(np.array([explained, unexplained]), labels)
    assert scores[1] > scores[0]


def test_coreset_takes_the_farthest_then_the_next_farthest():
    features = np.array([[0.0], [1.0], [10.0], [9.5], [-6.0], [0.1]], np.float32)
    pool = Pool(
        logits=np.zeros((1, 6, 2), np.float32),
        labels=np.zeros((6, 2), bool),
        labelled=np.array([0]),
        unlabelled=np.arange(1, 6),
        features=features,
    )
    picks = get_strategy("coreset")(jax.random.key(0), pool, 3, StrategyConfig())
    np.testing.assert_array_equal(picks.indices, [2, 4, 1])


def test_epig_prefers_disagreement_that_other_documents_share():
    # Members disagree on documents 0 to 9 about label 0; on document 10 about a label that no
    # other document leaves open; the rest is agreed on.
    logits = np.full((2, 20, 2), -4.0, np.float32)
    logits[0, :10, 0], logits[1, :10, 0] = 2.0, -2.0
    logits[0, 10, 1], logits[1, 10, 1] = 4.0, -4.0
    everything = np.arange(20)
    pool = Pool(logits, np.zeros((20, 2), bool), everything[:0], everything)
    config = StrategyConfig(anchor_fraction=1.0)
    picks = get_strategy("epig")(jax.random.key(0), pool, 10, config)
    assert set(picks.indices.tolist()) == set(range(10))
    assert 10 in get_strategy("bald")(jax.random.key(0), pool, 1, config).indices


@pytest.mark.parametrize("at_once", [256, 3])
def test_coreset_equals_greedy_search_by_distance(monkeypatch, at_once):
    monkeypatch.setattr("crabjax.strategies.coreset._LABELLED_AT_ONCE", at_once)
    features = np.random.default_rng(0).normal(2, 1, (30, 2)).astype(np.float32)
    centres, left = list(range(8)), list(range(8, 30))
    pool = Pool(
        logits=np.zeros((1, 30, 2), np.float32),
        labels=np.zeros((30, 2), bool),
        labelled=np.array(centres),
        unlabelled=np.array(left),
        features=features,
    )
    found = get_strategy("coreset")(jax.random.key(0), pool, 9, StrategyConfig()).indices
    for pick in found:
        gaps = np.linalg.norm(features[left][:, None] - features[centres], axis=2).min(axis=1)
        assert pick == left[gaps.argmax()]
        centres.append(pick)
        left.remove(pick)


def test_epig_scores_are_mutual_information():
    logits = np.random.default_rng(0).normal(0, 2, (3, 12, 2)).astype(np.float32)
    unlabelled = np.arange(2, 12)
    pool = Pool(logits, np.zeros((12, 2), bool), np.arange(2), unlabelled)
    config = StrategyConfig(anchor_fraction=1.0)
    found = get_strategy("epig")(jax.random.key(0), pool, 4, config)
    members = expit(logits[:, unlabelled].astype(np.float64))
    outcomes = np.stack([members, 1 - members])  # [y, E, u, K]
    joint = np.einsum("yexk,zepk->yzxpk", outcomes, outcomes) / 3
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    scores = (joint * np.log(joint / apart)).sum(axis=(0, 1, 4)).mean(axis=1)
    best = np.argsort(-scores)[:4]
    np.testing.assert_array_equal(found.indices, unlabelled[best])
    assert found.scores is not None
    np.testing.assert_allclose(found.scores, scores[best], rtol=1e-4)
