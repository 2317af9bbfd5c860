"""Classifiers, each a :class:`Model` of pure functions."""

import functools

from flax import nnx

from crabjax.config import ModelConfig
from crabjax.models.base import Model, Params, as_model
from crabjax.models.frozen import FrozenHead
from crabjax.models.text_cnn import TextCNN
from crabjax.models.text_rnn import TextRNN

__all__ = ["Model", "Params", "build_model"]

_MODULES = {"text_cnn": TextCNN, "text_rnn": TextRNN, "frozen": FrozenHead}


@functools.cache
def build_model(config: ModelConfig, input_size: int, labels: int) -> Model:
    """The classifier a configuration names; equal arguments give the same object.

    Args:
      config: its name and sizes.
      input_size: number of word ids, padding included; for ``frozen``, of features of a document;
        a pretrained encoder brings its own.
      labels: K.
    """
    if config.name == "distilbert":
        from crabjax.models.transformer import build_distilbert

        return build_distilbert(config, labels)
    module = _MODULES[config.name]

    def build(rngs: nnx.Rngs):
        return module(config, input_size, labels, rngs)

    return as_model(build)
