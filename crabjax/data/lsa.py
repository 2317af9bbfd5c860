"""Latent semantic analysis: which words documents have, in few numbers (Deerwester et al. 1990).

An encoder's vector says what a document is about. Which words it has, by what they stand with in
the other documents of its pool, says things that no encoder was trained to tell.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from crabjax.data.vectors import unit
from crabjax.files.store import gather
from crabjax.progress import doing

_SAMPLE = 20_000  # documents that directions are read off; all, if there are no more
_ROUNDING = 1e-4  # what is smaller, of what should be one
_PASSES = 5  # over the documents, until the directions stand


class LatentWords(NamedTuple):
    """Describes documents by their words.

    Attributes:
      weights: float32 [V], what a token counts: the rarer the more, and nothing if every document
        has it, or no other than one.
      directions: float32 [V, L], those in which the documents it was made from differ most.
    """

    weights: np.ndarray
    directions: np.ndarray

    def of(self, tokens: np.ndarray) -> np.ndarray:
        """Tokens [n, T], 0 is padding -> float32 [n, L] of length one.

        Zeros where no token counts, and where those that do have nothing to do with any direction.
        """
        rows = _weighted(_counts(tokens, len(self.weights)), self.weights) @ self.directions
        # Of rows of length one so little is rounding, which must not be made to count.
        rows[np.linalg.norm(rows, axis=1) < _ROUNDING] = 0
        return unit(rows)


@doing("reading off which words go together")
def latent_words(tokens: np.ndarray, width: int) -> LatentWords:
    """Reads off a pool's tokens which of them go together.

    Args:
      tokens: int32 [N, T], 0 is padding; of more than 20,000 documents, as many are read, evenly
        spaced.
      width: L; directions beyond the rank of the documents are zeros.
    """
    # Here, because loading it takes a second that not every command need spend.
    from sklearn.utils.extmath import randomized_svd

    read = min(len(tokens), _SAMPLE)
    sample = gather(tokens, np.arange(read) * len(tokens) // read) if read else tokens
    size = int(sample.max(initial=0)) + 1
    counts = _counts(sample, size)
    having = np.bincount(counts.indices, minlength=size)  # documents with each token
    weights = np.where(having > 1, np.log((1 + read) / (1 + having)), 0).astype(np.float32)
    directions = np.zeros((size, width), np.float32)
    matrix, rank = _weighted(counts, weights), min(width, read, size)
    if matrix.nnz:
        passes: Any = _PASSES  # declared as a string
        _, strengths, found = randomized_svd(matrix, rank, n_iter=passes, random_state=0)
        # Beyond the rank of the rows, as with copies, directions are arbitrary.
        directions[:, :rank] = found.T * (strengths > _ROUNDING * strengths[0])
    return LatentWords(weights, directions)


def _counts(tokens: np.ndarray, size: int) -> sparse.csr_matrix:
    """How often documents [n, T] have each token below V, [n, V]; padding is none."""
    known = (tokens != 0) & (tokens < size)
    starts = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    ids = tokens[known]
    counts = sparse.csr_matrix((np.ones(len(ids), np.float32), ids, starts), (len(tokens), size))
    counts.sum_duplicates()
    return counts


def _weighted(counts: sparse.csr_matrix, weights: np.ndarray) -> sparse.csr_matrix:
    """tf-idf, the logarithm of counts times weights, rows of length one; without zeros."""
    own = (1 + np.log(counts.data)) * weights[counts.indices]
    matrix = sparse.csr_matrix((own, counts.indices, counts.indptr), counts.shape)
    matrix.eliminate_zeros()
    squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
    lengths = np.sqrt(np.maximum(squares, np.finfo(np.float32).tiny))
    matrix.data /= np.repeat(lengths, np.diff(matrix.indptr))
    return matrix
