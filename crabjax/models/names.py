"""Label names as a prior: what a document's likeness to a label's name adds to its logit."""

import functools

import jax
import jax.numpy as jnp

from crabjax.models.base import Model, Params

START = 0.5  # what a standard deviation of likeness adds to a logit before anything is learnt
_WEIGHT = "name_weight"


@functools.cache
def with_name_prior(head: Model, width: int) -> Model:
    """A classifier of vectors [B, D] as one of vectors and likenesses to names [B, D + K].

    Logits are those of the head plus a weight, one number a member, times the likenesses. The
    parameter is how far the weight has moved from 0.5, so weight decay pulls it back to there, not
    to where names say nothing. Document vectors are the head's: no likeness is part of them.

    Args:
      head: the classifier of [B, D]; equal ones give the same object.
      width: D.
    """

    def init(key: jax.Array) -> Params:
        return {**head.init(key), _WEIGHT: jnp.zeros(())}

    def apply(params: Params, inputs: jax.Array, key: jax.Array | None = None) -> jax.Array:
        weight = START + params[_WEIGHT]
        return head.apply(_of_head(params), inputs[:, :width], key) + weight * inputs[:, width:]

    def features(params: Params, inputs: jax.Array) -> jax.Array:
        return head.features(_of_head(params), inputs[:, :width])

    return Model(init, apply, features)


def _of_head(params: Params) -> Params:
    return {name: own for name, own in params.items() if name != _WEIGHT}
