"""Classifiers, each a :class:`Model` of pure functions, found by name."""

import functools

import jax

from crabjax.config import ModelConfig
from crabjax.models.base import Classifier as Classifier
from crabjax.models.base import Model as Model
from crabjax.models.base import Params as Params
from crabjax.models.base import Recomputed as Recomputed
from crabjax.models.base import UnknownClassifierError as UnknownClassifierError
from crabjax.models.base import classifier_names as classifier_names
from crabjax.models.base import dropout as dropout
from crabjax.models.base import get_builder as get_builder
from crabjax.models.base import register_builder as register_builder
from crabjax.models.base import register_classifier as register_classifier
from crabjax.models.frozen import FrozenHead
from crabjax.models.names import with_name_prior as with_name_prior
from crabjax.models.text_cnn import TextCNN
from crabjax.models.text_rnn import TextRNN


@functools.cache
def build_model(
    config: ModelConfig, input_size: int, labels: int, platform: str | None = None
) -> Model:
    """The classifier a configuration names; equal arguments give the same object.

    Args:
      config: its name and sizes.
      input_size: number of word ids, padding included; for ``frozen``, of features of a document;
        a pretrained encoder brings its own.
      labels: K.
      platform: what it will run on, if that is not the platform of this process's devices: one
        compiles for chips that are elsewhere.

    Raises:
      UnknownClassifierError: for a name that is not registered, with the nearest one that is.
    """
    config = config.on(platform or jax.default_backend())
    return get_builder(config.name)(config, input_size, labels)


def _distilbert(config: ModelConfig, input_size: int, labels: int) -> Model:
    from crabjax.models.transformer import build_distilbert

    del input_size
    return build_distilbert(config, labels)


register_classifier("text_cnn")(TextCNN)
register_classifier("text_rnn")(TextRNN)
register_classifier("frozen")(FrozenHead)
register_builder("distilbert", _distilbert)
