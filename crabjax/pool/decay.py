"""How many hard-to-learn documents are looked at, from round to round (docs/method.md 6)."""

import math
from typing import Literal

Decay = Literal["polynomial", "linear", "cosine", "constant"]


def decay_factor(round: int, rounds: int, decay: Decay, power: float = 0.5) -> float:
    """The share of the first round's size that is left in ``round``, counted from 0.

    Args:
      round: t, at least 0; rounds beyond the last count as the last, t = T.
      rounds: T, the number of rounds.
      decay: polynomial ``(1 - t/T)^power``, linear ``1 - t/T``, cosine
        ``(1 + cos(pi t/T)) / 2`` or constant ``1``.
      power: the exponent of the polynomial.
    """
    progress = min(round / rounds, 1.0)
    if decay == "polynomial":
        return (1.0 - progress) ** power
    if decay == "linear":
        return 1.0 - progress
    if decay == "cosine":
        return (1.0 + math.cos(math.pi * progress)) / 2.0
    return 1.0
