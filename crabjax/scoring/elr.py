"""Expected loss reduction: what labelling a candidate teaches about the anchors (METHOD section 3).

Observing label k of candidate x re-weights the ensemble members, which moves their mean at anchor
x' from m to ``m + (1-p) v`` when the label is one (probability p) and to ``m - p v`` when it is
zero, where ``v = sum_e (p_e(x) - p) / (p (1-p)) * (p_e(x') - m) / E`` is the distance between both.
The gain is what the entropy H loses by that spread: ``H(m) - p H(m + (1-p) v) - (1-p) H(m - p v)``.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from crabjax.checks import (
    check_not_empty,
    check_probabilities,
    check_rank,
    check_same_size,
    is_concrete,
)
from crabjax.scoring.beta import BetaRule, as_float, entropy


def expected_loss_reduction(
    candidates: ArrayLike,
    anchors: ArrayLike,
    rule: BetaRule = BetaRule(),  # noqa: B008
    label_weights: ArrayLike | None = None,
    chunk_size: int = 256,
) -> jax.Array:
    """Expected reduction of the loss at every anchor, from labelling every candidate.

    Outside jit the candidates go through one compiled program in chunks cut on the host, so their
    number may change from call to call without a recompilation; under jit it is one ``lax.map``.
    Nothing larger than [chunk_size, P] is held besides the result.

    Args:
      candidates: member probabilities of the documents that could be labelled, [E, X, K].
      anchors: member probabilities of the documents the gain is assessed on, [E, P, K]. Anchors
        whose probabilities are all 0 give a column of zeros: padding is free of side effects.
      rule: the scoring rule.
      label_weights: weight of each label's gain, [K]; ones by default.
      chunk_size: candidates scored at once.

    Returns:
      ``sum_k weight_k * gain_k(x, x')``, [X, P]; not negative, up to rounding, for weights >= 0.
    """
    candidates, anchors, label_weights = _checked(candidates, anchors, label_weights, chunk_size)
    if is_concrete(candidates, anchors, label_weights):
        return _score_on_host(candidates, anchors, label_weights, rule, chunk_size)
    return _score_traced(candidates, anchors, label_weights, rule, chunk_size)


def _checked(candidates, anchors, label_weights, chunk_size: int):
    named = {"candidates": (candidates, "EXK"), "anchors": (anchors, "EPK")}
    for name, (array, axes) in named.items():
        check_rank(name, array, axes)
        check_not_empty(name, array)
        check_probabilities(name, array)
    members, _, labels = np.shape(candidates)
    check_same_size("E", "candidates", members, "anchors", np.shape(anchors)[0])
    check_same_size("K", "candidates", labels, "anchors", np.shape(anchors)[2])
    if label_weights is None:
        label_weights = np.ones(labels, np.float32)
    check_rank("label_weights", label_weights, "K")
    check_same_size("K", "candidates", labels, "label_weights", np.shape(label_weights)[0])
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, found {chunk_size}")
    return candidates, anchors, label_weights


def _score_on_host(candidates, anchors, label_weights, rule, chunk_size) -> jax.Array:
    candidates = np.asarray(candidates)
    anchors, label_weights = jnp.asarray(anchors), jnp.asarray(label_weights)
    scores = []
    for start in range(0, candidates.shape[1], chunk_size):
        chunk = candidates[:, start : start + chunk_size]
        missing = chunk_size - chunk.shape[1]
        chunk = np.pad(chunk, ((0, 0), (0, missing), (0, 0)))
        score = _score_chunk(jnp.asarray(chunk), anchors, label_weights, rule)
        scores.append(np.asarray(score)[: chunk_size - missing])
    return jnp.asarray(np.concatenate(scores))


def _score_traced(candidates, anchors, label_weights, rule, chunk_size) -> jax.Array:
    members, count, labels = candidates.shape
    chunk_size = min(chunk_size, count)
    chunks = -(-count // chunk_size)
    padding = ((0, 0), (0, chunks * chunk_size - count), (0, 0))
    padded = jnp.pad(candidates, padding).reshape(members, chunks, chunk_size, labels)
    score = lambda chunk: _score_chunk(chunk, anchors, label_weights, rule)
    return jax.lax.map(score, jnp.moveaxis(padded, 1, 0)).reshape(-1, anchors.shape[1])[:count]


@functools.partial(jax.jit, static_argnums=3)
def _score_chunk(
    candidates: jax.Array, anchors: jax.Array, label_weights: jax.Array, rule: BetaRule
) -> jax.Array:
    """[E, C, K], [E, P, K], [K] -> [C, P], one label at a time."""
    candidates, anchors = as_float(candidates), as_float(anchors)
    if candidates.dtype != anchors.dtype:
        dtype = jnp.promote_types(candidates.dtype, anchors.dtype)
        candidates, anchors = candidates.astype(dtype), anchors.astype(dtype)

    def add_label(total, label):
        candidate, anchor, weight = label  # [E, C], [E, P], []
        return total + weight * _label_gain(candidate, anchor, rule), None

    by_label = (
        jnp.moveaxis(candidates, 2, 0),
        jnp.moveaxis(anchors, 2, 0),
        label_weights.astype(candidates.dtype),
    )
    shape = (candidates.shape[1], anchors.shape[1])
    return jax.lax.scan(add_label, jnp.zeros(shape, candidates.dtype), by_label)[0]


def _label_gain(candidate: jax.Array, anchor: jax.Array, rule: BetaRule) -> jax.Array:
    """The gain of one label, [E, C], [E, P] -> [C, P]."""
    mean_one, mean_zero = jnp.mean(candidate, axis=0), jnp.mean(1 - candidate, axis=0)  # [C]
    certain = (mean_one == 0) | (mean_zero == 0)
    scale = jnp.where(certain, 1, mean_one * mean_zero)
    influence = jnp.where(certain[None], 0, (candidate - mean_one[None]) / scale[None])  # [E, C]
    mean = jnp.mean(anchor, axis=0)  # [P]
    deviation = (anchor - mean[None]) / anchor.shape[0]  # [E, P]
    spread = jnp.einsum("ec,ep->cp", influence, deviation, precision=jax.lax.Precision.HIGHEST)
    mean, mean_one, mean_zero = mean[None], mean_one[:, None], mean_zero[:, None]
    if_one = jnp.clip(mean + mean_zero * spread, 0, 1)
    if_zero = jnp.clip(mean - mean_one * spread, 0, 1)
    after = mean_one * entropy(if_one, rule) + mean_zero * entropy(if_zero, rule)
    return entropy(mean, rule) - after
