"""The built-in corpus: a two-level label hierarchy with the imbalance and correlation asked for.

Every document has a primary root label and may have further roots; below each root it has at
most one leaf, so leaves imply their root and the leaves of one root exclude each other. A word is
drawn from the topic of one of the document's labels or, with probability ``noise_words``, from a
background that all documents share. Label noise exchanges the label sets of some training
documents, which leaves every label statistic as it was.
"""

from typing import NamedTuple

import numpy as np

from crabjax.config import SyntheticConfig
from crabjax.data.corpus import Corpus
from crabjax.data.documents import TOKEN_SEPARATOR
from crabjax.data.statistics import IMBALANCES, corr_avg, joint_corr_avg, mean_ir
from crabjax.files import DataError

MEAN_IR_TOLERANCE = 0.05  # relative, of the training labels
CORR_AVG_TOLERANCE = 0.01  # absolute
LEAF_CHANCE = 0.8  # a document with a root has one of its leaves
TOPIC_SHARE = 0.05  # of the vocabulary, in each topic; topics overlap
_RAREST = 5  # training documents that the rarest label must have
_STEEPEST = 20.0
_CHUNK = 10_000  # documents whose words are drawn at once; bounds memory


class LabelModel(NamedTuple):
    """Probabilities that fix how often labels occur, alone and together.

    Attributes:
      primary: of each root to be the document's primary one.  # [R], sums to 1
      extra: of each root to be added where it is not the primary one.  # [R]
      leaf: of each leaf given its root; the same for every root.  # [L], sums to LEAF_CHANCE
    """

    primary: np.ndarray
    extra: np.ndarray
    leaf: np.ndarray


def make_synthetic(config: SyntheticConfig) -> tuple[Corpus, Corpus]:
    """Generates the training and the test corpus; equal settings give equal corpora.

    Raises:
      DataError: if MeanIR or CorrAvg cannot be had with these settings, saying what can.
    """
    model = solve_label_model(config)
    seeds = np.random.SeedSequence(config.seed).spawn(3)
    topics, train_random, test_random = (np.random.default_rng(seed) for seed in seeds)
    train_labels = draw_labels(model, config.documents, train_random)
    test_labels = draw_labels(model, config.test_documents, test_random)
    _check_reached(config, train_labels)
    words = _Words(config, train_labels.shape[1], topics)
    train = words.documents(train_labels, train_random)
    test = words.documents(test_labels, test_random)
    noisy = exchange_labels(train_labels, config.label_noise, train_random)
    names = label_names(config.roots, config.leaves_per_root)
    return (
        Corpus(train, _label_sets(noisy, names), True, "train"),
        Corpus(test, _label_sets(test_labels, names), True, "test"),
    )


def label_names(roots: int, leaves: int) -> tuple[str, ...]:
    """Roots first, then the leaves of each root."""
    tops = [f"root{r}" for r in range(roots)]
    return tuple(tops + [f"{top}.leaf{leaf}" for top in tops for leaf in range(leaves)])


def solve_label_model(config: SyntheticConfig) -> LabelModel:
    """The label model whose expected MeanIR and CorrAvg are those of the settings.

    How steeply frequencies fall decides MeanIR, how often roots are added CorrAvg; each is
    monotone in its own parameter, so two nested bisections find both.
    """

    def model_at(steepness: float) -> LabelModel:
        scale = _bisect(
            lambda scale: joint_corr_avg(expected_joint(_model(config, steepness, scale))),
            config.corr_avg,
        )
        return _model(config, steepness, scale)

    def imbalance(steepness: float) -> float:
        return count_expected_ir(expected_joint(model_at(steepness * _STEEPEST)))

    model = model_at(_bisect(imbalance, config.mean_ir) * _STEEPEST)
    _check_reachable(config, model, imbalance)
    return model


def expected_joint(model: LabelModel) -> np.ndarray:
    """P(y^m = 1 and y^n = 1), the diagonal P(y^n = 1), in closed form.  # [K, K]"""
    first, extra = model.primary, model.extra
    both = np.outer(first, extra) + np.outer(extra, first)
    both += (1 - first[:, None] - first[None, :]) * np.outer(extra, extra)
    np.fill_diagonal(both, first + (1 - first) * extra)  # [R, R]
    roots, leaves = len(first), len(model.leaf)
    given_root = np.kron(np.eye(roots), model.leaf[None, :])  # [R, R * L]
    with_leaf = both @ given_root  # a leaf depends on nothing but its own root
    leaf_pairs = given_root.T @ with_leaf
    own = np.kron(np.eye(roots), np.ones((leaves, leaves)))
    leaf_pairs = np.where(own == 1, 0.0, leaf_pairs) + np.diag(np.diagonal(both) @ given_root)
    return np.block([[both, with_leaf], [with_leaf.T, leaf_pairs]])


def count_expected_ir(joint: np.ndarray) -> float:
    """MeanIR of expected frequencies."""
    return float(IMBALANCES["mean_ir"](np.diagonal(joint)))


def draw_labels(model: LabelModel, documents: int, random: np.random.Generator) -> np.ndarray:
    """Draws label rows whose label counts are the expected ones, rounded.  # bool [N, K]"""
    roots, leaves = len(model.primary), len(model.leaf)
    primary = np.repeat(np.arange(roots), apportion(model.primary, documents))
    random.shuffle(primary)
    has_root = primary[:, None] == np.arange(roots)[None, :]  # [N, R]
    for root in range(roots):
        others = np.flatnonzero(primary != root)
        added = random.permutation(others)[: round(model.extra[root] * len(others))]
        has_root[added, root] = True
    has_leaf = np.zeros((documents, roots, leaves), dtype=bool)
    for root in range(roots):
        rows = random.permutation(np.flatnonzero(has_root[:, root]))
        quotas = apportion(np.append(model.leaf, 1 - model.leaf.sum()), len(rows))
        leaf_of = np.repeat(np.arange(leaves + 1), quotas)  # the last stands for no leaf
        has_leaf[rows, root] = leaf_of[:, None] == np.arange(leaves)[None, :]
    return np.concatenate([has_root, has_leaf.reshape(documents, -1)], axis=1)


def apportion(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers that sum to ``total`` and differ from ``shares * total`` by less than 1."""
    exact = shares / shares.sum() * total
    whole = np.floor(exact + 1e-9).astype(np.int64)
    largest = np.argsort(whole - exact, kind="stable")[: total - whole.sum()]
    whole[largest] += 1
    return whole


def exchange_labels(labels: np.ndarray, share: float, random: np.random.Generator) -> np.ndarray:
    """Gives a random ``share`` of the documents the label row of another of them.  # bool [N, K]"""
    rows = random.permutation(len(labels))[: round(share * len(labels))]
    noisy = labels.copy()
    noisy[rows] = labels[np.roll(rows, 1)]
    return noisy


class _Words:
    """The topics of a corpus, and documents drawn from them."""

    def __init__(self, config: SyntheticConfig, labels: int, random: np.random.Generator):
        size = max(10, round(TOPIC_SHARE * config.vocabulary))
        self.config = config
        self.spelling = np.array([spell(number) for number in range(config.vocabulary)], object)
        shuffled = [random.permutation(config.vocabulary) for _ in range(labels)]
        self.topics = np.stack([order[:size] for order in shuffled])  # [K, topic size]
        self.background = random.permutation(config.vocabulary)

    def documents(self, labels: np.ndarray, random: np.random.Generator) -> list[str]:
        """Tokens joined by the separator, one string a row of ``labels``."""
        chunks = range(0, len(labels), _CHUNK)
        return [
            document
            for start in chunks
            for document in self._chunk(labels[start : start + _CHUNK], random)
        ]

    def _chunk(self, labels: np.ndarray, random: np.random.Generator) -> list[str]:
        lengths = np.maximum(2, random.gamma(8.0, self.config.length / 8.0, len(labels)).round())
        ends = np.cumsum(lengths.astype(np.int64))
        owner = np.repeat(np.arange(len(labels)), lengths.astype(np.int64))
        _, label_list = np.nonzero(labels)  # the labels of row 0, of row 1, ...
        counts = labels.sum(axis=1)
        offsets = np.cumsum(counts) - counts
        picked = (random.random(len(owner)) * counts[owner]).astype(np.int64)
        topic = label_list[offsets[owner] + picked]
        signal = self.topics[topic, _zipf(self.topics.shape[1], len(owner), random)]
        noise = self.background[_zipf(len(self.background), len(owner), random)]
        numbers = np.where(random.random(len(owner)) < self.config.noise_words, noise, signal)
        words = self.spelling[numbers].tolist()
        starts = (ends - lengths.astype(np.int64)).tolist()
        return [TOKEN_SEPARATOR.join(words[a:b]) for a, b in zip(starts, ends.tolist())]


def spell(number: int) -> str:
    """A pronounceable word for each number: its digits in base 100, a syllable each."""
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]
    word = syllables[number % 100]
    while number := number // 100:
        word = syllables[number % 100] + word
    return word


def _zipf(size: int, draws: int, random: np.random.Generator) -> np.ndarray:
    """Ranks from 0 with probability proportional to 1 / (rank + 5).  # int64 [draws]"""
    cumulative = np.cumsum(1.0 / (np.arange(size) + 5.0))
    return np.searchsorted(cumulative, random.random(draws) * cumulative[-1], side="right")


def _label_sets(labels: np.ndarray, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    unique, which = np.unique(labels, axis=0, return_inverse=True)
    sets = [tuple(sorted(names[k] for k in np.flatnonzero(row))) for row in unique]
    return [sets[number] for number in which.reshape(-1)]


def _model(config: SyntheticConfig, steepness: float, scale: float) -> LabelModel:
    """Frequencies fall geometrically; ``scale`` goes from no extra roots to all of them."""
    primary = np.exp(-steepness * np.linspace(0.0, 1.0, config.roots))
    leaf = np.exp(-steepness * np.linspace(0.0, 1.0, config.leaves_per_root))
    primary, leaf = primary / primary.sum(), LEAF_CHANCE * leaf / max(leaf.sum(), 1e-12)
    extra = np.minimum(1.0, primary / primary.max() * scale / max(1e-12, 1 - scale))
    return LabelModel(primary, extra, leaf)


def _bisect(function, target: float) -> float:
    """The argument in [0, 1] at which an increasing function reaches ``target``, or the end."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return (low + high) / 2


def _check_reachable(config: SyntheticConfig, model: LabelModel, imbalance) -> None:
    joint = expected_joint(model)
    shape = f"{config.roots} roots with {config.leaves_per_root} leaves each"
    if abs(joint_corr_avg(joint) - config.corr_avg) > CORR_AVG_TOLERANCE:
        none, all_ = (model._replace(extra=np.full_like(model.extra, e)) for e in (0.0, 1.0))
        low, high = (joint_corr_avg(expected_joint(one)) for one in (none, all_))
        raise DataError(
            f"synthetic.corr_avg: {shape} and mean_ir {config.mean_ir:g} allow "
            f"{low:.3f} to {high:.3f}, found {config.corr_avg:g}"
        )
    if abs(count_expected_ir(joint) / config.mean_ir - 1) > MEAN_IR_TOLERANCE:
        raise DataError(
            f"synthetic.mean_ir: {shape} and corr_avg {config.corr_avg:g} allow "
            f"{imbalance(0.0):.2f} and more, found {config.mean_ir:g}"
        )
    if (rarest := np.diagonal(joint).min() * config.documents) < _RAREST:
        raise DataError(
            f"synthetic.documents: mean_ir {config.mean_ir:g} leaves {rarest:.1f} documents to "
            f"the rarest label, at least {_RAREST} are needed; use at least "
            f"{int(np.ceil(config.documents * _RAREST / rarest))} documents or a lower mean_ir"
        )


def _check_reached(config: SyntheticConfig, labels: np.ndarray) -> None:
    found_ir, found_corr = mean_ir(labels), corr_avg(labels)
    if (
        abs(found_ir / config.mean_ir - 1) > MEAN_IR_TOLERANCE
        or abs(found_corr - config.corr_avg) > CORR_AVG_TOLERANCE
    ):
        raise DataError(
            f"synthetic: {config.documents} documents give MeanIR {found_ir:.2f} and CorrAvg "
            f"{found_corr:.3f}, expected {config.mean_ir:g} and {config.corr_avg:g}; use more "
            "documents"
        )
