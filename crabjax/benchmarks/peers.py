"""A query by our strategies next to those of other packages, on the same member probabilities.

Seconds from the members' probabilities to the chosen documents; nobody trains or predicts. What
each package has for several labels differs, so these are times, not a ranking of strategies:
small-text 1.4.1 has one strategy for several labels (CategoryVectorInconsistencyAndRanking), its
other ones take the labels' probabilities for a distribution; scikit-activeml 1.0.1 and baal 2.1.0
have scores for classes that exclude each other, taken here label by label and summed. Ours, and
theirs that cluster or cover, also get random document vectors. On a machine with other work set
OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1: threads that wait for each other make these up to 40 times
slower.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from crabjax.benchmarks.common import Row, measure
from crabjax.benchmarks.scoring import ensemble_probabilities
from crabjax.integrations import MissingExtraError, ask
from crabjax.integrations.common import require
from crabjax.integrations.small_text import Predicted

OURS = ("crab", "besra", "epig", "bald", "entropy", "coreset", "random")
SMALL_TEXT = (
    "CategoryVectorInconsistencyAndRanking", "PredictionEntropy", "BreakingTies",
    "LeastConfidence", "BALD", "EmbeddingKMeans", "RandomSampling",
)  # fmt: skip
Queries = Iterator[tuple[str, Callable[[], Any]]]


class Given(NamedTuple):
    """What every strategy may read."""

    members: np.ndarray  # float32 [E, N, K]
    features: np.ndarray  # float32 [N, D]
    labels: np.ndarray  # int [n, K]
    labelled: np.ndarray  # int [n]
    unlabelled: np.ndarray  # int [u]
    query: int


def run(arguments: argparse.Namespace) -> list[Row]:
    """One row a strategy; packages that are not installed are left out, with a note."""
    given = _given(arguments)
    packages = {
        "crabjax": _ours,
        "small-text": _small_text,
        "scikit-activeml": _skactiveml,
        "modAL": _modal,
        "baal": _baal,
    }
    rows = []
    for package, queries in packages.items():
        try:
            for name, query in queries(given):
                rows.append(_row(package, name, query, arguments))
        except MissingExtraError as error:
            print(f"note: {package} is left out: {error}")
    return rows


def _row(package: str, name: str, query: Callable[[], Any], arguments) -> Row:
    timing = measure(query, repeats=arguments.repeats)
    sizes = {key: getattr(arguments, key) for key in ("documents", "labels", "members", "query")}
    times = {"seconds": timing.median, "spread": timing.spread, "compile s": timing.compile}
    return {"package": package, "strategy": name, **sizes, **times}


def _given(arguments: argparse.Namespace) -> Given:
    rows, labels = arguments.documents, arguments.labels
    members, _ = ensemble_probabilities(arguments.members, rows, 1, labels)
    random = np.random.default_rng(1)
    features = random.standard_normal((rows, arguments.features), np.float32)
    order = random.permutation(rows)
    labelled = np.sort(order[: arguments.labelled])
    known = (random.random((len(labelled), labels)) < members[:, labelled].mean(axis=0)).astype(int)
    unlabelled = np.sort(order[arguments.labelled :])
    return Given(members, features, known, labelled, unlabelled, arguments.query)


def _ours(given: Given) -> Queries:
    known = given.members, given.labels, given.labelled, given.query
    for name in OURS:
        yield name, lambda name=name: ask(name, *known, features=given.features).indices


def _small_text(given: Given) -> Queries:
    small_text = require("small_text", "small-text")
    known = Predicted(given.members, given.features)
    rows, labels = np.arange(given.members.shape[1]), csr_matrix(given.labels)
    split = known, rows, given.unlabelled, given.labelled, labels
    for name in SMALL_TEXT:
        options = {"pbar": None} if name.startswith("Category") else {}
        strategy = getattr(small_text, name)(**options)
        yield name, lambda one=strategy: one.query(*split, n=given.query)


def _skactiveml(given: Given) -> Queries:
    pool = require("skactiveml.pool", "skactiveml")
    members = given.members[:, given.unlabelled]
    mean = members.mean(axis=0, dtype=np.float64)

    def entropy(k: int) -> np.ndarray:
        return pool.uncertainty_scores(np.stack([1 - mean[:, k], mean[:, k]], 1), method="entropy")

    def divergence(k: int) -> np.ndarray:
        return pool.average_kl_divergence(np.stack([1 - members[..., k], members[..., k]], 2))

    scores = {"uncertainty_scores, entropy": entropy, "average_kl_divergence": divergence}
    for name, score in scores.items():
        yield name, lambda one=score: _best(sum(map(one, range(mean.shape[1]))), given)
    y = np.full(len(given.features), np.nan)
    y[given.labelled] = 0
    cover = pool.CoreSet(random_state=0)
    yield "CoreSet", lambda: cover.query(given.features, y, batch_size=given.query)


def _modal(given: Given) -> Queries:
    multilabel = require("modAL.multilabel", "modal")
    known = Predicted(given.members)
    for name in ("min_confidence", "avg_confidence"):
        query = getattr(multilabel, name)
        yield name, lambda one=query: one(known, given.unlabelled, given.query)


def _baal(given: Given) -> Queries:
    heuristics = require("baal.active.heuristics", "baal")
    chances = np.moveaxis(given.members[:, given.unlabelled], 0, 2)  # [u, K, E]
    binary = np.stack([1 - chances, chances], axis=1)  # [u, 2, K, E]
    for name in ("BALD", "Entropy"):
        heuristic = getattr(heuristics, name)(reduction="sum")
        yield name, lambda one=heuristic: given.unlabelled[one(binary)[: given.query]]


def _best(scores: Any, given: Given) -> np.ndarray:
    return given.unlabelled[np.argsort(-scores)[: given.query]]
