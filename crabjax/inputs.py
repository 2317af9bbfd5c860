"""The one place where data and models meet: from texts or tokens to what a classifier takes."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from crabjax.config import Config
from crabjax.data.beside import Beside, JoinedRows
from crabjax.data.corpus import Corpus
from crabjax.data.encode import (
    WORDS,
    Tokenizer,
    load_pretrained_tokenizer,
    token_blocks,
    used_columns,
)
from crabjax.data.load import Dataset, load_data
from crabjax.data.lsa import LatentWords, latent_words
from crabjax.data.names import compare_with_names, label_texts
from crabjax.data.splits import find_files
from crabjax.data.vectors import Rows, find_vectors
from crabjax.data.vocabulary import vocabulary_of
from crabjax.files import DataError
from crabjax.files.cache import kept_folder
from crabjax.files.seals import json_hash
from crabjax.files.store import Plan, fingerprint, kept
from crabjax.models import Model, build_model, embed, get_builder, with_name_prior
from crabjax.models.embed import encode_documents, vector_width
from crabjax.models.pretrained import read_architecture
from crabjax.models.pretrained_files import (
    PretrainedNotFoundError,
    check_whole,
    encoder_fingerprint,
    find_pretrained,
    resolve_pretrained,
)

_IN_MEMORY = 1 << 26  # bytes up to which what is quickly made is made anew every time
_FORMAT = 1  # raise the number when tokens or vectors are made otherwise
Digest = Callable[[], str] | None
_NOTHING = Beside(None, None)
_WIDTH_STEP = 16  # token columns come in multiples: fewer shapes, fewer compilations


class EncodedTexts(NamedTuple):
    """Documents as arrays, and the classifier that takes them."""

    tokenizer: Tokenizer | None  # of texts
    inputs: Any  # [N, ...], perhaps mapped, or made when read
    model: Model
    beside: Beside  # what is said of further documents beside their vectors


def load_dataset(config: Config) -> Dataset:
    """The data set of a config, in the tokens its classifier needs.

    Raises:
      PretrainedNotFoundError: for a Hugging Face tokenizer that is not to be had.
      ConfigError: for words about a label that the data do not have.
    """
    name, folder = _tokenizer_name(config), None
    # That data are missing should be said before an encoder is fetched.
    find_files(config.data)
    if not has_own_vectors(config):
        check_encoder(config)
        folder = None if name == WORDS else resolve_pretrained(name)
    data = load_data(config.data, folder, cache=config.devices.cache)
    label_texts(config.data, data.label_names)
    return data


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


def has_names(config: Config, labels: int) -> bool:
    """Whether a classifier of K labels begins from their names.

    That needs an encoder that reads them. More names than numbers in a vector would outweigh it.
    """
    if not (_encodes(config) and config.model.label_names) or _tokenizer_name(config) == WORDS:
        return False
    return labels <= vector_width(config.model.pretrained)


def _encodes(config: Config) -> bool:
    """Whether a classifier reads vectors that a frozen encoder makes of tokens."""
    return config.model.name == "frozen" and config.data.vectors is None


def model_inputs(config: Config, tokens: np.ndarray, beside: Beside = _NOTHING) -> np.ndarray:
    """What the classifier takes: tokens or own vectors, or a frozen encoder's vectors [N, D].

    Vectors are kept on disk; the same documents are never encoded twice. What stands beside them
    follows in further columns.
    """
    if not _encodes(config):
        return tokens
    return _joined(_encoder_vectors(config, tokens), tokens, beside)


def pool_words(config: Config, tokens: np.ndarray) -> LatentWords | None:
    """What describes the words of documents like these [N, T]; None if no classifier reads it."""
    if not (_encodes(config) and config.model.lsa):
        return None
    return latent_words(tokens, config.model.lsa)


def first_inputs(
    config: Config,
    tokens: np.ndarray,
    label_names: Sequence[str],
    words: LatentWords | None,
    documents: int | None = None,
) -> tuple[Any, Beside]:
    """As :func:`model_inputs`, and what says of further documents what it said of these.

    Args:
      config: its data, model and devices.
      tokens: [N, T], or own vectors.
      label_names: the K labels.
      words: of :func:`pool_words`.
      documents: the first so many are those to choose from; None for all.
    """
    if not _encodes(config):
        return tokens, _NOTHING
    vectors, names = _encoder_vectors(config, tokens), None
    if has_names(config, len(label_names)):
        texts = label_texts(config.data, label_names)
        of_texts = _tokens(config, _text_tokenizer(config, texts), texts, config.data.max_tokens)
        names = compare_with_names(_encoder_vectors(config, of_texts), vectors[:documents])
    beside = Beside(words, names)
    return _joined(vectors, tokens, beside), beside


def _encoder_vectors(config: Config, tokens: np.ndarray) -> np.ndarray:
    """Vectors [N, D] of a frozen encoder."""
    model = config.model.on(jax.default_backend())
    encoder = encoder_fingerprint(resolve_pretrained(model.pretrained))
    key = json_hash([fingerprint(tokens), encoder, model.precision, embed.WINDOW, _FORMAT])
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


def _joined(vectors: np.ndarray, tokens: np.ndarray, beside: Beside) -> Any:
    """Vectors with what stands beside them, rows [N, D + L + K]; of many, made when read."""
    if beside.width == 0:
        return vectors
    joined = JoinedRows(vectors, tokens, beside)
    return joined if vectors.nbytes > _IN_MEMORY else np.asarray(joined)


def without_names(inputs: Any, beside: Beside) -> Any:
    """What documents are told apart by: inputs [N, ...] but for similarities to names."""
    if beside.names is None:
        return inputs
    if isinstance(inputs, JoinedRows):
        return _joined(inputs.base, inputs.tokens, beside._replace(names=None))
    return inputs[:, : -len(beside.names.names)]


def classifier(
    config: Config, inputs: Any, vocabulary_size: int, labels: int, named: bool
) -> Model:
    """The model of a config for inputs [N, ...] made by :func:`model_inputs`, names or not."""
    if config.model.name != "frozen":
        return build_model(config.model, vocabulary_size, labels)
    width = inputs.shape[1] - labels * named
    head = build_model(config.model, width, labels)
    return with_name_prior(head, width) if named else head


def check_encoder(config: Config) -> None:
    """Raises if a config names an encoder that cannot be had or used; fetches no weights.

    Raises:
      PretrainedNotFoundError: if it is neither on this machine nor on the hub.
      PretrainedError: if it is of a kind that is not implemented.
      DataError: naming a file of it that is damaged or was cut short.
    """
    if (name := _tokenizer_name(config)) != WORDS:
        check_whole(find_pretrained(name))
    if config.model.name in ("distilbert", "frozen"):
        folder = find_pretrained(config.model.pretrained)
        check_whole(folder)
        read_architecture(folder)


def encode_texts(
    config: Config,
    texts: Sequence[str] | np.ndarray | Rows,
    label_names: Sequence[str],
    digest: Digest = None,
    words: LatentWords | None = None,
) -> EncodedTexts:
    """At least one document, for a classifier whose words are those of all.

    Args:
      config: its data, model and devices.
      texts: N texts, or the user's own vectors float32 [N, D].
      label_names: the K labels.
      digest: gives a hash of the texts, under which many tokens are kept on disk; None to keep
        none.
      words: what describes the documents' words; None to read it off them.

    Raises:
      DataError: for vectors, if the classifier takes words.
    """
    if isinstance(texts, np.ndarray | Rows):
        if config.model.name != "frozen":
            name = config.model.name
            raise DataError(f"vectors: expected a config with model.name frozen, found {name}")
        model = classifier(config, texts, 0, len(label_names), named=False)
        return EncodedTexts(None, texts, model, _NOTHING)
    digest = digest if config.devices.cache else None
    tokenizer = _text_tokenizer(config, texts, digest)
    columns = tokenizer.columns((), config.data.max_tokens)
    tokens = _tokens(config, tokenizer, texts, columns, digest)
    words = pool_words(config, tokens) if words is None else words
    inputs, beside = first_inputs(config, tokens, label_names, words)
    named = beside.names is not None
    model = classifier(config, inputs, tokenizer.size, len(label_names), named)
    return EncodedTexts(tokenizer, inputs, model, beside)


def text_inputs(
    config: Config, known: EncodedTexts, texts: Sequence[str] | np.ndarray
) -> np.ndarray:
    """What the classifier of known documents takes of at least one new one.

    Nothing is kept on disk: these documents may never come again.
    """
    if isinstance(texts, np.ndarray):
        if known.tokenizer is not None:
            raise DataError("documents: expected texts, as before, found vectors")
        return texts
    if known.tokenizer is None:
        raise DataError("documents: expected vectors, as before, found texts")
    config = dataclasses.replace(config, devices=dataclasses.replace(config.devices, cache=False))
    columns = known.tokenizer.columns([_corpus(texts)], config.data.max_tokens)
    return model_inputs(config, _tokens(config, known.tokenizer, texts, columns), known.beside)


def _tokens(
    config: Config,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    columns: int,
    digest: Digest = None,
) -> np.ndarray:
    """Ids int32 [N, T] of texts that have no more than ``columns``; see :func:`encode_texts`."""
    rounded = lambda width: min(-(-width // _WIDTH_STEP) * _WIDTH_STEP, config.data.max_tokens)
    shape, key = (len(texts), rounded(columns)), None
    if digest is not None and 4 * shape[0] * shape[1] > _IN_MEMORY:
        key = json_hash([digest(), *_tokenizer_facts(config), shape, _FORMAT])
    with kept_folder(key) as folder:
        tokens = kept(
            None if folder is None else folder / "tokens",
            Plan(key or "", shape, "int32"),
            lambda start: token_blocks([_corpus(texts)], tokenizer, shape[1], start),
            "tokenising the documents",
        )
    return tokens[:, : rounded(used_columns(tokens))]


def encoder_used(config: Config) -> str:
    """A hash of the files of the encoder that a classifier reads texts with; "" without one.

    Of one that is not on this machine it is "", too: whoever needs it says so.
    """
    if config.model.name not in ("distilbert", "frozen") or config.data.vectors is not None:
        return ""
    names = {config.model.pretrained, _tokenizer_name(config)} - {WORDS}
    try:
        return "".join(encoder_fingerprint(resolve_pretrained(name)) for name in sorted(names))
    except PretrainedNotFoundError:
        return ""


def _tokenizer_name(config: Config) -> str:
    """The tokenizer a config names, or the one its classifier needs; an unknown one is an error."""
    get_builder(config.model.name)
    pretrained = config.model.name in ("distilbert", "frozen")
    return config.data.tokenizer or (config.model.pretrained if pretrained else WORDS)


def _tokenizer_facts(config: Config) -> tuple[str, object]:
    """What decides the tokens of texts, beside the texts."""
    name = _tokenizer_name(config)
    if name == WORDS:
        return WORDS, config.data.min_count
    return "pretrained", encoder_fingerprint(resolve_pretrained(name))


def _text_tokenizer(config: Config, texts: Sequence[str], digest: Digest = None) -> Tokenizer:
    """The words of all texts, or the tokenizer of the pretrained encoder a config names."""
    name = _tokenizer_name(config)
    if name == WORDS:
        key = digest and json_hash([digest(), *_tokenizer_facts(config), _FORMAT])
        return vocabulary_of(_corpus(texts), config.data.min_count, key)
    return load_pretrained_tokenizer(resolve_pretrained(name), name)


def _corpus(texts: Sequence[str]) -> Corpus:
    return Corpus(texts, [()] * len(texts), tokenised=False, split="texts")
