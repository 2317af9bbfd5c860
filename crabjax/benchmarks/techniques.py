"""The techniques that make training fast, each of which the fit benchmark can switch off.

Switching off means running the same code with one function or number replaced, so the library
itself has no switches.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp

from crabjax.config import EnsembleConfig
from crabjax.ensemble import fit
from crabjax.models import Model, gru, max_convolution, text_cnn, text_rnn


class Variant(NamedTuple):
    """A model and how its members are trained."""

    model: Model
    config: EnsembleConfig


class Technique(NamedTuple):
    """How to do without it.

    Attributes:
      models: those that have it.
      change: what to train instead.
      replaced: ``replaced(tokens)`` replaces part of the library for as long as it is entered.
    """

    models: tuple[str, ...]
    change: Callable[[Variant], Variant] = lambda variant: variant
    replaced: Callable[[int], AbstractContextManager] = lambda tokens: nullcontext()


def plain_max_convolution(
    table: jax.Array, kernel: jax.Array, tokens: jax.Array, widths: tuple[int, ...]
) -> jax.Array:
    """``max_convolution`` by matrix products of all windows, with gradients by autodiff."""
    words = jnp.where((tokens != 0)[:, :, None], table[tokens], 0)
    lengths = jnp.sum(tokens != 0, axis=1)
    pooled, first = [], 0
    for width in widths:
        windows = tokens.shape[1] + width - 1
        padded = jnp.pad(words, ((0, 0), (width - 1, width - 1), (0, 0)))
        unfolded = jnp.concatenate([padded[:, j : j + windows] for j in range(width)], axis=2)
        responses = unfolded @ kernel[first : first + width].reshape(-1, kernel.shape[2])
        touches = jnp.arange(windows)[None, :] < (lengths + width - 1)[:, None]
        pooled.append(jnp.max(jnp.where(touches[:, :, None], responses, -jnp.inf), axis=1))
        first += width
    return jnp.concatenate(pooled, axis=1)


def _plain_convolution(training: bool) -> Callable[[Variant], Variant]:
    def change(variant: Variant) -> Variant:
        model = variant.model

        def apply(params, inputs, key=None):
            if (key is not None) != training:
                return model.apply(params, inputs, key)
            with patch.object(text_cnn, "max_convolution", plain_max_convolution):
                return model.apply(params, inputs, key)

        return variant._replace(model=model._replace(apply=apply))

    return change


def _all_blocks(tokens: int) -> AbstractContextManager:
    lay_out = max_convolution._lay_out
    full = lambda reach, tokens, lengths: lay_out(reach, tokens, jnp.full_like(lengths, tokens))
    return patch.object(max_convolution, "_lay_out", full)


def _all_chunks(tokens: int) -> AbstractContextManager:
    chunks = -(-tokens // gru.CHUNK)
    return patch.object(gru, "_chunks", lambda lengths, group: jnp.int32(chunks))


def _one_group(tokens: int) -> AbstractContextManager:
    return patch.object(text_rnn, "group_size", lambda: 10**6)


def _whole_table(variant: Variant) -> Variant:
    return variant._replace(model=variant.model._replace(table=None))


def _all_together(tokens: int) -> AbstractContextManager:
    return patch.object(fit, "one_a_core", lambda mesh: False)


TECHNIQUES = {
    "maxima": Technique(("text_cnn",), change=_plain_convolution(training=True)),
    "projection": Technique(("text_cnn",), change=_plain_convolution(training=False)),
    "blocks": Technique(("text_cnn",), replaced=_all_blocks),
    "chunks": Technique(("text_rnn",), replaced=_all_chunks),
    "groups": Technique(("text_rnn",), replaced=_one_group),
    "rows": Technique(("text_cnn", "text_rnn"), change=_whole_table),
    "cores": Technique(("text_cnn", "text_rnn", "distilbert"), replaced=_all_together),
}
