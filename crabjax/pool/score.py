"""Gains of any number of candidates from one compiled program (docs/method.md 3).

The unlabelled pool shrinks every round. The kernel takes candidates in chunks of one size, and
anchors are padded to the most there can be: only values change between rounds.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from scipy.special import expit

from crabjax.devices.batches import in_batches
from crabjax.devices.memory import halve_once, halve_until_it_fits
from crabjax.devices.mesh import ENSEMBLE, POOL, current_mesh, place
from crabjax.devices.program_memory import program_bytes
from crabjax.scoring.beta import BetaRule
from crabjax.scoring.elr import expected_loss_reduction, total_loss_reduction
from crabjax.scoring.released import released_score

CHUNK_SIZE = 512  # candidates, where the memory allows

Kernel = Callable[..., jax.Array]
"""``expected_loss_reduction`` or ``total_loss_reduction``."""


class Anchors(NamedTuple):
    """Unlabelled documents on which gains are assessed, padded to a fixed capacity."""

    probabilities: np.ndarray  # [E, capacity, K], zero beyond `count`
    count: int


def anchors_at(logits: np.ndarray, rows: np.ndarray, capacity: int) -> Anchors:
    """The anchors of a query.

    Args:
      logits: float32 [E, N, K].
      rows: int64 [P], places in the axis N.
      capacity: the most anchors there can be in any round.
    """
    members, _, labels = logits.shape
    probabilities = np.zeros((members, capacity, labels), dtype=np.float32)
    probabilities[:, : len(rows)] = expit(logits[:, rows])
    return Anchors(probabilities, len(rows))


def pool_gains(
    logits: np.ndarray,
    candidates: np.ndarray,
    anchors: Anchors,
    rule: BetaRule,
    label_weights: np.ndarray | None = None,
) -> np.ndarray:
    """The rows of S for the candidates in order, float32 [X, P].

    Args:
      logits: float32 [E, N, K].
      candidates: int64 [X], places in the axis N.
      anchors: the P documents to assess gains on.
      rule: the scoring rule.
      label_weights: float [K], ones if None.
    """
    score = functools.partial(_pool_scores, expected_loss_reduction)
    return score(logits, candidates, anchors, rule, label_weights)[:, : anchors.count]


def pool_totals(
    logits: np.ndarray,
    candidates: np.ndarray,
    anchors: Anchors,
    rule: BetaRule,
    label_weights: np.ndarray | None = None,
) -> np.ndarray:
    """The row sums of :func:`pool_gains`, float32 [X], without its [X, P] rows."""
    return _pool_scores(total_loss_reduction, logits, candidates, anchors, rule, label_weights)


def released_gains(
    logits: np.ndarray,
    candidates: np.ndarray,
    anchors: Anchors,
    rule: BetaRule,
    label_weights: np.ndarray | None = None,
) -> np.ndarray:
    """What the released code has in place of :func:`pool_gains`, for comparison only."""
    weights = np.ones(logits.shape[2]) if label_weights is None else label_weights
    weights = np.asarray(weights, np.float32)

    def score_block(rows: np.ndarray) -> jax.Array:
        block = jnp.moveaxis(jnp.asarray(rows), 0, 1)  # [E, X, K]
        return released_score(block, anchors.probabilities, rule, weights)

    rows = np.moveaxis(expit(logits[:, candidates]), 1, 0)  # [X, E, K]
    return in_batches(score_block, rows, CHUNK_SIZE)[:, : anchors.count]


def _pool_scores(kernel: Kernel, logits, candidates, anchors: Anchors, rule, label_weights):
    probabilities = expit(logits[:, candidates])  # [E, X, K]
    members, _, labels = probabilities.shape
    if label_weights is None:
        label_weights = np.ones(labels, np.float32)
    given = anchors.probabilities, np.asarray(label_weights, np.float32)
    chunk_size = _largest_chunk(members, anchors.probabilities.shape[1], labels, rule)
    score = functools.partial(_score, current_mesh(), kernel, rule, probabilities, *given)
    return halve_once("candidates scored at once", chunk_size, score)


def _score(mesh: Mesh | None, kernel: Kernel, rule, candidates, anchors, weights, chunk_size: int):
    if mesh is None:
        return np.asarray(kernel(candidates, anchors, rule, weights, chunk_size))
    anchors, weights = place(mesh, anchors), place(mesh, weights)

    def score_block(block: np.ndarray) -> jax.Array:
        own = place(mesh, block, (ENSEMBLE, POOL))
        return _score_on_mesh(mesh, kernel, rule, own, anchors, weights)

    rows = np.moveaxis(candidates, 1, 0)  # [X, E, K]
    return in_batches(score_block, rows, chunk_size * mesh.size)


@functools.partial(jax.jit, static_argnames=("mesh", "kernel", "rule"))
def _score_on_mesh(
    mesh: Mesh, kernel: Kernel, rule: BetaRule, candidates, anchors, weights
) -> jax.Array:
    """[X, E, K], [E, P, K], [K] -> [X, P] or [X]: every device scores its own candidates."""

    def score_own(candidates, anchors, weights):
        candidates = jnp.moveaxis(candidates, 0, 1)
        return kernel(candidates, anchors, rule, weights, candidates.shape[1])

    rows = PartitionSpec((ENSEMBLE, POOL))
    specs = {"in_specs": (rows, PartitionSpec(), PartitionSpec()), "out_specs": rows}
    own = jax.shard_map(score_own, mesh=mesh, **specs)
    return own(candidates, anchors, weights)


@functools.cache
def _largest_chunk(members: int, anchors: int, labels: int, rule: BetaRule) -> int:
    """Candidates that a device can score at once; decided, and said, once for the same sizes."""
    shape = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)

    def needed(chunk_size: int) -> int:
        score = functools.partial(expected_loss_reduction, rule=rule, chunk_size=chunk_size)
        sizes = shape((members, chunk_size, labels)), shape((members, anchors, labels))
        return program_bytes(jax.jit(score).trace(*sizes))

    return halve_until_it_fits("candidates scored at once", CHUNK_SIZE, needed)
