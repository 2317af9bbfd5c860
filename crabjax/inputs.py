"""The one place where data and models meet: from texts or tokens to what a classifier takes."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from crabjax.cache import kept_folder, settings_hash
from crabjax.config import Config
from crabjax.data.corpus import Corpus
from crabjax.data.encode import (
    WORDS,
    Tokenizer,
    build_vocabulary,
    load_pretrained_tokenizer,
    token_blocks,
    used_columns,
)
from crabjax.data.load import Dataset, load_data
from crabjax.data.splits import find_files
from crabjax.data.vectors import find_vectors
from crabjax.files import DataError, check_json, check_safetensors
from crabjax.models import Model, build_model, get_builder
from crabjax.models.embed import encode_documents, vector_width
from crabjax.models.pretrained import read_architecture
from crabjax.models.pretrained_files import find_pretrained, resolve_pretrained
from crabjax.store import Plan, blocks_of, kept

_WIDTH_STEP = 16  # token columns come in multiples: fewer shapes, fewer compilations


class EncodedTexts(NamedTuple):
    """Texts as arrays, and the classifier that takes them."""

    tokenizer: Tokenizer
    inputs: np.ndarray  # [N, ...]
    model: Model


def load_dataset(config: Config) -> Dataset:
    """The data set of a config, in the tokens its classifier needs.

    Raises:
      PretrainedNotFoundError: for a Hugging Face tokenizer that is not to be had.
    """
    name = _tokenizer_name(config)
    # That data are missing should be said before an encoder is fetched.
    find_files(config.data)
    if has_own_vectors(config):
        return load_data(config.data, cache=config.devices.cache)
    check_encoder(config)
    return load_data(
        config.data,
        None if name == WORDS else resolve_pretrained(name),
        cache=config.devices.cache,
    )


def has_own_vectors(config: Config) -> bool:
    """Whether the user gives vectors, so that no encoder is needed.

    Raises:
      DataError: if there are, for a classifier that takes words.
    """
    if not find_vectors(config.data):
        return False
    if config.model.name != "frozen":
        raise DataError(f"data.vectors: expected model.name frozen, found {config.model.name}")
    return True


def model_inputs(config: Config, tokens: np.ndarray) -> np.ndarray:
    """What the classifier takes: tokens or own vectors, or a frozen encoder's vectors [N, D].

    Vectors are kept on disk; the same documents are never encoded twice.
    """
    if config.model.name != "frozen" or config.data.vectors is not None:
        return tokens
    model = config.model.on(jax.default_backend())
    key = settings_hash([fingerprint(tokens), model.pretrained, model.precision])
    plan = Plan(key, (len(tokens), vector_width(model.pretrained)), "float32")
    with kept_folder(key if config.devices.cache else None) as folder:
        return kept(
            None if folder is None else folder / "vectors",
            plan,
            lambda start: encode_documents(
                model.pretrained, tokens, precision=model.precision, start=start
            ),
            f"encoding documents with {model.pretrained}, once",
        )


def classifier(config: Config, inputs: np.ndarray, vocabulary_size: int, labels: int) -> Model:
    """The model of a config for inputs [N, ...] made by :func:`model_inputs`."""
    width = inputs.shape[1] if config.model.name == "frozen" else vocabulary_size
    return build_model(config.model, width, labels)


def check_encoder(config: Config) -> None:
    """Raises if a config names an encoder that cannot be had or used; fetches no weights.

    Raises:
      PretrainedNotFoundError: if it is neither on this machine nor on the hub.
      PretrainedError: if it is of a kind that is not implemented.
      DataError: naming a file of it that is damaged or was cut short.
    """
    if (name := _tokenizer_name(config)) != WORDS:
        _check_whole(find_pretrained(name))
    if config.model.name in ("distilbert", "frozen"):
        folder = find_pretrained(config.model.pretrained)
        _check_whole(folder)
        read_architecture(folder)


def encode_texts(config: Config, texts: Sequence[str], labels: int) -> EncodedTexts:
    """At least one text, for a classifier of ``labels`` labels whose words are those of all."""
    tokenizer = _text_tokenizer(config, texts)
    inputs = text_inputs(config, tokenizer, texts)
    return EncodedTexts(tokenizer, inputs, classifier(config, inputs, tokenizer.size, labels))


def text_inputs(config: Config, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """Token ids int32 [N, T] of at least one text, or its encoder's vectors float32 [N, D]."""
    corpus, most = _corpus(texts), config.data.max_tokens
    tokens = np.concatenate([block for _, block in token_blocks([corpus], tokenizer, most)])
    width = min(-(-used_columns(tokens) // _WIDTH_STEP) * _WIDTH_STEP, most)
    return model_inputs(config, np.ascontiguousarray(tokens[:, :width]))


def fingerprint(*arrays: np.ndarray) -> str:
    """A short hash of the content of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        for block in blocks_of(array):
            digest.update(block.data)
    return digest.hexdigest()[:16]


def _check_whole(folder: Path) -> None:
    """Of a name on the hub only the configuration may be here yet; what is here must be whole."""
    for path in (*folder.glob("*.json"), *folder.glob("1_Pooling/*.json")):
        check_json(path)
    for path in folder.glob("*.safetensors"):
        check_safetensors(path)


def _tokenizer_name(config: Config) -> str:
    """The tokenizer a config names, or the one its classifier needs; an unknown one is an error."""
    get_builder(config.model.name)
    pretrained = config.model.name in ("distilbert", "frozen")
    return config.data.tokenizer or (config.model.pretrained if pretrained else WORDS)


def _text_tokenizer(config: Config, texts: Sequence[str]) -> Tokenizer:
    """The words of all texts, or the tokenizer of the pretrained encoder a config names."""
    name = _tokenizer_name(config)
    if name == WORDS:
        return build_vocabulary(_corpus(texts), config.data.min_count)
    return load_pretrained_tokenizer(resolve_pretrained(name), name)


def _corpus(texts: Sequence[str]) -> Corpus:
    return Corpus(list(texts), [()] * len(texts), tokenised=False, split="texts")
