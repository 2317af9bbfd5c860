"""Reduces a corpus to its most frequent labels, a size and an imbalance (RCV1-T10-r)."""

from collections.abc import Callable

import numpy as np

from crabjax.data.corpus import Corpus
from crabjax.data.statistics import IMBALANCES
from crabjax.files import DataError

TOLERANCE = 0.02  # relative, of the imbalance reached
RAREST = 3  # documents that every label keeps
_PROPOSALS = 512  # exchanges of two documents that are compared in one step
_PATIENCE = 20  # steps without a better exchange after which the search ends


Imbalance = Callable[[np.ndarray], np.ndarray]


def frequent_labels(corpus: Corpus, labels: int) -> tuple[str, ...]:
    """The ``labels`` most frequent labels, sorted by name.

    Raises:
      DataError: if the corpus has fewer.
    """
    names = corpus.label_names
    if len(names) < labels:
        raise DataError(f"{corpus.split}: {labels} labels asked for, found {len(names)}")
    counts = corpus.label_matrix(names).sum(axis=0)
    order = sorted(range(len(names)), key=lambda k: (-counts[k], names[k]))
    return tuple(sorted(names[k] for k in order[:labels]))


def resample(
    corpus: Corpus,
    label_names: tuple[str, ...],
    size: int,
    target: float,
    seed: int,
    measure: str = "mean_to_smallest",
) -> Corpus:
    """Draws ``size`` documents over ``label_names`` whose imbalance is ``target``.

    Starts from a random draw and exchanges documents for better ones: first towards label counts
    that follow the corpus's own order of labels, stretched or squeezed to the target, then
    towards the target itself. Only documents with at least one of the labels take part.

    Args:
      corpus: to draw from.
      label_names: the labels to keep.
      size: documents.
      target: at least 1.
      seed: of the draw.
      measure: of imbalance, one of ``IMBALANCES``.

    Raises:
      DataError: if there are too few documents, or the target cannot be met within 2%, with
        the nearest that was found.
    """
    if not 1 <= target < np.inf:
        raise DataError(f"{corpus.split}: expected an imbalance of at least 1, found {target:g}")
    labels = corpus.label_matrix(label_names)  # [N, K]
    usable = np.flatnonzero(labels.any(axis=1))
    if len(usable) < size:
        raise DataError(
            f"{corpus.split}: {size} documents asked for, found {len(usable)} with one of the "
            f"{len(label_names)} labels"
        )
    random = np.random.default_rng(seed)
    usable = random.permutation(usable)
    imbalance = IMBALANCES[measure]
    chosen = usable[_search(labels[usable].astype(np.int64), size, target, imbalance, random)]
    found = float(imbalance(np.maximum(labels[chosen].sum(axis=0), 1)))
    if abs(found / target - 1) > TOLERANCE:
        raise DataError(
            f"{corpus.split}: {size} of {len(usable)} documents cannot have {measure} {target:g}; "
            f"the nearest found is {found:.2f}. Ask for that, or for fewer documents"
        )
    return corpus.select(np.sort(chosen).tolist(), label_names)


def target_counts(
    counts: np.ndarray, size: int, total: int, target: float, imbalance: Imbalance
) -> np.ndarray:
    """The counts of ``total`` documents to a power that meets the target, for ``size``.  # [K]"""
    ratios = counts.max() / np.maximum(counts, 1)
    if ratios.max() == 1:
        ratios = np.linspace(1.0, 2.0, len(ratios))
    low, high, power = 0.0, 50.0, 1.0
    for _ in range(60):
        power = (low + high) / 2
        low, high = (power, high) if imbalance(ratios**-power) < target else (low, power)
    shares = ratios**-power
    return np.maximum(shares * counts.sum() * size / total / shares.sum(), RAREST)


def _search(rows: np.ndarray, size: int, target: float, imbalance: Imbalance, random) -> np.ndarray:
    """Positions of ``size`` of the label rows [N, K], as near the target as exchanges bring them.

    The first ones are the random draw to start from, so rows come in random order.
    """
    wanted = target_counts(rows.sum(axis=0), size, len(rows), target, imbalance)

    def shape_error(counts: np.ndarray) -> np.ndarray:
        return np.square(np.log(np.maximum(counts, 0.5) / wanted)).sum(axis=-1)

    def target_error(counts: np.ndarray) -> np.ndarray:
        found = imbalance(np.maximum(counts, 1))
        return np.abs(np.log(found / target)) + 1e3 * (counts < RAREST).any(axis=-1)

    order = _exchange(rows, np.arange(len(rows)), size, shape_error, random)
    return _exchange(rows, order, size, target_error, random)[:size]


def _exchange(rows: np.ndarray, order: np.ndarray, size: int, error, random) -> np.ndarray:
    """Exchanges members (the first ``size`` of ``order``) for others while the error falls."""
    order = order.copy()
    counts = rows[order[:size]].sum(axis=0)  # [K]
    best, idle = float(error(counts)), 0
    while best > 1e-3 and idle < _PATIENCE and size < len(order):
        leaving = random.integers(0, size, _PROPOSALS)
        coming = random.integers(size, len(order), _PROPOSALS)
        proposed = counts[None, :] + rows[order[coming]] - rows[order[leaving]]  # [proposals, K]
        errors = error(proposed)
        choice = int(np.argmin(errors))
        if errors[choice] >= best:
            idle += 1
            continue
        best, counts, idle = float(errors[choice]), proposed[choice], 0
        out, new = leaving[choice], coming[choice]
        order[out], order[new] = order[new], order[out]
    return order
