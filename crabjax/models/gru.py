"""A bidirectional gated recurrent unit: one scan over time for both directions of all documents.

The directions lie side by side, [..., 2 * H], so that a step is one matrix product and one pass
over its results. Plain autodiff would add up gradients of kernels inside the scan and take twice as
long on accelerators; the backward pass written out here keeps everything outside but the product
that needs the step before.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

UNROLL = 8  # steps of a scan without a loop between them


class GRU(NamedTuple):
    """Parameters; gates in the order reset, update, candidate, directions forward, backward.

    Attributes:
      input_kernel: [3, 2, D, H].
      input_bias: [3, 2, H].
      state_kernel: [3, 2, H, H].
      state_bias: [3, 2, H].
    """

    input_kernel: jax.Array
    input_bias: jax.Array
    state_kernel: jax.Array
    state_bias: jax.Array


def run_gru(unit: GRU, words: jax.Array, live: jax.Array) -> jax.Array:
    """States after every word, read in both directions.

    Args:
      unit: parameters.
      words: [T, B, D].
      live: bool [T, B], false for padding, over which a state stays what it is.

    Returns:
      [T, B, 2 * H]: forward, the state at t has read words 0 to t; backward, the last t + 1 places.
    """
    both = jnp.concatenate([words, jnp.flip(words, 0)], axis=2)
    here = jnp.stack([live, jnp.flip(live, 0)], axis=2)  # [T, B, 2]
    input_bias, state_bias = unit.input_bias.reshape(-1), unit.state_bias.reshape(-1)
    kernels = _side_by_side(unit.input_kernel), _side_by_side(unit.state_kernel)
    return _states(both, here, *kernels, input_bias, state_bias)


def _side_by_side(kernel: jax.Array) -> jax.Array:
    """[3, 2, D, H] -> [2 * D, 6 * H]: every gate's directions next to each other, zeros between."""
    none = jnp.zeros_like(kernel[0, 0])
    forward = [part for gate in kernel for part in (gate[0], none)]
    backward = [part for gate in kernel for part in (none, gate[1])]
    return jnp.concatenate([jnp.concatenate(rows, axis=1) for rows in (forward, backward)])


@jax.custom_vjp
def _states(words, live, input_kernel, state_kernel, input_bias, state_bias):
    return _forward(words, live, input_kernel, state_kernel, input_bias, state_bias)[0]


def _forward(words, live, input_kernel, state_kernel, input_bias, state_bias):
    projected = words @ input_kernel  # [T, B, 6 * H]
    biases = input_bias, state_bias

    def step(state, now):
        projected, live = now
        _, update, candidate, _ = _gates(projected, state @ state_kernel, biases, live)
        state = candidate + update * (state - candidate)
        return state, state

    start = jnp.zeros((words.shape[1], len(state_kernel)), words.dtype)
    _, states = lax.scan(step, start, (projected, live), unroll=UNROLL)
    return states, (words, live, input_kernel, state_kernel, biases, projected, states)


def _backward(saved, gradient):
    words, live, input_kernel, state_kernel, biases, projected, states = saved
    before = jnp.concatenate([jnp.zeros_like(states[:1]), states[:-1]])
    # What a state's gradient is multiplied by on its way to the gates, for all steps at once.
    reset, update, candidate, from_state = _gates(projected, before @ state_kernel, biases, live)
    to_candidate = (1 - update) * (1 - candidate**2)
    to_reset = to_candidate * from_state * reset * (1 - reset)
    to_update = (before - candidate) * update * (1 - update)
    to_gates = jnp.concatenate([to_reset, to_update, to_candidate * reset], axis=2)
    totals = lax.platform_dependent(
        *(gradient, to_gates, update, state_kernel.T),
        cuda=functools.partial(_totals, 3),
        default=functools.partial(_totals, 1),
    )
    of_state = _repeat(totals, 3) * to_gates
    # Words have the same part in the gates, but for the candidate, which no reset gate scales.
    more = totals * (to_candidate * (1 - reset))
    kernels = jnp.einsum("tbi,tbg->ig", words, of_state), jnp.einsum("tbi,tbg->ig", words, more)
    biases = jnp.sum(of_state, axis=(0, 1)), jnp.sum(more, axis=(0, 1))
    return (
        of_state @ input_kernel.T + more @ _last_gate(input_kernel).T,
        None,
        _add_to_last_gate(*kernels),
        jnp.einsum("tbi,tbg->ig", before, of_state),
        _add_to_last_gate(*biases),
        biases[0],
    )


_states.defvjp(_forward, _backward)


def _totals(copies: int, gradient, to_gates, update, to_state):
    """The whole gradient [T, B, 2 * H] of every state, from what arrives at it directly.

    With three ``copies`` of it, as wide as the gates, a GPU makes it and its part in the gates in
    one kernel: three launches a step become two. A TPU would take an eighth longer for it.
    """

    def step(later, now):
        arriving, to_gates, update = now
        total = later + _repeat(arriving, copies)
        of_gates = (_repeat(total, 3 // copies) * to_gates) @ to_state
        later = total * _repeat(update, copies) + _repeat(of_gates, copies)
        return later, total[:, : update.shape[1]]

    start, over = _repeat(jnp.zeros_like(gradient[0]), copies), (gradient, to_gates, update)
    return lax.scan(step, start, over, reverse=True, unroll=UNROLL)[1]


def _gates(projected, recurrent, biases, live):
    """Reset and update gate, candidate, and the state's part in it, [..., 2 * H] each."""
    size = projected.shape[-1] // 3
    input_bias, state_bias = (bias.reshape((1,) * (projected.ndim - 1) + (-1,)) for bias in biases)
    summed = projected + recurrent + (input_bias + state_bias)
    reset = jax.nn.sigmoid(summed[..., :size])
    update = jax.nn.sigmoid(summed[..., size : 2 * size])
    from_state = (recurrent + state_bias)[..., 2 * size :]
    candidate = jnp.tanh((projected + input_bias)[..., 2 * size :] + reset * from_state)
    return reset, jnp.where(_spread(live, size), update, 1), candidate, from_state


def _last_gate(kernel):
    """The candidate's third [..., 2 * H] of [..., 6 * H]."""
    return kernel[..., 2 * kernel.shape[-1] // 3 :]


def _add_to_last_gate(kernel, more):
    """[..., 6 * H] with [..., 2 * H] added to its last third."""
    return kernel + jnp.pad(more, [(0, 0)] * (more.ndim - 1) + [(2 * more.shape[-1], 0)])


def _repeat(values, copies: int):
    return jnp.concatenate([values] * copies, axis=-1)


def _spread(values, size: int):
    """One value for each direction, [..., 2], to all of its places [..., size]."""
    first = (jnp.arange(size) < size // 2).reshape((1,) * (values.ndim - 1) + (-1,))
    return jnp.where(first, values[..., :1], values[..., 1:])
