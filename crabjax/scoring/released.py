"""The score of the authors' released code, kept to show what is wrong with it (docs/method.md 3).

Every member's own forecast at the anchor is scored against the posterior predictive. That is
linear in the posterior predictive, whose mean over the outcomes of the candidate's label is the
prior predictive: the candidate drops out, and what is left of it is rounding. The released code
adds the same of the forecast 1 - p (docs/method.md 13): one more constant, left out here.
"""

import functools

import jax
import jax.numpy as jnp

from crabjax.scoring.beta import BetaRule, beta_losses
from crabjax.scoring.gain import zero_pairs

_SMALLEST = 1e-12  # keeps the posterior of an outcome that no member expects finite


@functools.partial(jax.jit, static_argnames="rule")
def released_score(
    candidates: jax.Array, anchors: jax.Array, rule: BetaRule, label_weights: jax.Array
) -> jax.Array:
    """Expected score of the members' forecasts, the same for every candidate up to rounding.

    Args:
      candidates: member probabilities [E, X, K].
      anchors: member probabilities [E, P, K].
      rule: the scoring rule.
      label_weights: [K].

    Returns:
      [X, P]; higher is better, never above zero for weights >= 0.
    """

    def add_label(total, label):
        candidate, anchor, weight = label  # [E, X], [E, P], []
        loss1, loss0 = beta_losses(anchor, rule)
        loss1, loss0 = loss1.mean(axis=0)[None], loss0.mean(axis=0)[None]  # [1, P]
        for outcome in (candidate, 1 - candidate):
            posterior = outcome / jnp.maximum(outcome.sum(axis=0, keepdims=True), _SMALLEST)
            predictive = posterior.T @ anchor  # [X, P], Eq. 3
            expected = predictive * loss1 + (1 - predictive) * loss0
            total = total - weight * outcome.mean(axis=0)[:, None] * expected
        return total, None

    by_label = jnp.moveaxis(candidates, 2, 0), jnp.moveaxis(anchors, 2, 0), label_weights
    return jax.lax.scan(add_label, zero_pairs(*by_label), by_label)[0]
