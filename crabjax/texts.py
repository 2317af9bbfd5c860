"""Plain texts to the inputs of a classifier."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crabjax.config import Config
from crabjax.data.corpus import Corpus
from crabjax.data.encode import (
    WORDS,
    Tokenizer,
    build_vocabulary,
    encode,
    load_pretrained_tokenizer,
)
from crabjax.data.pretrained_files import find_pretrained
from crabjax.models import Model
from crabjax.models.pretrained import read_architecture
from crabjax.problem import classifier, model_inputs, tokenizer_name

_WIDTH_STEP = 16  # token columns come in multiples: fewer shapes, fewer compilations


class EncodedTexts(NamedTuple):
    """Texts as arrays, and the classifier that takes them."""

    tokenizer: Tokenizer
    inputs: np.ndarray  # [N, ...]
    model: Model


def check_texts(texts: Sequence[str]) -> list[str]:
    """The texts as plain strings.

    Raises:
      TypeError: naming the first that is not one.
    """
    if isinstance(texts, str):
        raise TypeError(f"texts: expected a list of strings, found the string {texts[:40]!r}")
    texts = list(texts)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{position}]: expected a string, found {type(text).__name__}")
    return [str(text) for text in texts]  # NumPy strings become plain ones


def check_encoder(config: Config) -> None:
    """Raises if a config names an encoder that cannot be had or used; fetches no weights.

    Raises:
      PretrainedNotFoundError: if it is neither on this machine nor on the hub.
      PretrainedError: if it is of a kind that is not implemented.
    """
    if (name := tokenizer_name(config)) != WORDS:
        find_pretrained(name)
    if config.model.name in ("distilbert", "frozen"):
        read_architecture(find_pretrained(config.model.pretrained))


def encode_texts(config: Config, texts: Sequence[str], labels: int) -> EncodedTexts:
    """At least one text, for a classifier of ``labels`` labels whose words are those of all."""
    tokenizer = _text_tokenizer(config, texts)
    inputs = text_inputs(config, tokenizer, texts)
    return EncodedTexts(tokenizer, inputs, classifier(config, inputs, tokenizer.size, labels))


def text_inputs(config: Config, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """Token ids int32 [N, T] of at least one text, or its encoder's vectors float32 [N, D]."""
    encoded = encode(_corpus(texts), tokenizer, (), config.data.max_tokens)
    longest = int(encoded.lengths.max())
    width = min(-(-longest // _WIDTH_STEP) * _WIDTH_STEP, config.data.max_tokens)
    return model_inputs(config, np.ascontiguousarray(encoded.tokens[:, :width]))


def _text_tokenizer(config: Config, texts: Sequence[str]) -> Tokenizer:
    """The words of all texts, or the tokenizer of the pretrained encoder a config names."""
    name = tokenizer_name(config)
    if name == WORDS:
        return build_vocabulary(_corpus(texts), config.data.min_count)
    return load_pretrained_tokenizer(name)


def _corpus(texts: Sequence[str]) -> Corpus:
    return Corpus(list(texts), [()] * len(texts), tokenised=False, split="texts")
