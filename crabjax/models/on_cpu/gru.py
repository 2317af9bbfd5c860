"""A gated recurrent unit over groups of documents, with a backward pass written out.

Time is cut into chunks. Whatever does not depend on the step before is one matrix product a
chunk: the inputs' part of the gates going forward, and going backward the gates themselves and
all gradients of parameters and words. Chunks past the longest document of a group are left out.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from crabjax.models.members import with_member_axis

CHUNK = 32  # steps


class GRU(NamedTuple):
    """Parameters of Z independent units; gates in the order reset, update, candidate.

    Gates have an axis of their own: side by side on the last one, they would keep the compiler
    from vectorising the step.

    Attributes:
      table: word vectors [V, D]; row 0 gets no gradient.
      input_kernel: [3, Z, D, H].
      input_bias: [3, Z, H].
      state_kernel: [3, Z, H, H].
      state_bias: [3, Z, H].
    """

    table: jax.Array
    input_kernel: jax.Array
    input_bias: jax.Array
    state_kernel: jax.Array
    state_bias: jax.Array


@jax.custom_vjp
def run_gru(unit: GRU, tokens: jax.Array, lengths: jax.Array) -> list[jax.Array]:
    """States of Z units before the first word and after every word.

    Args:
      unit: parameters.
      tokens: int32 [G, Z, T, B], words of G groups of documents; T is a multiple of the chunk.
      lengths: int32 [G, B].

    Returns:
      [G, T + 1, B, H] of each unit. What stands after the end of a document is finite and means
      nothing: its gradient must be zero.
    """
    return _states(unit, tokens, lengths)


def _forward(unit, tokens, lengths):
    states = _states(unit, tokens, lengths)
    return states, (unit, tokens, lengths, states)


def _backward(saved, gradient):
    return _gradients(*saved, gradient), None, None


run_gru.defvjp(_forward, _backward)


@with_member_axis
def _states(unit: GRU, tokens, lengths):
    members, groups, units, steps, documents = tokens.shape
    hidden, dtype = unit.state_bias.shape[3], unit.table.dtype
    zero = jnp.zeros((members, units, documents, hidden), dtype)
    input_kernels = jnp.unstack(unit.input_kernel, axis=1)
    state_kernels = jnp.unstack(unit.state_kernel, axis=1)

    def group(index, states):
        def chunk(number, carry):
            begin = number * CHUNK
            _, words = _words(unit, tokens, index, begin)
            projected = _products(words, input_kernels)

            def step(place, carry):
                state, states = carry
                # Keeping the state before the step: keeping the new one would compute it twice.
                states = _put(states, state, index, begin + place)
                now = [_at(gate, place) for gate in projected]
                _, update, candidate, _ = _activate(unit, now, _products(state, state_kernels))
                return candidate + update * (state - candidate), states

            return lax.fori_loop(0, CHUNK, step, carry)

        chunks = _chunks(lengths, index)
        state, states = lax.fori_loop(0, chunks, chunk, (zero, states))
        return _put(states, state, index, chunks * CHUNK)

    start = jnp.zeros((members, groups, steps + 1, documents, hidden), dtype)
    return lax.fori_loop(0, groups, group, [start] * units)


@with_member_axis
def _gradients(unit: GRU, tokens, lengths, states, gradient):
    zero = jnp.zeros_like(jnp.stack([state[:, 0, 0] for state in states], axis=1))

    def group(index, found):
        chunks = _chunks(lengths, index)

        def chunk(number, carry):
            later, found = carry
            begin = (chunks - 1 - number) * CHUNK
            places, words = _words(unit, tokens, index, begin)
            before = jnp.stack([_cut(state, index, begin) for state in states], axis=1)
            factors = _local_derivatives(unit, words, before)
            arriving = jnp.stack([_cut(part, index, begin + 1) for part in gradient], axis=1)
            later, totals = _through_time(unit, factors, later, arriving)
            return later, _add_chunk(unit, found, places, words, before, factors, totals)

        return lax.fori_loop(0, chunks, chunk, (zero, found))[1]

    flat = unit.table.reshape(-1, unit.table.shape[2])
    start = jax.tree.map(jnp.zeros_like, unit._replace(table=flat))
    found = lax.fori_loop(0, tokens.shape[1], group, start)
    return found._replace(table=found.table.reshape(unit.table.shape))


class _Factors(NamedTuple):
    """What a state's gradient is multiplied by on its way to each gate; [M, Z, CHUNK, B, H] each.

    ``reset`` follows ``candidate``; ``gate`` is the reset gate itself, ``keep`` the update gate.
    """

    reset: jax.Array
    update: jax.Array
    candidate: jax.Array
    gate: jax.Array
    keep: jax.Array


def _local_derivatives(unit: GRU, words, before) -> _Factors:
    projected = _products(words, jnp.unstack(unit.input_kernel, axis=1))
    recurrent = _products(before, jnp.unstack(unit.state_kernel, axis=1))
    reset, update, candidate, candidate_state = _activate(unit, projected, recurrent)
    return _Factors(
        reset=candidate_state * reset * (1 - reset),
        update=(before - candidate) * update * (1 - update),
        candidate=(1 - update) * (1 - candidate**2),
        gate=reset,
        keep=update,
    )


def _through_time(unit: GRU, factors: _Factors, later, arriving):
    """The gradient before a chunk, and the total gradient of the state after each of its steps."""
    kernels = jnp.unstack(unit.state_kernel, axis=1)

    def step(index, carry):
        later, totals = carry
        place = CHUNK - 1 - index
        total = later + _at(arriving, place)
        totals = lax.dynamic_update_index_in_dim(totals, total, place, axis=2)
        here = _Factors(*(_at(factor, place) for factor in factors))
        candidate = total * here.candidate
        gates = candidate * here.reset, total * here.update, candidate * here.gate
        earlier = total * here.keep
        for gate, kernel in zip(gates, kernels):
            earlier = earlier + jnp.einsum("mzbh,mzdh->mzbd", gate, kernel)
        return earlier, totals

    return lax.fori_loop(0, CHUNK, step, (later, jnp.zeros_like(arriving)))


def _add_chunk(unit: GRU, found: GRU, places, words, before, factors: _Factors, totals) -> GRU:
    """Adds what a chunk gives to the gradients of all parameters."""
    candidate = totals * factors.candidate
    gates = [candidate * factors.reset, totals * factors.update, candidate]
    recurrent = [*gates[:2], candidate * factors.gate]

    def kernel(values, gates):
        return jnp.stack([jnp.einsum("mztbd,mztbh->mzdh", values, gate) for gate in gates], axis=1)

    def bias(gates):
        return jnp.stack([jnp.sum(gate, axis=(2, 3)) for gate in gates], axis=1)

    rows = [
        jnp.einsum("mztbh,mzdh->mztbd", gate, unit.input_kernel[:, i])
        for i, gate in enumerate(gates)
    ]
    return GRU(
        found.table.at[places].add(sum(rows), mode="promise_in_bounds"),
        found.input_kernel + kernel(words, gates),
        found.input_bias + bias(gates),
        found.state_kernel + kernel(before, recurrent),
        found.state_bias + bias(recurrent),
    )


def _words(unit: GRU, tokens, group, begin):
    """A chunk's rows in the tables of all members, laid end to end, and the rows themselves."""
    members, vocabulary, size = unit.table.shape
    part = jnp.stack([_cut(own, group, begin) for own in jnp.unstack(tokens, axis=2)], axis=1)
    places = part + (jnp.arange(members) * vocabulary).reshape(-1, 1, 1, 1)
    return places, unit.table.reshape(-1, size).at[places].get(mode="promise_in_bounds")


def _products(values, kernels):
    """[M, Z, ..., D] times each gate's kernel [M, Z, D, H]."""
    return [jnp.einsum("mz...d,mzdh->mz...h", values, kernel) for kernel in kernels]


def _activate(unit: GRU, projected, recurrent):
    """Reset and update gate, candidate, and the state's part in it, from products [M, Z, ..., H].

    Biases are added here and not to the products, where it would take a pass of its own.
    """
    shape = len(unit.table), projected[0].shape[1], *(1,) * (projected[0].ndim - 3), -1
    input_bias = [bias.reshape(shape) for bias in jnp.unstack(unit.input_bias, axis=1)]
    state_bias = [bias.reshape(shape) for bias in jnp.unstack(unit.state_bias, axis=1)]
    reset = _sigmoid(projected[0] + recurrent[0] + (input_bias[0] + state_bias[0]))
    update = _sigmoid(projected[1] + recurrent[1] + (input_bias[1] + state_bias[1]))
    candidate_state = recurrent[2] + state_bias[2]
    candidate = jnp.tanh(projected[2] + input_bias[2] + reset * candidate_state)
    return reset, update, candidate, candidate_state


def _put(states, state, group, step):
    """Writes the states of a step [M, Z, B, H] into a list of [M, G, T + 1, B, H]."""
    zero = jnp.zeros_like(step)
    start = zero, group, step, zero, zero
    return [
        lax.dynamic_update_slice(whole, state[:, unit, None, None], start)
        for unit, whole in enumerate(states)
    ]


def _cut(array, group, begin):
    """A chunk of steps of a group: [M, G, T, B, ...] -> [M, CHUNK, B, ...]."""
    zero = jnp.zeros_like(begin)
    start = zero, group, begin, *(zero,) * (array.ndim - 3)
    sizes = len(array), 1, CHUNK, *array.shape[3:]
    return lax.dynamic_slice(array, start, sizes)[:, 0]


def _at(array, place):
    return lax.dynamic_index_in_dim(array, place, axis=2, keepdims=False)


def _chunks(lengths, group):
    return (jnp.max(lengths[:, group]) + CHUNK - 1) // CHUNK


def _sigmoid(x: jax.Array) -> jax.Array:
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)  # faster on CPU than by the exponential
