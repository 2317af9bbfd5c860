"""Documents to integer arrays, by an own word vocabulary or a Hugging Face tokenizer."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, repeat
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from crabjax.data.corpus import Corpus
from crabjax.files import DataError

PAD = 0  # of every tokenizer, so that a mask is ``tokens != 0``
UNK = 1  # of word vocabularies
WORDS = "words"

_LONGEST = 512  # ids, where nothing says how many the encoder takes
_BATCH = 512  # documents given to a Hugging Face tokenizer at once; bounds its memory


class Encoded(NamedTuple):
    """One split as arrays.

    Attributes:
      tokens: ids, padded on the right with 0.  # int32 [N, T]
      lengths: the number of ids of each document, at least 1.  # int32 [N]
      labels: which labels each document has.  # bool [N, K]
    """

    tokens: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray


class Tokenizer(Protocol):
    """Turns documents into ids from 1 to ``size - 1``; 0 is padding."""

    @property
    def size(self) -> int:
        """The number of ids, padding included."""
        ...

    def rows(self, corpus: Corpus, max_tokens: int) -> Iterator[Sequence[int] | np.ndarray]:
        """The first ``max_tokens`` ids of every document; at least one each."""
        ...


@dataclass(frozen=True)
class Vocabulary:
    """Words and their ids: ``words[i]`` has id ``i + 2``, after PAD and UNK."""

    words: tuple[str, ...]

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each word."""
        return {word: number for number, word in enumerate(self.words, start=UNK + 1)}

    @property
    def size(self) -> int:
        """The number of ids, PAD and UNK included."""
        return len(self.words) + UNK + 1

    def rows(self, corpus: Corpus, max_tokens: int) -> Iterator[Sequence[int] | np.ndarray]:
        """The first ``max_tokens`` ids of every document; one UNK where it has no words."""
        get = self.ids.get
        for words in corpus.words():
            kept = words[:max_tokens]
            ids = np.fromiter(map(get, kept, repeat(UNK)), dtype=np.int32, count=len(kept))
            yield ids if kept else [UNK]


def build_vocabulary(corpus: Corpus, min_count: int) -> Vocabulary:
    """The words that occur at least ``min_count`` times, the most frequent first."""
    counts: Counter[str] = Counter()
    for words in corpus.words():
        counts.update(words)
    kept = [(-count, word) for word, count in counts.items() if count >= min_count]
    return Vocabulary(tuple(word for _, word in sorted(kept)))


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

    def rows(self, corpus: Corpus, max_tokens: int) -> Iterator[Sequence[int] | np.ndarray]:
        """The first ``max_tokens`` ids of every document, markers included."""
        markers = self.backend.num_special_tokens_to_add(False)
        if not markers < max_tokens <= self.longest:
            raise DataError(
                f"data.max_tokens: {self.name} takes {markers + 1} to {self.longest} tokens, "
                f"found {max_tokens}"
            )
        texts = corpus.texts()
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


def encode(
    corpus: Corpus, tokenizer: Tokenizer, label_names: Sequence[str], max_tokens: int
) -> Encoded:
    """Encodes a corpus into arrays of width T = ``max_tokens``; longer documents are cut."""
    tokens = np.zeros((len(corpus), max_tokens), dtype=np.int32)  # [N, T]
    lengths = np.zeros(len(corpus), dtype=np.int32)  # [N]
    for row, ids in enumerate(tokenizer.rows(corpus, max_tokens)):
        tokens[row, : len(ids)] = ids
        lengths[row] = len(ids)
    return Encoded(tokens, lengths, corpus.label_matrix(label_names))


def trim_together(splits: Iterable[Encoded]) -> list[Encoded]:
    """Cuts the columns that are padding in every document of every split: one T for all."""
    splits = list(splits)
    width = max(int(split.lengths.max()) for split in splits)
    return [
        split._replace(tokens=np.ascontiguousarray(split.tokens[:, :width])) for split in splits
    ]
