"""Functions that take all members at once, seen as functions of one member."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def with_member_axis(function: Callable[..., Any]) -> Callable[..., Any]:
    """One member's view of a function whose arguments and results have a leading axis M.

    vmap hands the members over together instead of going inside. The function can then give its
    loops one length for all, or visit one member after another; vmap would run every loop as
    often as the longest needs, with a select around all of its state.
    """

    @jax.custom_batching.custom_vmap
    def one(*arguments):
        return jax.tree.map(lambda a: a[0], function(*jax.tree.map(lambda a: a[None], arguments)))

    @one.def_vmap
    def many(axis_size, batched, *arguments):
        def spread(array, own):
            return array if own else jnp.broadcast_to(array, (axis_size, *array.shape))

        results = function(*jax.tree.map(spread, arguments, tuple(batched)))
        return results, jax.tree.map(lambda _: True, results)

    return one
