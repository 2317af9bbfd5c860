"""Which labelled documents a model learns from, and which choose its epoch."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

# With 60 to 600 documents, two corpora and two classifiers, an epoch chosen on held-out documents
# was never better in F1 than one chosen on the training documents. With 1000 to 4000, two other
# corpora and a frozen encoder, it was better by 0.004 to 0.035 micro-F1 in 13 runs of 13.
_ALL_TRAIN = 600
_MOST_COMPARED = 1024  # documents; more would tell epochs apart no better, at more cost
_SMALLEST_CAPACITY = 64

Keep = Literal["last", "best"]


class Rows(NamedTuple):
    """Which documents each of M models trains on, and which its epochs are compared on."""

    train_rows: np.ndarray  # int32 [M, C]
    train_counts: np.ndarray  # int32 [M]
    validation_rows: np.ndarray  # int32 [M, V], V = 0 where the last epoch is kept


def held_out_size(documents: int) -> int:
    """None of the first 600, half of what comes after them, until that is an eighth of all."""
    return min(max(0, documents - _ALL_TRAIN) // 2, _enough(documents))


def member_rows(rows: np.ndarray, members: int, generator: np.random.Generator, keep: Keep) -> Rows:
    """All documents for every member, but for those on which it looks for its best epoch.

    Every member holds out another part for that, as far as the documents go round.

    Args:
      rows: int [n], the labelled documents.
      members: E.
      generator: shuffles them.
      keep: which epoch's parameters are kept.
    """
    shuffled = generator.permutation(rows)
    size = held_out_size(len(rows))
    return split_rows([np.roll(shuffled, -size * m) for m in range(members)], len(rows), keep)


def split_rows(parts: Sequence[np.ndarray], largest: int, keep: Keep) -> Rows:
    """What M models train on: all of their parts, where the last epoch is kept.

    Else each holds out the first documents of its part. Epochs are compared on the training
    documents as long as nothing is held out; then held-out documents take their places, one by
    one: a label more never changes the rule at once. Widths are powers of two, so that a program
    is compiled for each doubling of the labels only.

    Args:
      parts: int [n] for each of M models, shuffled.
      largest: at least the longest part.
      keep: which epoch's parameters are kept.
    """
    capacity = 1 << (max(largest, _SMALLEST_CAPACITY) - 1).bit_length()
    train = np.zeros((len(parts), capacity), np.int32)
    counts, validation = np.zeros(len(parts), np.int32), []
    for model, part in enumerate(parts):
        size = held_out_size(len(part)) if keep == "best" else 0
        counts[model] = len(part) - size
        train[model, : counts[model]] = part[size:]
        width = min(capacity, _MOST_COMPARED) if keep == "best" else 0
        validation.append(_compared(part, size, width))
    return Rows(train, counts, np.stack(validation).astype(np.int32))


def _enough(documents: int) -> int:
    """Held-out documents with which no training document is needed to compare epochs."""
    return min(documents // 8, _MOST_COMPARED)


def _compared(part: np.ndarray, held_out: int, width: int) -> np.ndarray:
    """The rows that epochs are compared on, int [width].

    Where they are fewer than their places they are repeated, some once more than others.
    """
    places = width * held_out // max(_enough(len(part)), 1)
    return np.concatenate(
        [np.resize(part[:held_out], places), np.resize(part[held_out:], width - places)]
    )
