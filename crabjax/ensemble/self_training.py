"""Self-training: an ensemble learns from unlabelled documents with the labels another gives them.

A strategy has documents labelled that are in doubt. What a classifier then knows least of is what
the rest look like, of which it is sure (Lee 2013, "Pseudo-Label").
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import expit

from crabjax.devices.mesh import fetch
from crabjax.ensemble.predict import predict_logits
from crabjax.ensemble.rows import Needed
from crabjax.files.store import gather
from crabjax.models import Model, Params
from crabjax.thresholds import expected_f1_threshold


class Guesses(NamedTuple):
    """Documents of every seed, with labels that nobody gave.

    Attributes:
      documents: int64 [S, G], rows of the training set.
      labels: bool [S, G, K].
    """

    documents: np.ndarray
    labels: np.ndarray


def no_guesses(seeds: int, labels: int) -> Guesses:
    """Of S seeds and K labels, none."""
    return Guesses(np.zeros((seeds, 0), np.int64), np.zeros((seeds, 0, labels), bool))


def beside(seeds: int, first: Any, second: Any) -> Any:
    """Trees of the members of S seeds, seed-major [S * E, ...] twice, as one, [S * 2 E, ...].

    On the host: cut over devices in this order, members would have to move between them.
    """

    def joined(*leaves):
        apart = [leaf.reshape(seeds, -1, *leaf.shape[1:]) for leaf in map(fetch, leaves)]
        return np.concatenate(apart, axis=1).reshape(-1, *leaves[0].shape[1:])

    return jax.tree.map(joined, first, second)


def guess_some(
    model: Model,
    params: Params,
    inputs: Any,
    unlabelled: Any,
    wanted: int,
    generator: np.random.Generator,
    batch_size: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws documents at random, twice as many as are wanted, and guesses the surer half.

    Args:
      model: the classifier.
      params: of the members, [E, ...].
      inputs: the training set [N, ...]; may be a file that is mapped into memory.
      unlabelled: U, rows of it [u].
      wanted: G, at most; half of U if that is fewer.
      generator: draws.
      batch_size: documents predicted at once.

    Returns:
      See :func:`guess`.
    """
    documents = draw_to_guess(generator, unlabelled, wanted)
    return guess(predict_logits(model, params, gather(inputs, documents), batch_size), documents)


def draw_to_guess(generator: np.random.Generator, unlabelled: Any, guesses: int) -> np.ndarray:
    """Documents drawn from U [u] at random to guess the labels of half of them, int64, sorted."""
    size = len(unlabelled)
    places = generator.choice(size, min(2 * guesses, size), replace=False)
    return unlabelled[np.sort(places)]


def guess(logits: np.ndarray, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The half of some documents whose labels are least in doubt, and these labels.

    Doubt is the variance of a document's labels under the mean probability, ``sum_k p (1 - p)``;
    a label is given above the threshold that maximises the F1 expected over all of the documents.

    Args:
      logits: of the members, [E, X, K].
      documents: int64 [X].

    Returns:
      int64 [X // 2] of the documents, and bool [X // 2, K].
    """
    mean = expit(logits).mean(axis=0)
    doubt = np.sum(mean * (1 - mean), axis=1)
    sure = np.argsort(doubt, kind="stable")[: len(documents) // 2]
    return documents[sure], mean[sure] > expected_f1_threshold(mean).value


def with_guesses(needed: Needed, inputs: Any, guesses: Guesses, capacity: int) -> Needed:
    """What a fit reads, with guessed labels after the given ones.

    Args:
      needed: of the M models of S seeds, seed-major, or of one model each.
      inputs: the training set [N, ...]; may be a file that is mapped into memory.
      guesses: for the models of each seed.
      capacity: the most guesses there can be in any round, G at least: one shape, one program.

    Returns:
      The same with S * capacity documents more, and rows [M, C + capacity]; 0 changes nothing.
    """
    if capacity == 0:
        return needed
    seeds, count = guesses.documents.shape
    first = len(needed.inputs)
    found = gather(inputs, guesses.documents.ravel())
    more = np.zeros((seeds, capacity, *needed.inputs.shape[1:]), needed.inputs.dtype)
    more[:, :count] = found.reshape(seeds, count, *more.shape[2:])
    labels = np.zeros((seeds, capacity, guesses.labels.shape[2]), bool)
    labels[:, :count] = guesses.labels
    models, width = needed.train_rows.shape
    given = np.reshape(needed.train_counts, (-1, 1))  # [M, 1]
    place = np.arange(width + capacity) - given  # [M, C + capacity], among the guesses
    seed = np.arange(models)[:, None] // (models // seeds)
    guessed = np.where((place >= 0) & (place < count), first + seed * capacity + place, 0)
    own = np.pad(needed.train_rows, ((0, 0), (0, capacity)))
    return Needed(
        np.concatenate([np.asarray(needed.inputs), more.reshape(-1, *more.shape[2:])]),
        np.concatenate([needed.labels, labels.reshape(-1, labels.shape[2])]),
        np.where(place < 0, own, guessed).astype(np.int32),
        np.asarray(needed.train_counts) + np.int32(count),
        needed.validation_rows,
    )
