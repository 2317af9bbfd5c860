"""Random text with the lengths and word frequencies of news, for benchmarks of classifiers."""

from typing import NamedTuple

import numpy as np

_FIRST_LABEL_WORD = 30  # common enough that a label has documents, rare enough that not all


class Corpus(NamedTuple):
    """Random documents int32 [N, T] and labels bool [N, K] that words decide."""

    tokens: np.ndarray
    labels: np.ndarray


def random_corpus(
    documents: int, tokens: int, vocabulary: int, labels: int, seed: int = 0
) -> Corpus:
    """Lengths log-normal around 95 words; word frequencies after Zipf and Mandelbrot.

    Args:
      documents: N.
      tokens: T, at which longer documents end.
      vocabulary: word ids run from 2 to this, exclusive.
      labels: K; a document has a label if it holds the label's word.
      seed: of all draws.
    """
    generator = np.random.default_rng(seed)
    lengths = np.exp(generator.normal(np.log(95), 0.9, documents)).clip(min(5, tokens), tokens)
    frequency = 1 / (np.arange(vocabulary - 2) + 2.7)
    drawn = generator.choice(vocabulary - 2, (documents, tokens), p=frequency / frequency.sum())
    live = np.arange(tokens)[None, :] < lengths[:, None]
    words = np.where(live, drawn + 2, 0).astype(np.int32)
    chosen = np.arange(_FIRST_LABEL_WORD, _FIRST_LABEL_WORD + labels)
    return Corpus(words, np.stack([(words == word).any(axis=1) for word in chosen], axis=1))
