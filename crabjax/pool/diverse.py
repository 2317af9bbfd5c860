"""Documents that stand for a whole corpus: the first batch, when nothing is labelled yet."""

from typing import NamedTuple

import jax
import numpy as np

from crabjax.data.lsa import latent_words
from crabjax.files.store import gather
from crabjax.keys import host_generator
from crabjax.pool.kmeans import kmeans_picks
from crabjax.pool.look import AllBut
from crabjax.pool.select import normalised

_DIMENSIONS = 64
_COVERED = 3000  # documents that a batch covers; of more, a sample: the cost stays the same


class FirstBatch(NamedTuple):
    """Rows of all documents, distinct.

    Attributes:
      covering: int64 [n - n // 2], each nearest to a k-means centre.
      drawn: int64 [n // 2], at random: they show how frequent labels are.
    """

    covering: np.ndarray
    drawn: np.ndarray


def first_batch(
    key: jax.Array, inputs: np.ndarray, unlabelled: np.ndarray | AllBut, count: int
) -> FirstBatch:
    """Half of a batch at random, the other half so that it covers what is left.

    The random half begins the order in which ``key`` draws the whole pool; what is covered comes
    next in that order.

    Args:
      key: of the draw.
      inputs: [N, ...], all documents: tokens or vectors; may be mapped.
      unlabelled: int64 [u], the rows to choose from.
      count: n, fewer if there are fewer.
    """
    order = host_generator(key).permutation(len(unlabelled))
    count = min(count, len(order))
    half = count // 2
    covered = unlabelled[np.sort(order[half : half + max(_COVERED, count)])]
    generator = host_generator(key, "cluster")
    picks = diverse_picks(gather(inputs, covered), count - half, generator)
    return FirstBatch(covered[picks], unlabelled[order[:half]])


def diverse_picks(inputs: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Positions of ``count`` distinct documents, each nearest to a k-means centre of all.

    Args:
      inputs: token ids int [X, T], 0 is padding, or document vectors float [X, D].
      count: the number of picks; all X documents if it is larger.
      generator: draws the starting centres.

    Returns:
      int64 [min(count, X)].
    """
    tokens = np.issubdtype(inputs.dtype, np.integer)
    vectors = latent_words(inputs, _DIMENSIONS).of(inputs) if tokens else inputs
    return kmeans_picks(normalised(vectors), count, generator)
