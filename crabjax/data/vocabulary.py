"""Words of many documents: counted once, and by later starts only if they are asked for."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from crabjax.data.corpus import Corpus
from crabjax.data.encode import Tokenizer, Vocabulary, build_vocabulary
from crabjax.files.cache import kept_folder
from crabjax.files.store import Blocks, Plan, kept

_MANY = 50_000  # documents; the words of fewer are soon counted


def vocabulary_of(corpus: Corpus, min_count: int, key: str | None) -> Tokenizer:
    """The words of documents.

    Args:
      corpus: the documents.
      min_count: how often a word must occur.
      key: a hash of both, under which sizes are kept on disk; None to keep nothing.
    """
    if key is None or len(corpus) < _MANY:
        return build_vocabulary(corpus, min_count)
    return _SizedVocabulary(corpus, min_count, key)


class _SizedVocabulary:
    """A vocabulary of which the cache has two numbers, and no word.

    Whoever has the tokens of the documents, made once, needs no more.
    """

    def __init__(self, corpus: Corpus, min_count: int, key: str):
        self._corpus, self._min_count = corpus, min_count
        with kept_folder(key) as folder:
            path, plan = folder and folder / "sizes", Plan(key, (2,), "int64")
            self._sizes = kept(path, plan, self._count, "counting words")

    @property
    def size(self) -> int:
        """The number of ids, PAD and UNK included."""
        return int(self._sizes[0])

    def columns(self, others: Sequence[Corpus], max_tokens: int) -> int:
        """The words of the longest document, ``max_tokens`` at most."""
        return Vocabulary((), int(self._sizes[1])).columns(others, max_tokens)

    def rows(self, corpus: Corpus, max_tokens: int, start: int = 0) -> Iterator[Sequence[int]]:
        """See :class:`~crabjax.data.encode.Vocabulary`; words are counted now."""
        return self._words.rows(corpus, max_tokens, start)

    @cached_property
    def _words(self) -> Vocabulary:
        return build_vocabulary(self._corpus, self._min_count)

    def _count(self, start: int) -> Blocks:
        sizes = np.array([self._words.size, self._words.longest])
        yield slice(start, 2), sizes[start:]
