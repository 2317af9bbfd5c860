"""Document vectors of TextRNN, dense and as a CPU gets them, against a plain scan and autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.models import gru, on_cpu, text_rnn
from crabjax.models.gru import GRU
from crabjax.models.on_cpu.gru import CHUNK
from crabjax.models.on_cpu.text_rnn import GROUP
from crabjax.models.text_rnn import Reader

MEMBERS, WORD, HIDDEN, ATTENTION, VOCABULARY = 2, 4, 5, 3, 11
TOKENS = 2 * CHUNK + 3


def make_reader(key) -> Reader:
    keys = iter(jax.random.split(key, 8))
    draw = lambda *shape: 0.5 * jax.random.normal(next(keys), shape)
    kernels = draw(3, 2, WORD, HIDDEN), draw(3, 2, HIDDEN)
    unit = GRU(*kernels, draw(3, 2, HIDDEN, HIDDEN), draw(3, 2, HIDDEN))
    attention = draw(2 * HIDDEN, ATTENTION), draw(ATTENTION), draw(ATTENTION)
    return Reader(draw(VOCABULARY, WORD), unit, *attention)


def make_documents(documents: int):
    """Lengths of all kinds: none, one, a chunk and a bit, all places."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(1, VOCABULARY, (MEMBERS, documents, TOKENS)).astype(np.int32)
    lengths = np.resize([TOKENS, 0, 1, 7, CHUNK + 5], (MEMBERS, documents))
    lengths[1] //= 2  # members of different lengths
    tokens[np.arange(TOKENS)[None, None, :] >= lengths[..., None]] = 0
    return tokens


def plain_vectors(reader: Reader, tokens):
    """One direction after another, by a scan that stops changing at a document's end."""
    live = tokens.T != 0  # [T, B]
    words = jnp.where(live[..., None], reader.table[tokens.T], 0)

    def states(direction: int):
        def gate(index, word, state):
            from_word, from_state = (
                value @ kernel[index, direction] + bias[index, direction][None]
                for value, kernel, bias in (
                    (word, reader.unit.input_kernel, reader.unit.input_bias),
                    (state, reader.unit.state_kernel, reader.unit.state_bias),
                )
            )
            return from_word, from_state

        def step(state, now):
            word, live = now
            reset = jax.nn.sigmoid(sum(gate(0, word, state)))
            update = jax.nn.sigmoid(sum(gate(1, word, state)))
            from_word, from_state = gate(2, word, state)
            candidate = jnp.tanh(from_word + reset * from_state)
            new = (1 - update) * candidate + update * state
            state = jnp.where(live[:, None], new, state)
            return state, state

        start = jnp.zeros((len(tokens), HIDDEN))
        return jax.lax.scan(step, start, (words, live), reverse=direction == 1)[1]

    both = jnp.concatenate([states(0), states(1)], axis=2)  # [T, B, 2 * H]
    scores = jnp.tanh(both @ reader.kernel + reader.bias[None, None]) @ reader.query
    weights = jnp.where(live, jnp.exp(scores), 0)
    total = jnp.maximum(jnp.sum(weights, axis=0), 1e-30)
    return jnp.sum(weights[..., None] * both, axis=0) / total[:, None]


def totals_of_a_gpu(copies, *arguments, own=gru._totals):
    del copies
    return own(3, *arguments)


@pytest.mark.parametrize("platform", ["cpu", "tpu", "cuda"])
@pytest.mark.parametrize("documents", [7, pytest.param(2 * GROUP + 4, marks=pytest.mark.slow)])
def test_vectors_and_gradients_of_members_equal_a_plain_scan(platform, documents, monkeypatch):
    function = on_cpu.read_documents if platform == "cpu" else text_rnn.read_documents
    if platform == "cuda":
        monkeypatch.setattr(gru, "_totals", totals_of_a_gpu)
    readers = jax.vmap(make_reader)(jax.random.split(jax.random.key(0), MEMBERS))
    tokens = make_documents(documents)
    weights = jax.random.normal(jax.random.key(2), (documents, 2 * HIDDEN))

    def of(function):
        loss = lambda reader, tokens: jnp.sum(function(reader, tokens) * weights)
        return jax.jit(jax.vmap(jax.value_and_grad(loss)))(readers, tokens)

    found, expected = of(function), of(plain_vectors)
    assert not np.any(found[1].table[:, 0])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, expected
    )
