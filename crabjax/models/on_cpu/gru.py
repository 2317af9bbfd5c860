"""The GRU over groups of documents, leaving out padding, with a backward pass written out.

Time is cut into chunks. Whatever does not depend on the step before is one matrix product a
chunk: the inputs' part of the gates going forward, and going backward the gates themselves and
all gradients of parameters and words. Chunks past the longest document of a group are left out.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import sequential_vmap

from crabjax.models.gru import GRU

CHUNK = 32  # steps


@jax.custom_vjp
def run_gru(table: jax.Array, unit: GRU, tokens: jax.Array, lengths: jax.Array) -> list[jax.Array]:
    """States of both directions before the first word and after every word.

    Args:
      table: word vectors [V, D]; row 0 gets no gradient.
      unit: parameters.
      tokens: int32 [G, 2, T, B], words of G groups of documents in the order each direction reads
        them; T is a multiple of the chunk.
      lengths: int32 [G, B].

    Returns:
      [G, T + 1, B, H] of each direction. What stands after the end of a document is finite and
      means nothing: its gradient must be zero.
    """
    return _states(table, unit, tokens, lengths)


def _forward(table, unit, tokens, lengths):
    states = _states(table, unit, tokens, lengths)
    return states, (table, unit, tokens, lengths, states)


def _backward(saved, gradient):
    return *_gradients(*saved, gradient), None, None


run_gru.defvjp(_forward, _backward)


@sequential_vmap
def _states(table, unit: GRU, tokens, lengths):
    groups, units, steps, documents = tokens.shape
    hidden = unit.state_bias.shape[2]
    zero = jnp.zeros((units, documents, hidden), table.dtype)
    input_kernels, state_kernels = map(jnp.unstack, (unit.input_kernel, unit.state_kernel))

    def group(index, states):
        def chunk(number, carry):
            begin = number * CHUNK
            projected = _products(_rows(table, _words(tokens, index, begin)), input_kernels)

            def step(place, carry):
                state, states = carry
                # Keeping the state before the step: keeping the new one would compute it twice.
                states = _put(states, state, index, begin + place)
                now = [_at(gate, place) for gate in projected]
                recurrent = _products(state, state_kernels)
                _, update, candidate, _ = _activate(unit, now, recurrent)
                return candidate + update * (state - candidate), states

            return lax.fori_loop(0, CHUNK, step, carry)

        chunks = _chunks(lengths, index)
        state, states = lax.fori_loop(0, chunks, chunk, (zero, states))
        return _put(states, state, index, chunks * CHUNK)

    start = jnp.zeros((groups, steps + 1, documents, hidden), table.dtype)
    return lax.fori_loop(0, groups, group, [start] * units)


@sequential_vmap
def _gradients(table, unit: GRU, tokens, lengths, states, gradient):
    zero = jnp.zeros_like(jnp.stack([state[0, 0] for state in states]))

    def group(index, found):
        chunks = _chunks(lengths, index)

        def chunk(number, carry):
            later, found = carry
            begin = (chunks - 1 - number) * CHUNK
            places = _words(tokens, index, begin)
            words = _rows(table, places)
            before = jnp.stack([_cut(state, index, begin) for state in states])
            factors = _local_derivatives(unit, words, before)
            arriving = jnp.stack([_cut(part, index, begin + 1) for part in gradient])
            later, totals = _through_time(unit, factors, later, arriving)
            return later, _add_chunk(unit, found, places, words, before, factors, totals)

        return lax.fori_loop(0, chunks, chunk, (zero, found))[1]

    start = jax.tree.map(jnp.zeros_like, (table, unit))
    return lax.fori_loop(0, len(tokens), group, start)


class _Factors(NamedTuple):
    """What a state's gradient is multiplied by on its way to each gate; [2, CHUNK, B, H] each.

    ``reset`` follows ``candidate``; ``gate`` is the reset gate itself, ``keep`` the update gate.
    """

    reset: jax.Array
    update: jax.Array
    candidate: jax.Array
    gate: jax.Array
    keep: jax.Array


def _local_derivatives(unit: GRU, words, before) -> _Factors:
    projected = _products(words, unit.input_kernel)
    recurrent = _products(before, unit.state_kernel)
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
    kernels = jnp.unstack(unit.state_kernel)

    def step(index, carry):
        later, totals = carry
        place = CHUNK - 1 - index
        total = later + _at(arriving, place)
        totals = lax.dynamic_update_index_in_dim(totals, total, place, axis=1)
        here = _Factors(*(_at(factor, place) for factor in factors))
        candidate = total * here.candidate
        gates = candidate * here.reset, total * here.update, candidate * here.gate
        earlier = total * here.keep
        for gate, kernel in zip(gates, kernels):
            earlier = earlier + jnp.einsum("zbh,zdh->zbd", gate, kernel)
        return earlier, totals

    return lax.fori_loop(0, CHUNK, step, (later, jnp.zeros_like(arriving)))


def _add_chunk(unit: GRU, found, places, words, before, factors: _Factors, totals):
    """Adds what a chunk gives to the gradients of the table and of all parameters."""
    table, sums = found
    candidate = totals * factors.candidate
    gates = [candidate * factors.reset, totals * factors.update, candidate]
    recurrent = [*gates[:2], candidate * factors.gate]

    def kernel(values, gates):
        return jnp.stack([jnp.einsum("ztbd,ztbh->zdh", values, gate) for gate in gates])

    def bias(gates):
        return jnp.stack([jnp.sum(gate, axis=(1, 2)) for gate in gates])

    rows = [
        jnp.einsum("ztbh,zdh->ztbd", gate, kernel) for gate, kernel in zip(gates, unit.input_kernel)
    ]
    added = kernel(words, gates), bias(gates), kernel(before, recurrent), bias(recurrent)
    table = table.at[places].add(sum(rows), mode="promise_in_bounds")
    return table, GRU(*map(jnp.add, sums, added))


def _words(tokens, group, begin):
    """A chunk's words in the order of both directions [2, CHUNK, B]."""
    return jnp.stack([_cut(own, group, begin) for own in jnp.unstack(tokens, axis=1)])


def _rows(table, words):
    return table.at[words].get(mode="promise_in_bounds")


def _products(values, kernels):
    """[2, ..., D] times each gate's kernel [2, D, H]."""
    return [jnp.einsum("z...d,zdh->z...h", values, kernel) for kernel in kernels]


def _activate(unit: GRU, projected, recurrent):
    """Reset and update gate, candidate, and the state's part in it, from products [2, ..., H].

    Biases are added here and not to the products, where it would take a pass of its own.
    """
    shape = len(projected[0]), *(1,) * (projected[0].ndim - 2), -1
    input_bias = [bias.reshape(shape) for bias in unit.input_bias]
    state_bias = [bias.reshape(shape) for bias in unit.state_bias]
    reset = _sigmoid(projected[0] + recurrent[0] + (input_bias[0] + state_bias[0]))
    update = _sigmoid(projected[1] + recurrent[1] + (input_bias[1] + state_bias[1]))
    candidate_state = recurrent[2] + state_bias[2]
    candidate = jnp.tanh(projected[2] + input_bias[2] + reset * candidate_state)
    return reset, update, candidate, candidate_state


def _put(states, state, group, step):
    """Writes the states of a step [2, B, H] into a list of [G, T + 1, B, H]."""
    zero = jnp.zeros_like(step)
    start = group, step, zero, zero
    return [
        lax.dynamic_update_slice(whole, own[None, None], start) for whole, own in zip(states, state)
    ]


def _cut(array, group, begin):
    """A chunk of steps of a group: [G, T, B, ...] -> [CHUNK, B, ...]."""
    zero = jnp.zeros_like(begin)
    start = group, begin, *(zero,) * (array.ndim - 2)
    return lax.dynamic_slice(array, start, (1, CHUNK, *array.shape[2:]))[0]


def _at(array, place):
    return lax.dynamic_index_in_dim(array, place, axis=1, keepdims=False)


def _chunks(lengths, group):
    return (jnp.max(lengths[group]) + CHUNK - 1) // CHUNK


def _sigmoid(x: jax.Array) -> jax.Array:
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)  # faster on CPU than by the exponential
