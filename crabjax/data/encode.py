"""Documents to integer arrays, by an own word vocabulary or a Hugging Face tokenizer."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from crabjax.data.corpus import Corpus
from crabjax.files import DataError
from crabjax.files.store import Blocks, blocks_of
from crabjax.progress import counting

PAD = 0  # of every tokenizer, so that a mask is ``tokens != 0``
UNK = 1  # of word vocabularies
WORDS = "words"

_LONGEST = 512  # ids, where nothing says how many the encoder takes
_BLOCK = 4096  # documents that become rows of an array at once
_BATCH = 512  # documents given to a Hugging Face tokenizer at once; bounds its memory


class Encoded(NamedTuple):
    """Documents as arrays.

    Attributes:
      tokens: ids, padded on the right with 0, or the user's own vectors.  # int32 [N, T]
      labels: which labels each document has.  # bool [N, K]
    """

    tokens: np.ndarray
    labels: np.ndarray


class Tokenizer(Protocol):
    """Turns documents into ids from 1 to ``size - 1``; 0 is padding."""

    @property
    def size(self) -> int:
        """The number of ids, padding included."""
        ...

    def columns(self, others: Sequence[Corpus], max_tokens: int) -> int:
        """Ids that no document has more of, of its own corpus, if it has one, and of others."""
        ...

    def rows(self, corpus: Corpus, max_tokens: int, start: int = 0) -> Iterator[Sequence[int]]:
        """The first ``max_tokens`` ids, at least one, of the documents from ``start`` on."""
        ...


@dataclass(frozen=True)
class Vocabulary:
    """Words and their ids: ``words[i]`` has id ``i + 2``, after PAD and UNK.

    Attributes:
      words: the most frequent first.
      longest: the number of words of the longest document they come from.
    """

    words: tuple[str, ...]
    longest: int = 1

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each word."""
        return {word: number for number, word in enumerate(self.words, start=UNK + 1)}

    @property
    def size(self) -> int:
        """The number of ids, PAD and UNK included."""
        return len(self.words) + UNK + 1

    def columns(self, others: Sequence[Corpus], max_tokens: int) -> int:
        """The words of the longest document, ``max_tokens`` at most."""
        longest = max((len(words) for one in others for words in one.words()), default=1)
        return min(max(self.longest, longest), max_tokens)

    def rows(self, corpus: Corpus, max_tokens: int, start: int = 0) -> Iterator[Sequence[int]]:
        """The first ``max_tokens`` ids of each document; one UNK where it has no words."""
        get = self.ids.get
        for words in corpus.words(start):
            yield list(map(get, words[:max_tokens], repeat(UNK))) or [UNK]


def build_vocabulary(corpus: Corpus, min_count: int) -> Vocabulary:
    """The words that occur at least ``min_count`` times, the most frequent first."""
    counts: Counter[str] = Counter()
    longest = 1
    with counting(f"counting the words of {corpus.split}", len(corpus)) as advance:
        documents = corpus.words()
        while block := list(islice(documents, _BLOCK)):
            counts.update(chain.from_iterable(block))
            longest = max(longest, *map(len, block))
            advance(len(block))
    kept = [(-count, word) for word, count in counts.items() if count >= min_count]
    return Vocabulary(tuple(word for _, word in sorted(kept)), longest)


@dataclass(frozen=True)
class PretrainedTokenizer:
    """A Hugging Face tokenizer; markers such as [CLS] count towards ``max_tokens``."""

    backend: Any  # a tokenizers.Tokenizer
    name: str
    longest: int  # ids that the encoder takes

    @property
    def size(self) -> int:
        """The number of ids, padding included."""
        return self.backend.get_vocab_size()

    def columns(self, others: Sequence[Corpus], max_tokens: int) -> int:
        """``max_tokens``: only tokenising would tell."""
        return max_tokens

    def rows(self, corpus: Corpus, max_tokens: int, start: int = 0) -> Iterator[Sequence[int]]:
        """The first ``max_tokens`` ids of each document, markers included."""
        markers = self.backend.num_special_tokens_to_add(False)
        if not markers < max_tokens <= self.longest:
            raise DataError(
                f"data.max_tokens: {self.name} takes {markers + 1} to {self.longest} tokens, "
                f"found {max_tokens}"
            )
        texts = corpus.texts(start)
        while batch := list(islice(texts, _BATCH)):
            # A word gives one id or more, so words past max_tokens rarely count; it is they that
            # cost the time. Where a word gave none, the whole document is encoded after all.
            parts = [text.split(None, max_tokens) for text in batch]
            cut = [len(words) > max_tokens for words in parts]
            starts = [
                " ".join(words[:max_tokens]) if shortened else text
                for text, words, shortened in zip(batch, parts, cut)
            ]
            rows = self._ids(starts, max_tokens)
            for text, ids, shortened in zip(batch, rows, cut):
                whole = not shortened or len(ids) == max_tokens
                yield ids if whole else self._ids([text], max_tokens)[0]

    def _ids(self, texts: list[str], max_tokens: int) -> list[list[int]]:
        self.backend.enable_truncation(max_tokens)
        return [encoding.ids for encoding in self.backend.encode_batch(texts)]


def load_pretrained_tokenizer(folder: Path, name: str) -> PretrainedTokenizer:
    """Loads the tokenizer of a folder; ``name`` is what messages call it.

    Raises:
      DataError: if the folder has no tokenizer or one that does not pad with id 0.
    """
    if not tokenizer_files(folder):
        raise DataError(f"{folder}: no tokenizer.json or vocab.txt in this folder")
    try:
        about = _settings(folder / "tokenizer_config.json")
        backend = _tokenizer(folder, about)
        longest = about.get("model_max_length") or math.inf
        limit = _settings(folder / "config.json").get("max_position_embeddings", _LONGEST)
    except Exception as error:  # tokenizers raises plain Exception for a file it cannot read
        reason = " ".join(str(error).split())[:160]
        raise DataError(f"{folder}: its tokenizer cannot be read: {reason}") from error
    padding = about.get("pad_token", "[PAD]")
    padding = padding["content"] if isinstance(padding, dict) else padding
    if (found := backend.token_to_id(padding)) != PAD:
        raise DataError(
            f"{name}: expected a tokenizer that pads with id 0 (the BERT family), found {found}"
        )
    backend.no_padding()
    backend.encode_special_tokens = True  # a text that spells out "[PAD]" must not become padding
    return PretrainedTokenizer(backend, name, int(min(longest, limit)))


def _tokenizer(folder: Path, about: dict[str, Any]) -> Any:
    from tokenizers import Tokenizer
    from tokenizers.implementations import BertWordPieceTokenizer

    if (folder / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    lowercase = about.get("do_lower_case", True)
    pieces = BertWordPieceTokenizer(
        str(folder / "vocab.txt"),
        lowercase=lowercase,
        strip_accents=about.get("strip_accents", lowercase),
        handle_chinese_chars=about.get("tokenize_chinese_chars", True),
    )
    return Tokenizer.from_str(pieces.to_str())


def _settings(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of a folder that decide what its tokenizer does."""
    starts = ("tokenizer", "vocab", "special_tokens", "added_tokens", "merges")
    return sorted(path for path in folder.iterdir() if path.name.startswith(starts))


def token_blocks(
    corpora: Sequence[Corpus], tokenizer: Tokenizer, max_tokens: int, start: int = 0
) -> Blocks:
    """The ids of the documents of all corpora, one after another, int32 [b, ``max_tokens``] each.

    Args:
      corpora: one or more.
      tokenizer: of all.
      max_tokens: that documents are cut to; shorter ones are padded with 0.
      start: documents that are left out.
    """
    for corpus, skipped, before in _parts(corpora, start):
        rows, at = tokenizer.rows(corpus, max_tokens, skipped), before + skipped
        while block := list(islice(rows, _BLOCK)):
            yield slice(at, at + len(block)), _padded(block, max_tokens)
            at += len(block)


def label_blocks(corpora: Sequence[Corpus], label_names: Sequence[str], start: int = 0) -> Blocks:
    """Which labels the documents of all corpora have, bool [b, K] each; see `token_blocks`."""
    for corpus, skipped, before in _parts(corpora, start):
        for first in range(skipped, len(corpus), _BLOCK):
            block = corpus.label_matrix(label_names, slice(first, first + _BLOCK))
            yield slice(before + first, before + first + len(block)), block


def used_columns(tokens: np.ndarray) -> int:
    """The length of the longest document, at least 1."""
    numbers = np.arange(1, tokens.shape[1] + 1)
    return max(1, *(int((block.any(axis=0) * numbers).max()) for block in blocks_of(tokens)))


def _parts(corpora: Sequence[Corpus], start: int) -> Iterator[tuple[Corpus, int, int]]:
    """Corpora with how many of their documents are left out, and how many stand before them."""
    before = 0
    for corpus in corpora:
        if (skipped := max(0, start - before)) < len(corpus):
            yield corpus, skipped, before
        before += len(corpus)


def _padded(rows: Sequence[Sequence[int]], width: int) -> np.ndarray:
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    block = np.zeros((len(rows), width), np.int32)
    ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
    block[np.arange(width) < lengths[:, None]] = ids
    return block
