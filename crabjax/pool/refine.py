"""Pool refinement: from the unlabelled pool U to the candidates U* (docs/method.md 6)."""

import math
from typing import NamedTuple, Protocol

import numpy as np

from crabjax.config import StrategyConfig
from crabjax.scoring.correlation import (
    Correlation,
    drop_implied_labels,
    has_exclusive_pair,
    has_no_label,
    pseudo_labels,
)

SOURCES = ("label_wise", "negative", "hard", "fill")


class Draw(Protocol):
    """Up to ``count`` of ``documents``, without replacement; all if None.

    ``source`` is one of SOURCES, ``label`` the label the documents are drawn for, if any.
    """

    def __call__(
        self, documents: np.ndarray, count: int | None, source: str, label: int = 0
    ) -> np.ndarray: ...


class PoolTraits(NamedTuple):
    """What the pseudo labels say about each unlabelled document that was looked at."""

    carries: np.ndarray  # bool [u, K], pseudo labels without the implied ones
    negative: np.ndarray  # bool [u], carries two labels that exclude each other
    hard: np.ndarray  # bool [u], carries no label at all

    def at(self, places: np.ndarray) -> "PoolTraits":
        """Those of some of the documents."""
        return PoolTraits(*(trait[places] for trait in self))

    def left(self, unlabelled: int) -> dict[str, float]:
        """How many documents of U are hard to learn, and how many negatively correlated.

        Counted where these are the traits of all of U; of a uniform sample, estimated with its
        standard error, and named so.

        Args:
          unlabelled: how many documents U has.
        """
        found = {}
        for name, trait in (("hard_left", self.hard), ("negative_left", self.negative)):
            if len(trait) == unlabelled:
                found[name] = int(trait.sum())
                continue
            share, sample = float(trait.mean()), len(trait)
            unseen = 1 - sample / unlabelled  # without replacement: a full count has no error
            variance = share * (1 - share) / max(sample - 1, 1) * unseen
            found[f"estimated_{name}"] = share * unlabelled
            found[f"{name}_standard_error"] = unlabelled * math.sqrt(variance)
        return found


class Beliefs(NamedTuple):
    """What labelled documents and ensemble say of the unlabelled ones, before any is scored."""

    correlation: Correlation  # of the labelled documents
    traits: PoolTraits  # of the unlabelled ones


class Candidates(NamedTuple):
    """U*, and which set each document came from; the first one, if several."""

    documents: np.ndarray  # int64 [X], sorted
    sources: np.ndarray  # int64 [X], positions in SOURCES

    def at_most(self, limit: int | None, generator: np.random.Generator) -> "Candidates":
        """``limit`` of them, drawn at random; all if fewer, or if None."""
        if limit is None or len(self.documents) <= limit:
            return self
        kept = np.sort(generator.choice(len(self.documents), limit, replace=False))
        return Candidates(self.documents[kept], self.sources[kept])

    def per_source(self) -> dict[str, int]:
        """The number of candidates from each source."""
        counts = np.bincount(self.sources, minlength=len(SOURCES))
        return dict(zip(SOURCES, counts.tolist()))


def pool_traits(
    probabilities: np.ndarray,
    correlation: Correlation,
    unlabelled: np.ndarray,
    config: StrategyConfig,
) -> PoolTraits:
    """Reads pseudo labels against the correlations of the labelled data.

    Args:
      probabilities: float [N, K], the members' mean: N stays the same in every round where u does
        not, and so the kernels compile once.
      correlation: of the labelled documents.
      unlabelled: int64 [u], places in the axis N.
      config: thresholds, and whether implied labels are removed.
    """
    pseudo = pseudo_labels(probabilities)  # [N, K]
    carries = pseudo
    if config.asymmetric_removal:
        carries = drop_implied_labels(pseudo, correlation.positive, config.sigma)
    negative = has_exclusive_pair(pseudo, correlation.negative, config.two_sigma)
    traits = (carries, negative, has_no_label(pseudo))
    return PoolTraits(*(np.asarray(trait)[unlabelled] for trait in traits))


def refine_pool(
    traits: PoolTraits,
    unlabelled: np.ndarray,
    query_size: int,
    hard_size: int | None,
    config: StrategyConfig,
    draw: Draw,
    fill: Draw,
) -> Candidates:
    """Draws label-wise, negatively correlated and hard-to-learn documents and unites them.

    Args:
      traits: of the unlabelled documents.
      unlabelled: int64 [u], sorted.
      query_size: the most negatively correlated documents drawn, and the fewest candidates
        returned: fewer are filled up from the rest of U. At most u.
      hard_size: Z_t, the most hard-to-learn documents drawn; all if None.
      config: ``per_label`` and the switches for negative and hard-to-learn sampling.
      draw: how each of the three sets is drawn.
      fill: how the rest is drawn.
    """
    columns = np.ascontiguousarray(traits.carries.T)  # [K, u]
    drawn = [
        draw(unlabelled[column], config.per_label, "label_wise", label)
        for label, column in enumerate(columns)
    ]
    negative_size = query_size if config.negative_sampling else 0
    sets = [
        np.concatenate(drawn),
        draw(unlabelled[traits.negative], negative_size, "negative"),
        draw(unlabelled[traits.hard], hard_size if config.hard_sampling else 0, "hard"),
    ]
    undrawn = np.ones(len(unlabelled), bool)
    # Sorted, so places are found without sorting all of U again, which would take the most time.
    undrawn[np.searchsorted(unlabelled, np.concatenate(sets))] = False
    rest = unlabelled[undrawn]
    missing = query_size - (len(unlabelled) - len(rest))
    sets.append(fill(rest, max(0, missing), "fill"))
    sources = np.repeat(np.arange(len(SOURCES)), [len(one) for one in sets])
    documents, first = np.unique(np.concatenate(sets), return_index=True)
    return Candidates(documents, sources[first])
