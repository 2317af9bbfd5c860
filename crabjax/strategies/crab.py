"""CRAB: correlation-aware active learning with beta scoring rules."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import expit

from crabjax.config import StrategyConfig
from crabjax.keys import draw_up_to, host_generator
from crabjax.pool.decay import decay_factor
from crabjax.pool.kmeans import kmeans_picks
from crabjax.pool.look import sample_size
from crabjax.pool.refine import SOURCES, Draw, refine_pool
from crabjax.pool.score import pool_gains, pool_totals, released_gains
from crabjax.pool.select import kept_count, normalised, select_diverse
from crabjax.scoring.beta import BetaRule
from crabjax.scoring.correlation import (
    Correlation,
    attention_label_weights,
    correlation_attention,
)
from crabjax.strategies.base import Selection, register
from crabjax.strategies.common import beliefs_of, revealed_labels
from crabjax.strategies.given import Pool

Rows = Callable[[np.ndarray], np.ndarray]
"""From documents [X] to their rows of S, [X, P], or to the sums of these, [X]."""


class Scorer(NamedTuple):
    """Gains on one draw of anchors."""

    gains_of: Rows
    totals_of: Rows  # much less to move and to hold, where rows are not needed
    anchors: int

    def knowing(self, documents: np.ndarray, gains: np.ndarray) -> "Scorer":
        """The same once the rows of all documents are known: nothing is scored again."""
        gains_of = _looked_up(documents, gains)
        totals_of = _looked_up(documents, gains.sum(axis=1))
        return Scorer(gains_of, totals_of, self.anchors)


@register(
    "crab",
    needs_features=lambda config: config.cluster == "features",
    needs_disagreement=True,
    needs_anchors=True,
    needs_labelled=False,
    needs_all=lambda config: _refines(config),
    narrows=True,
)
def crab(key: jax.Array, pool: Pool, query_size: int, config: StrategyConfig) -> Selection:
    """Refines the pool by label correlations, weights gains by label, spreads out by k-means.

    Qi, Lu, Yang, Enticott and Du (UAI 2025), docs/method.md 2 to 7. By default the three sets of
    the refined pool are not cut down, which leaves all that is looked at, and k-means tells
    documents apart by their vectors instead of their gains; ``preset: paper`` does as the paper
    does. Labels rarer than ``min_support`` do not correlate. With heads on frozen vectors gains of
    rare labels count for more by default, in place of those of correlated ones.

    Returns:
      The selection; its info holds ``candidates``, how many came from each source, and
      ``score_spread``, how far apart their scores are.
    """
    correlation, traits = beliefs_of(pool, config)
    if len(pool.candidates) < len(pool.unlabelled):  # the rest are anchors only
        traits = traits.at(np.searchsorted(pool.unlabelled, pool.candidates))
    scorer = _scorer(pool, correlation, config)

    def random_draw(documents, count, source, label=0):
        return draw_up_to(host_generator(key, source, label), documents, count)

    hard_size = config.hard_size
    if hard_size is not None:
        decay = decay_factor(pool.round, pool.rounds, config.decay, config.decay_power)
        hard_size = round(decay * hard_size)
    draw = random_draw
    if config.draw == "kmeans":
        gains = scorer.gains_of(pool.candidates)
        scorer = scorer.knowing(pool.candidates, gains)
        draw = _kmeans_draw(_looked_up(pool.candidates, normalised(gains)), key)
    candidates = refine_pool(
        traits, pool.candidates, query_size, hard_size, config, draw, random_draw
    )
    limit = sample_size(query_size, config)  # of a refined pool: of all of U it was drawn before
    candidates = candidates.at_most(limit, host_generator(key, "limit"))
    if config.cluster == "features":
        assert pool.features is not None  # the registration asks for them
        totals = scorer.totals_of(candidates.documents)
        vectors = pool.features[candidates.documents]
    else:
        vectors = scorer.gains_of(candidates.documents)
        totals = vectors.sum(axis=1)
    kept = kept_count(len(totals), query_size, len(pool.labelled), config)
    picks = select_diverse(totals, vectors, query_size, kept, host_generator(key, "cluster"))
    info = {"candidates": candidates.per_source(), "score_spread": _relative_spread(totals)}
    sources = [SOURCES[source] for source in candidates.sources[picks]]
    return Selection(candidates.documents[picks], info, totals[picks] / scorer.anchors, sources)


def _refines(config: StrategyConfig) -> bool:
    """Whether pseudo labels say which documents are candidates: those of all of U, then."""
    cut_down = config.per_label is not None or config.hard_size is not None
    return cut_down or not config.hard_sampling


def _scorer(pool: Pool, correlation: Correlation, config: StrategyConfig) -> Scorer:
    """Gains on the anchors of a pool."""
    anchors, rule = pool.anchors, BetaRule(config.alpha, config.beta)
    weights = _label_weights(pool, correlation, config)
    score = lambda kernel: lambda some: kernel(pool.logits, some, anchors, rule, weights)
    if config.score == "released":
        gains_of = score(released_gains)
        return Scorer(gains_of, lambda some: gains_of(some).sum(axis=1), anchors.count)
    return Scorer(score(pool_gains), score(pool_totals), anchors.count)


def _label_weights(pool: Pool, correlation: Correlation, config: StrategyConfig) -> np.ndarray:
    """What the gains of each label count for, [K].

    A decision about a label moves macro-F1 by one over the documents that have it, micro-F1 alike
    for all labels; a ``rarity`` of 0.5 lies halfway.
    """
    weights = np.ones(pool.labels.shape[1])
    if config.rarity:
        members = (expit(member[pool.unlabelled]).mean(axis=0) for member in pool.logits)
        rates = np.mean(list(members), axis=0)
        expected = revealed_labels(pool).sum(axis=0) + rates * pool.looked.unlabelled
        documents = 1 + expected  # one more: never none
        weights = (documents / documents.mean()) ** -config.rarity
    if config.attention:
        attention = correlation_attention(correlation.positive, config.gamma, config.attention_norm)
        weights = weights * np.asarray(attention_label_weights(attention))
    return weights


def _relative_spread(totals: np.ndarray) -> float:
    """Largest minus smallest row sum of S, relative to their mean; 0 where all are zero."""
    totals = totals.astype(np.float64)
    return float(np.ptp(totals) / np.abs(totals).mean()) if totals.any() else 0.0


def _looked_up(known: np.ndarray, rows: np.ndarray) -> Rows:
    """Of rows [X, ...] that are known for documents [X], which are sorted."""
    return lambda documents: rows[np.searchsorted(known, documents)]


def _kmeans_draw(embeddings_of: Rows, key: jax.Array) -> Draw:
    """Draws the documents nearest the centres of their gain vectors: the paper's ablation."""

    def draw(documents, count, source, label=0):
        if count is None:
            return documents
        generator = host_generator(key, source, label)
        return documents[kmeans_picks(embeddings_of(documents), count, generator)]

    return draw
