"""How many labels, how unevenly, how correlated (docs/method.md 9)."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from crabjax.checks import check_rank
from crabjax.data.corpus import Corpus


@dataclass(frozen=True)
class Statistics:
    """What is reported of a corpus; ``label_counts`` goes from frequent to rare."""

    documents: int
    labels: int
    words: float  # mean per document
    vocabulary: int
    cardinality: float
    density: float
    mean_ir: float
    mean_to_smallest: float
    corr_avg: float
    without_labels: int
    label_counts: dict[str, int]

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)

    def table(self) -> str:
        """Two aligned columns, the label counts below."""
        head = [
            ("documents", f"{self.documents}"),
            ("labels", f"{self.labels}"),
            ("words per document", f"{self.words:.1f}"),
            ("distinct words", f"{self.vocabulary}"),
            ("cardinality", f"{self.cardinality:.2f}"),
            ("density", f"{self.density:.3f}"),
            ("MeanIR", f"{self.mean_ir:.2f}"),
            ("mean / smallest count", f"{self.mean_to_smallest:.2f}"),
            ("CorrAvg", f"{self.corr_avg:.3f}"),
            ("documents without labels", f"{self.without_labels}"),
        ]
        counts = [(f"  {name}", f"{count}") for name, count in self.label_counts.items()]
        lines = [*head, ("documents of each label", ""), *counts]
        left = max(len(name) for name, _ in lines)
        right = max(len(value) for _, value in lines)
        return "\n".join(f"{name:<{left}}  {value:>{right}}".rstrip() for name, value in lines)


def describe(corpus: Corpus) -> Statistics:
    """The statistics of a corpus over the labels that occur in it."""
    names = corpus.label_names
    labels = corpus.label_matrix(names)  # [N, K]
    counts = labels.sum(axis=0)
    total, seen = 0, set()
    for words in corpus.words():
        total += len(words)
        seen.update(words)
    order = sorted(range(len(names)), key=lambda k: (-counts[k], names[k]))
    return Statistics(
        documents=len(corpus),
        labels=len(names),
        words=total / len(corpus),
        vocabulary=len(seen),
        cardinality=cardinality(labels),
        density=cardinality(labels) / max(1, len(names)),
        mean_ir=mean_ir(labels),
        mean_to_smallest=mean_to_smallest(labels),
        corr_avg=corr_avg(labels),
        without_labels=int((~labels.any(axis=1)).sum()),
        label_counts={names[k]: int(counts[k]) for k in order},
    )


def cardinality(labels: np.ndarray) -> float:
    """The mean number of labels of a document.  # bool [N, K]"""
    check_rank("labels", labels, "NK")
    return float(labels.sum() / max(1, len(labels)))


def mean_ir(labels: np.ndarray) -> float:
    """The mean over labels of (count of the largest label / count of this label).  # bool [N, K]

    Charte et al. (2015). A label that no document has counts as if one had it, so that leaving a
    label out never looks like balance: MeanIR is then a lower bound. No labels at all give 1.
    """
    return _imbalance(labels, "mean_ir")


def mean_to_smallest(labels: np.ndarray) -> float:
    """The mean count of a label / the smallest.  # bool [N, K]

    What the paper's tables call MeanIR, by all that can be checked (docs/method.md 9). See
    :func:`mean_ir` for labels nobody has.
    """
    return _imbalance(labels, "mean_to_smallest")


# From positive counts [..., K] to [...].
IMBALANCES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean_ir": lambda counts: np.mean(counts.max(axis=-1, keepdims=True) / counts, axis=-1),
    "mean_to_smallest": lambda counts: counts.mean(axis=-1) / counts.min(axis=-1),
}


def _imbalance(labels: np.ndarray, measure: str) -> float:
    check_rank("labels", labels, "NK")
    counts = np.maximum(labels.sum(axis=0), 1)
    return float(IMBALANCES[measure](counts)) if len(counts) else 1.0


def corr_avg(labels: np.ndarray) -> float:
    """The sum of P(y^m = 1 | y^n = 1) over ordered pairs m != n, divided by K^2.  # bool [N, K]

    A label n that no document has adds nothing.
    """
    check_rank("labels", labels, "NK")
    dense = labels.astype(np.float32)
    together = (dense.T @ dense).astype(np.float64)  # counts below 2^24 are exact in float32
    return joint_corr_avg(together)


def joint_corr_avg(together: np.ndarray) -> float:
    """:func:`corr_avg` from how often labels occur together, the diagonal alone.  # [K, K]"""
    counts = np.diagonal(together)
    conditional = together / np.where(counts > 0, counts, 1.0)[None, :]  # [m, n]
    size = max(1, len(together))
    return float((conditional.sum() - np.diagonal(conditional).sum()) / size**2)
