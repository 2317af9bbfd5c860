"""The techniques that make training fast, each of which the fit benchmark can switch off.

Switching off means running the same code with one function or number replaced, so the library
itself has no switches.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple
from unittest.mock import patch

import jax.numpy as jnp

from crabjax.config import EnsembleConfig
from crabjax.ensemble import fit
from crabjax.models import Model, on_cpu, text_cnn, text_rnn
from crabjax.models.on_cpu import gru as cpu_gru
from crabjax.models.on_cpu import text_cnn as cpu_cnn
from crabjax.models.on_cpu import text_rnn as cpu_rnn


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


def _dense_convolution(tokens: int) -> AbstractContextManager:
    return patch.object(on_cpu, "max_convolution", text_cnn.max_convolution)


def _dense_reading(tokens: int) -> AbstractContextManager:
    return patch.object(on_cpu, "read_documents", text_rnn.read_documents)


def _all_blocks(tokens: int) -> AbstractContextManager:
    lay_out = cpu_cnn._lay_out
    full = lambda reach, tokens, lengths: lay_out(reach, tokens, jnp.full_like(lengths, tokens))
    return patch.object(cpu_cnn, "_lay_out", full)


def _all_chunks(tokens: int) -> AbstractContextManager:
    chunks = -(-tokens // cpu_gru.CHUNK)
    return patch.object(cpu_gru, "_chunks", lambda lengths, group: jnp.int32(chunks))


def _one_group(tokens: int) -> AbstractContextManager:
    return patch.object(cpu_rnn, "GROUP", 10**6)


def _whole_table(variant: Variant) -> Variant:
    return variant._replace(model=variant.model._replace(table=None))


def _all_together(tokens: int) -> AbstractContextManager:
    return patch.object(fit, "one_a_core", lambda mesh: False)


TECHNIQUES = {
    "distinct": Technique(("text_cnn",), replaced=_dense_convolution),
    "blocks": Technique(("text_cnn",), replaced=_all_blocks),
    "packed": Technique(("text_rnn",), replaced=_dense_reading),
    "chunks": Technique(("text_rnn",), replaced=_all_chunks),
    "groups": Technique(("text_rnn",), replaced=_one_group),
    "rows": Technique(("text_cnn", "text_rnn"), change=_whole_table),
    "cores": Technique(("text_cnn", "text_rnn", "distilbert"), replaced=_all_together),
}
