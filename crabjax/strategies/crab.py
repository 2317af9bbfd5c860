"""CRAB: correlation-aware active learning with beta scoring rules."""

from collections.abc import Callable

import jax
import numpy as np

from crabjax.config import StrategyConfig
from crabjax.keys import draw_up_to, host_generator
from crabjax.pool.decay import decay_factor
from crabjax.pool.kmeans import kmeans_picks
from crabjax.pool.refine import SOURCES, Draw, refine_pool
from crabjax.pool.score import draw_anchors, pool_gains, released_gains
from crabjax.pool.select import normalised, select_diverse
from crabjax.scoring.beta import BetaRule
from crabjax.scoring.correlation import (
    Correlation,
    attention_label_weights,
    correlation_attention,
)
from crabjax.strategies.base import Pool, Selection, register
from crabjax.strategies.common import beliefs_of

Rows = Callable[[np.ndarray], np.ndarray]
"""From documents [X] to their rows of S, [X, P]."""


@register(
    "crab",
    needs_features=lambda config: config.cluster == "features",
    needs_disagreement=True,
)
def crab(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """Refines the pool by label correlations, scores with attention, spreads out by k-means.

    Qi, Lu, Yang, Enticott and Du (UAI 2025), docs/method.md 2 to 7. By default the three sets of
    the refined pool are not cut down, which leaves all of U, and k-means tells documents apart by
    their vectors instead of their gains; ``preset: paper`` does as the paper does. Labels rarer
    than ``min_support`` do not correlate, and in the first ``representative_rounds`` k-means sees
    every candidate, not only the better ones.

    Returns:
      The selection; its info holds ``candidates``, how many came from each source, and
      ``score_spread``, how far apart their scores are.
    """
    correlation, traits = beliefs_of(pool, config)
    gains_of = _scorer(pool, correlation, config, host_generator(key, "anchors"))

    def random_draw(documents, count, source, label=0):
        return draw_up_to(host_generator(key, source, label), documents, count)

    hard_size = config.hard_size
    if hard_size is not None:
        decay = decay_factor(pool.round, pool.rounds, config.decay, config.decay_power)
        hard_size = round(decay * hard_size)
    draw = random_draw
    if config.draw == "kmeans":
        gains = gains_of(pool.unlabelled)
        gains_of = _looked_up(pool.unlabelled, gains)
        draw = _kmeans_draw(_looked_up(pool.unlabelled, normalised(gains)), key)
    candidates = refine_pool(
        traits, pool.unlabelled, query_size, hard_size, config, draw, random_draw
    )
    limit = config.candidate_limit
    limit = limit and max(limit, query_size)
    candidates = candidates.at_most(limit, host_generator(key, "limit"))
    gains = gains_of(candidates.documents)
    vectors = gains
    if config.cluster == "features":
        assert pool.features is not None  # the registration asks for them
        vectors = pool.features[candidates.documents]
    keep = 1.0 if pool.round < config.representative_rounds else config.keep_fraction
    picks = select_diverse(gains, vectors, query_size, keep, host_generator(key, "cluster"))
    info = {"candidates": candidates.per_source(), "score_spread": _relative_spread(gains)}
    sources = [SOURCES[source] for source in candidates.sources[picks]]
    return Selection(candidates.documents[picks], info, gains[picks].mean(axis=1), sources)


def _scorer(
    pool: Pool, correlation: Correlation, config: StrategyConfig, generator: np.random.Generator
) -> Rows:
    """Gains on one draw of anchors."""
    anchors = draw_anchors(pool.logits, pool.unlabelled, config.anchor_fraction, generator)
    rule = BetaRule(config.alpha, config.beta)
    weights = None
    if config.attention:
        attention = correlation_attention(correlation.positive, config.gamma, config.attention_norm)
        weights = np.asarray(attention_label_weights(attention))
    gains = released_gains if config.score == "released" else pool_gains
    return lambda documents: gains(pool.logits, documents, anchors, rule, weights)


def _relative_spread(gains: np.ndarray) -> float:
    """Largest minus smallest row sum of S, relative to their mean; 0 where all are zero."""
    totals = gains.sum(axis=1, dtype=np.float64)
    return float(np.ptp(totals) / np.abs(totals).mean()) if totals.any() else 0.0


def _looked_up(unlabelled: np.ndarray, rows: np.ndarray) -> Rows:
    """Of rows [u, P] that are known for all unlabelled documents [u], which are sorted."""
    return lambda documents: rows[np.searchsorted(unlabelled, documents)]


def _kmeans_draw(embeddings_of: Rows, key: jax.Array) -> Draw:
    """Draws the documents nearest the centres of their gain vectors: the paper's ablation."""

    def draw(documents, count, source, label=0):
        if count is None:
            return documents
        generator = host_generator(key, source, label)
        return documents[kmeans_picks(embeddings_of(documents), count, generator)]

    return draw
