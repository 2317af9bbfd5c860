"""Plain texts to the inputs of a classifier."""

from collections.abc import Sequence

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
from crabjax.problem import model_inputs, tokenizer_name

_WIDTH_STEP = 16  # token columns come in multiples: fewer shapes, fewer compilations


def text_tokenizer(config: Config, texts: Sequence[str]) -> Tokenizer:
    """The words of all texts, or the tokenizer of the pretrained encoder a config names."""
    name = tokenizer_name(config)
    if name == WORDS:
        return build_vocabulary(_corpus(texts), config.data.min_count)
    return load_pretrained_tokenizer(name)


def text_inputs(config: Config, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """Token ids int32 [N, T] of at least one text, or its encoder's vectors float32 [N, D]."""
    encoded = encode(_corpus(texts), tokenizer, (), config.data.max_tokens)
    longest = int(encoded.lengths.max())
    width = min(-(-longest // _WIDTH_STEP) * _WIDTH_STEP, config.data.max_tokens)
    return model_inputs(config, np.ascontiguousarray(encoded.tokens[:, :width]))


def _corpus(texts: Sequence[str]) -> Corpus:
    return Corpus(list(texts), [()] * len(texts), tokenised=False, split="texts")
