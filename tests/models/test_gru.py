"""The GRU with its written-out backward pass against a plain scan and autodiff."""

import jax
import jax.numpy as jnp
import numpy as np

from crabjax.models.gru import CHUNK, GRU, run_gru

UNITS, DOCUMENTS, WORD, HIDDEN, VOCABULARY = 2, 3, 4, 5, 11
LENGTHS = np.array([[2 * CHUNK, 1, 40], [3, 0, 7]])  # two groups, one of a single chunk


def make_unit(key) -> GRU:
    shapes = (
        (VOCABULARY, WORD),
        (3, UNITS, WORD, HIDDEN),
        (3, UNITS, HIDDEN),
        (3, UNITS, HIDDEN, HIDDEN),
        (3, UNITS, HIDDEN),
    )
    keys = jax.random.split(key, len(shapes))
    return GRU(*(0.5 * jax.random.normal(k, shape) for k, shape in zip(keys, shapes)))


def plain_gru(unit: GRU, tokens, lengths):
    """One group and one unit after another, by a scan that stops changing at a document's end."""

    def one(tokens, lengths, unit_index):
        def gate(index, word, state):
            from_word = word @ unit.input_kernel[index, unit_index]
            from_state = state @ unit.state_kernel[index, unit_index]
            biases = unit.input_bias, unit.state_bias
            return [
                value + bias[index, unit_index][None]
                for value, bias in zip((from_word, from_state), biases)
            ]

        def step(state, now):
            place, words = now
            word = unit.table[words]
            reset = jax.nn.sigmoid(sum(gate(0, word, state)))
            update = jax.nn.sigmoid(sum(gate(1, word, state)))
            from_word, from_state = gate(2, word, state)
            candidate = jnp.tanh(from_word + reset * from_state)
            new = (1 - update) * candidate + update * state
            state = jnp.where((place < lengths)[:, None], new, state)
            return state, state

        start = jnp.zeros((DOCUMENTS, HIDDEN))
        return jax.lax.scan(step, start, (jnp.arange(len(tokens)), tokens))[1]

    return [
        jnp.stack([one(tokens[g, z], lengths[g], z) for g in range(len(tokens))])
        for z in range(UNITS)
    ]


def weighted(states, weights, lengths, first: int):
    """A sum over the states of a document's words alone."""
    place = jnp.arange(states[0].shape[1] - first)[None, :, None, None]
    live = place < lengths[:, None, :, None]
    return sum(jnp.sum(jnp.where(live, s[:, first:] * w, 0)) for s, w in zip(states, weights))


def test_states_and_gradients_of_members_equal_a_plain_scan():
    members = 2
    units = jax.vmap(make_unit)(jax.random.split(jax.random.key(0), members))
    shape = members, len(LENGTHS), UNITS, 2 * CHUNK, DOCUMENTS
    tokens = jax.random.randint(jax.random.key(1), shape, 1, VOCABULARY)
    lengths = jnp.asarray(np.stack([LENGTHS, LENGTHS // 2]))  # members of different lengths
    weights = jax.random.normal(jax.random.key(2), (UNITS, 2, 2 * CHUNK, DOCUMENTS, HIDDEN))

    def fast(unit, tokens, lengths):
        return weighted(run_gru(unit, tokens, lengths), weights, lengths, first=1)

    def plain(unit, tokens, lengths):
        return weighted(plain_gru(unit, tokens, lengths), weights, lengths, first=0)

    found, expected = (
        jax.jit(jax.vmap(jax.value_and_grad(function)))(units, tokens, lengths)
        for function in (fast, plain)
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, expected
    )
