"""Predictions of all documents: read, predicted and written at the same time, window by window."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
from scipy.special import expit

from crabjax.ensemble import predict_logits
from crabjax.files.store import Blocks, Plan, blocks_of, fingerprint, kept
from crabjax.models import Model, Params

_WINDOW = 1 << 12  # documents at once: sorted by length together; a stop costs their time
_LOGITS = 1 << 24  # numbers of a window's logits at most

Item = TypeVar("Item")


def stream_probabilities(
    path: Path | None,
    origin: str,
    model: Model,
    params: Params,
    inputs: np.ndarray,
    labels: int,
    batch_size: int | None,
) -> np.ndarray:
    """The ensemble's mean probabilities of all documents, float32 [N, K], in a file.

    While a window is predicted, the next one is read and the last one written. A second start with
    the same documents and parameters goes on where the first was stopped.

    Args:
      path: of the file; None for memory.
      origin: a hash of what the documents and parameters follow from.
      model: the classifier.
      params: of its members, with a leading axis M.
      inputs: [N, ...], perhaps mapped.
      labels: K.
      batch_size: documents a compiled call takes; None for as many as there is memory for.
    """
    leaves = jax.tree.leaves(params)
    most = max(_LOGITS // (len(leaves[0]) * labels), 1)
    rows = min(_WINDOW, 1 << (most.bit_length() - 1))

    def blocks(start: int) -> Blocks:
        read = ahead(blocks_of(inputs[start:], rows))
        predict = lambda window: expit(predict_logits(model, params, window, batch_size))
        for probabilities in ahead(predict(window).mean(axis=0) for window in read):
            yield slice(start, start + len(probabilities)), probabilities
            start += len(probabilities)

    plan = Plan(
        f"{origin} {fingerprint(*map(np.asarray, leaves))}", (len(inputs), labels), "float32"
    )
    return kept(path, plan, blocks, "predicting all documents")


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; the next one is made in another thread while one is in use."""
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, iterator, end)
            yield item  # type: ignore[misc]
