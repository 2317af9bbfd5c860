"""What was learnt from texts and answers: made when it is needed, dropped when they change."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
from scipy.special import expit

from crabjax.config import Config, experiment_settings
from crabjax.data.lsa import LatentWords
from crabjax.data.names import label_texts
from crabjax.data.vectors import Rows
from crabjax.ensemble import (
    fit_ensemble,
    member_keys,
    needed_rows,
    predict_features,
    predict_logits,
)
from crabjax.files import DataError
from crabjax.files.seals import json_hash
from crabjax.files.store import Blocks, Plan, blocks_of, fingerprint, gather, kept
from crabjax.inputs import EncodedTexts, encode_texts, encoder_used
from crabjax.keys import host_generator, run_key
from crabjax.labelling.answers import check_label_names, is_cold
from crabjax.labelling.held_out import member_rows
from crabjax.labelling.labelled_texts import LabelledTexts
from crabjax.labelling.learning_curve import Cases
from crabjax.labelling.saved_learner import VERSION
from crabjax.labelling.seen import Given, check_documents, vectors_of
from crabjax.labelling.suggestion import Picks
from crabjax.models import Params, get_builder
from crabjax.pool.look import AllBut
from crabjax.progress import doing
from crabjax.strategies import Pool, get_strategy, part_of, with_features
from crabjax.thresholds import Unchosen, ensemble_threshold, mean_threshold

_WINDOW = 1 << 12  # documents at once: sorted by length together; a stop costs their time
_LOGITS = 1 << 24  # numbers of a window's logits at most
_IN_MEMORY = 1 << 26  # bytes of a file of vectors up to which all are read


Item = TypeVar("Item")


class NotFittedError(ValueError):
    """Too few labels for what was asked."""


class Trained:
    """Texts, answers, and the ensemble, predictions and queries that follow from them.

    Args:
      config: of a :class:`~crabjax.labelling.learner.Learner`.
      label_names: the K labels.
    """

    def __init__(self, config: Config, label_names: Sequence[str]):
        self.config = config
        self.label_names = check_label_names(label_names)
        # An unknown name is an error now, not after labelling.
        self._strategy = get_strategy(config.strategy.name)
        get_builder(config.model.name)
        label_texts(config.data, self.label_names)
        if config.data.vectors is not None:
            raise DataError(
                "data.vectors: of runs and projects; a Learner takes vectors in place of texts"
            )
        self._known = LabelledTexts(self.label_names)
        self._forget()

    @property
    def labelled(self) -> int:
        """The number of documents with labels, skipped ones not counted."""
        return len(self._known.labelled_rows())

    def fingerprint(self) -> str:
        """A hash of all that decides the results: version, settings, encoder, texts, answers."""
        decides = {
            "version": VERSION,
            "config": experiment_settings(self.config),
            "label_names": self.label_names,
            "texts": self._known.digest(),
            "answers": self._known.answers_by_row(),
        }
        # Without an encoder it stays what it was before encoders were part of it.
        if vectors_of(self._known.documents) is None and (encoder := encoder_used(self.config)):
            decides["encoder"] = encoder
        return json_hash(decides)

    def _forget(self) -> None:
        """Drops all that follows from texts and answers; it is made again when needed."""
        self._forget_inputs()
        self._params: Params | None = None
        self._threshold: float | None = None

    def _forget_inputs(self, words: LatentWords | None = None) -> None:
        """Drops what was made of the texts, which is made again with these words, if there are."""
        self._encoded: EncodedTexts | None = None
        self._words = words
        self._logits: tuple[bytes | None, np.ndarray] | None = None

    def see(self, texts: Given) -> None:
        """Makes texts known without an answer."""
        if self._known.add(check_documents(texts)):
            self._forget()

    def _is_cold(self) -> bool:
        return is_cold(said for _, said in self._known.answers_by_row())

    def _key(self, purpose: str) -> jax.Array:
        return run_key(self.config.loop.seeds[0], purpose, len(self._known.answered))

    def _documents(self) -> EncodedTexts:
        if self._encoded is None:
            known = self._known
            vectors = vectors_of(known.documents)
            if isinstance(vectors, Rows) and vectors.nbytes <= _IN_MEMORY:
                vectors = np.asarray(vectors)
            documents = known.documents if vectors is None else vectors
            self._encoded = encode_texts(
                self.config, documents, self.label_names, known.digest, self._words
            )
            self._words = self._encoded.beside.words
        return self._encoded

    @doing("training the ensemble")
    def _ensemble(self) -> Params:
        if self._params is None:
            labels, config = self._known.labels(), self.config.ensemble
            if not labels.any():
                raise NotFittedError("expected a labelled document with a label, found none")
            documents, key = self._documents(), self._key("fit")
            labelled = self._known.labelled_rows()
            rows = member_rows(labelled, config.members, host_generator(key), config.keep)
            keys = member_keys(key[None], config.members, config.member_init)
            needed = needed_rows(documents.inputs, labels, *rows, capacity=rows.train_rows.shape[1])
            self._params, _ = fit_ensemble(
                documents.model, config, keys, *needed, devices=self.config.devices
            )
        return self._params

    def _cases(self) -> Cases:
        """The answers, for cross-validation."""
        documents, known, config = self._documents(), self._known, self.config
        learner = documents.model, config.ensemble, config.devices, self._key("folds")
        return Cases(*learner, documents.inputs, known.labels(), known.labelled_rows())

    def _open_threshold(
        self, rows: AllBut, probabilities: np.ndarray | None, others: np.ndarray | None
    ) -> float:
        """Of texts without an answer and, in bins, what is thought of the others."""
        known = Unchosen(self._known.labels()[self._known.unchosen_rows()], self.labelled)
        if len(rows) == 0:
            nothing = np.zeros((0, len(self.label_names))), np.zeros(0, int)
            return mean_threshold(*nothing, others, known=known)
        if probabilities is None:
            pool = self._pool(rows, 1)
            return ensemble_threshold(pool.logits, pool.unlabelled, others, len(rows), known)
        key, config = self._key("query"), self.config.strategy
        look = self._strategy.look(key, rows, 1, config, len(self._known))
        return mean_threshold(probabilities, look.documents, others, len(rows), known)

    def _samples(self) -> bool:
        """Whether a query of all texts without an answer looks at only a part of them."""
        documents, config = len(self._known), self.config.strategy
        unanswered = documents - len(self._known.answered)
        return self._strategy.samples(unanswered, 1, config, documents)

    def predict_all(self, path: Path | None = None) -> np.ndarray:
        """The ensemble's mean probabilities of all documents seen, float32 [N, K], by row.

        While a window is predicted, the next one is read and the last one written.

        Args:
          path: of a file for them, mapped; a call that was stopped is gone on with there, if
            documents, answers and parameters are the same.
        """
        params, documents = self._ensemble(), self._documents()
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
        labels, batch = len(self.label_names), self.config.devices.predict_batch
        most = max(_LOGITS // (len(leaves[0]) * labels), 1)
        rows = min(_WINDOW, 1 << (most.bit_length() - 1))

        def blocks(start: int) -> Blocks:
            read = ahead(blocks_of(documents.inputs[start:], rows))
            logits = (predict_logits(documents.model, params, window, batch) for window in read)
            for probabilities in ahead(expit(one).mean(axis=0) for one in logits):
                yield slice(start, start + len(probabilities)), probabilities
                start += len(probabilities)

        origin = f"{self.fingerprint()} {fingerprint(*leaves)}"
        plan = Plan(origin, (len(documents.inputs), labels), "float32")
        return kept(path, plan, blocks, "predicting all documents")

    @doing("predicting all documents")
    def _seen_logits(self) -> np.ndarray:
        """Member logits of every text seen, [E, N, K]."""
        return self._logits_of(None)

    def _logits_of(self, rows: np.ndarray | None) -> np.ndarray:
        """Member logits [E, X, K] of some rows, or all; the last that were asked for are kept."""
        which = None if rows is None else rows.tobytes()
        if self._logits is None or self._logits[0] != which:
            params, documents = self._ensemble(), self._documents()
            inputs = documents.inputs if rows is None else gather(documents.inputs, rows)
            batch = self.config.devices.predict_batch
            self._logits = which, predict_logits(documents.model, params, inputs, batch)
        return self._logits[1]

    @doing("predicting what is looked at")
    def _pool(self, unlabelled: np.ndarray | AllBut, n: int) -> Pool:
        """What a query of ``n`` from these rows may see, document vectors left out."""
        loop, config, documents = self.config.loop, self.config.strategy, len(self._known)
        labels, labelled = self._known.labels(), np.sort(self._known.labelled_rows())
        schedule = max(0, self.labelled - loop.initial_size) // loop.query_size, loop.rounds
        look = self._strategy.look(self._key("query"), unlabelled, n, config, documents)
        if not self._samples():
            logits = self._seen_logits()
            return Pool(logits, labels, labelled, look.documents, None, *schedule, look=look)
        room = 1 << len(labelled).bit_length()  # few shapes while answers come in
        part = part_of(self._strategy, look, labelled, room, documents, n, config)
        return part.pool(self._logits_of(part.predicted), labels[labelled], *schedule)

    @doing("choosing documents")
    def _query(self, pool: Pool, n: int) -> Picks:
        """What the strategy picks; it sees the document vectors of the first member."""
        key, config = self._key("query"), self.config.strategy
        pool = self._strategy.narrowed(key, pool, n, config)
        if self._strategy.needs_features(config):
            first = jax.tree.map(lambda leaf: leaf[0], self._ensemble())
            documents, batch = self._documents(), self.config.devices.predict_batch
            features_of = lambda rows: predict_features(
                documents.model, first, gather(documents.inputs, rows), batch
            )
            pool = with_features(pool, self._strategy, features_of)
        rows, _, scores, sources = self._strategy(key, pool, n, config)
        if scores is None:
            scores = np.full(len(rows), np.nan)
        return rows, np.asarray(scores, np.float32), sources or [config.name] * len(rows)


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; the next one is made in another thread while one is in use."""
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, iterator, end)
            yield item  # type: ignore[misc]
