"""Active learning on people's own texts: fit, ask, tell."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from crabjax.config import experiment_settings, from_stored, to_dict
from crabjax.ensemble import predict_logits
from crabjax.files.store import gather
from crabjax.inputs import text_inputs, without_names
from crabjax.labelling.answers import FEWEST_LABELLED, LabelError, label_matrix, parse_answers
from crabjax.labelling.labelled_texts import LabelledTexts, unchosen_of
from crabjax.labelling.learning_curve import LearningCurve, learning_curve, out_of_fold
from crabjax.labelling.saved_learner import (
    VERSION,
    SavedLearner,
    SavedLearnerError,
    damage_named,
    read_saved,
    write_saved,
)
from crabjax.labelling.seen import Given, check_documents, take
from crabjax.labelling.suggestion import Suggestion, cover
from crabjax.labelling.trained import NotFittedError, Trained
from crabjax.metrics import evaluate
from crabjax.pool.look import AllBut
from crabjax.progress import doing
from crabjax.strategies import EmptyPoolError
from crabjax.thresholds import HALF, in_bins

FEWEST_OPEN = 100  # texts without an answer that a threshold is read off


class Learner(Trained):
    """Learns labels of texts, and says which text to label next.

    In place of texts, vectors of one's own may be given wherever texts are taken, as an array of
    floats [n, D], with ``model.name: frozen``; no encoder is needed then. What is said of texts
    below holds for them too.

    A text is a document: texts that are equal count once, and a later answer for one replaces
    the earlier. All results follow from the configuration (its first seed), the texts in the
    order they came, and the answers. The ensemble is trained when first needed after an answer;
    words count as known if any text given to ``fit``, ``ask`` or ``tell`` has them.

    All answers are learnt from. Only with ``ensemble.keep: best`` epochs are compared: up to 600
    labelled documents on the training documents themselves; beyond, each member sets more and
    more aside to choose its epoch by, from 800 on another eighth.

    Args:
      config: ``data`` (tokens), ``model``, ``ensemble`` and ``strategy`` are used; of ``loop`` the
        first seed, and the schedule by which hard-to-learn documents become fewer.
      label_names: the K labels.
    """

    def fit(self, texts: Given, labels: Any) -> "Learner":
        """Starts again from these answers; see :meth:`tell`.

        They count as not chosen by a strategy: tell those that were asked for later.
        """
        texts = check_documents(texts)
        parse_answers(labels, self.label_names, len(texts))  # before anything is forgotten
        self._known = LabelledTexts(self.label_names)
        self._forget()
        return self.tell(texts, labels)

    def tell(self, texts: Given, labels: Any) -> "Learner":
        """Adds answers.

        Args:
          texts: n documents.
          labels: a binary matrix [n, K], or for each document a list of label names (which may be
            empty), "skipped" (never ask again) or None (no answer yet).

        Raises:
          LabelError: naming the first document whose labels cannot be used; nothing is added.
        """
        texts = check_documents(texts)
        answers = parse_answers(labels, self.label_names, len(texts))
        self.see(texts)
        if self._known.answer(texts, answers):
            self._known.may_be_chosen |= not self._is_cold()
            self._params = self._logits = self._threshold = None
        return self

    def only_unchosen(self, texts: Given) -> "Learner":
        """Says which of the texts no strategy chose, in place of those told in a cold start."""
        rows = self._known.rows(check_documents(texts))
        assert rows is not None
        self._known.unchosen, self._threshold = set(rows.tolist()), None
        return self

    def ask(self, pool_texts: Given, n: int) -> Suggestion:
        """The ``n`` documents of the pool to label next, fewer if fewer have no answer.

        Documents that were answered or skipped may stay in the pool; they are passed over. With
        fewer than ten labelled documents, or none that carries a label, the suggestion is a
        cold start: half of them cover the pool, half are drawn at random.

        Raises:
          EmptyPoolError: if every document of the pool has an answer.
        """
        texts = check_documents(pool_texts)
        if n < 1:
            raise ValueError(f"n: expected at least 1, found {n}")
        self.see(texts)
        seen = self._known.rows(texts)
        in_pool, first = np.unique(np.zeros(0, int) if seen is None else seen, return_index=True)
        unlabelled = np.setdiff1d(in_pool, sorted(self._known.answered), assume_unique=True)
        if len(unlabelled) == 0:
            raise EmptyPoolError(f"ask: all {len(texts)} documents of the pool have an answer")
        if self._is_cold():
            key, documents = self._key("query"), self._documents()
            inputs = without_names(documents.inputs, documents.beside)
            rows, scores, sources = cover(key, inputs, unlabelled, n)
            probabilities = np.full((len(rows), len(self.label_names)), np.nan, np.float32)
            predicted = np.zeros(probabilities.shape, bool)
        else:
            pool = self._pool(unlabelled, n)
            rows, scores, sources = self._query(pool, n)
            probabilities = pool.probabilities(rows)
            predicted = probabilities > self.threshold()
        indices = first[np.searchsorted(in_pool, rows)]
        return Suggestion(indices, scores, probabilities, predicted, sources)

    def predict(self, texts: Given) -> np.ndarray:
        """Which labels every text has, bool [n, K]: probabilities above :meth:`threshold`."""
        probabilities = self.predict_proba(texts)
        return probabilities > (self.threshold() if len(probabilities) else HALF)

    def train(self) -> "Learner":
        """Trains the ensemble, unless it was trained on these answers; else it waits for a need.

        Raises:
          NotFittedError: if no labelled document carries any label.
        """
        self._ensemble()
        return self

    @property
    def knows_threshold(self) -> bool:
        """Whether :meth:`threshold` has nothing left to find out."""
        return self._threshold is not None or self.config.ensemble.threshold == "half"

    def threshold(self, probabilities: np.ndarray | None = None) -> float:
        """What a probability must exceed for its label to be given.

        Learnt for F1 from the texts that were seen without an answer (of many, from those that a
        query of all of them looks at). Where these are fewer than the answered ones, or few, they
        are not like all texts, and the answered ones count too, each predicted by a model that has
        not learnt from it, once ten are labelled. Answers that came in a cold start, before a
        strategy could choose, say how many labels texts have. 0.5 if nothing is left to learn
        from, and with ``ensemble.threshold: half``.

        Args:
          probabilities: what :meth:`predict_all` gave, if it did: nothing is predicted again.

        Raises:
          NotFittedError: if no labelled document carries any label.
        """
        if self.config.ensemble.threshold == "half":
            return HALF
        if self._threshold is None:
            self.train()
            answered = np.array(sorted(self._known.answered), np.int64)
            open_rows = AllBut(len(self._known), answered)
            alike = len(open_rows) >= max(FEWEST_OPEN, len(answered)) or self._is_cold()
            known = None if alike else in_bins(self._out_of_fold())
            self._threshold = self._open_threshold(open_rows, probabilities, known)
        return self._threshold

    @doing("threshold: training on parts of the answers")
    def _out_of_fold(self) -> np.ndarray:
        return out_of_fold(self._cases())

    def predict_proba(self, texts: Given) -> np.ndarray:
        """The ensemble's mean probability of every label, float32 [n, K].

        Raises:
          NotFittedError: if no labelled document carries any label.
        """
        texts = check_documents(texts)
        if len(texts) == 0:
            return np.zeros((0, len(self.label_names)), np.float32)
        params, documents = self._ensemble(), self._documents()
        batch = self.config.devices.predict_batch
        if (rows := self._known.rows(texts)) is not None:
            if not self._samples():
                return expit(self._seen_logits()[:, rows]).mean(axis=0)
            inputs = gather(documents.inputs, np.array(rows))
            return expit(predict_logits(documents.model, params, inputs, batch)).mean(axis=0)
        inputs = text_inputs(self.config, documents, texts)
        return expit(predict_logits(documents.model, params, inputs, batch)).mean(axis=0)

    def rows(self, texts: Given) -> np.ndarray | None:
        """The row of each text in :meth:`predict_all`, int64 [n]; None if one was never seen."""
        return self._known.rows(check_documents(texts))

    def evaluate(self, texts: Given, labels: Any) -> dict[str, float]:
        """Scores predictions: micro- and macro-F1, precision, recall, mean average precision.

        Decisions are those of :meth:`predict`. Documents without labels are left out.
        """
        texts = check_documents(texts)
        answers = parse_answers(labels, self.label_names, len(texts))
        known = np.array([row for row, said in enumerate(answers) if isinstance(said, list)], int)
        if len(known) == 0:
            raise LabelError("evaluate: expected at least one document with labels, found none")
        probabilities = self.predict_proba(take(texts, known))
        truth = label_matrix([answers[row] for row in known], self.label_names)  # type: ignore[misc]
        scores = evaluate(probabilities[None], truth, self.threshold())  # type: ignore[arg-type]
        return {name: float(value[0]) for name, value in scores._asdict().items()}

    @doing("cross-validation: training on parts of the answers")
    def learning_curve(self) -> LearningCurve:
        """Estimated scores by the number of answers, from cross-validation on the answers.

        Answered documents are not a random sample: a strategy picks difficult ones, so the rest
        of the pool is often easier than they are.

        Raises:
          NotFittedError: with fewer than ten labelled documents, or none that carries a label.
        """
        if self._is_cold():
            raise NotFittedError(
                f"learning_curve: expected at least {FEWEST_LABELLED} labelled documents, some "
                f"with a label, found {self.labelled}"
            )
        return learning_curve(self._cases())

    def save(self, folder: str | Path, *, documents: bool = True) -> None:
        """Writes texts, answers and, where known, parameters and threshold; replaces what is there.

        Args:
          folder: where to.
          documents: False leaves texts and answers out: :meth:`restore` can read it, but not
            :meth:`load`.

        Raises:
          ValueError: for texts of a project with vectors in a file, unless they are left out.
        """
        state = {"config": to_dict(self.config), "fingerprint": self.fingerprint()}
        state |= {"threshold": self._threshold, "unchosen": sorted(self._known.unchosen)}
        if documents:
            state |= self._known.to_dict()
        write_saved(Path(folder), SavedLearner(state, self._params, words=self._words))

    @classmethod
    def load(cls, folder: str | Path) -> "Learner":
        """Reads a saved learner, also one that another version trained.

        Raises:
          SavedLearnerError: if there is none, it is damaged or of a form that is not known.
        """
        state, params, _, words = read_saved(Path(folder))
        with damage_named(folder):
            learner = cls(from_stored(state["config"], "config"), state["label_names"])
            learner._known = LabelledTexts.from_dict(state)
            learner._threshold = learner._stored_threshold(state)
        learner._params, learner._words = params, words
        return learner

    def restore(self, folder: str | Path) -> bool:
        """Takes over parameters and threshold of a saved learner with the same texts and answers.

        Returns:
          Whether it was trained with the same configuration, texts and answers; else nothing
          changes.

        Raises:
          SavedLearnerError: if there is none, it is damaged, or another version trained it,
            which may have come to other parameters.
        """
        state, params, version, words = read_saved(Path(folder))
        if version != VERSION:
            raise SavedLearnerError(f"{folder}: of crabjax {version}, this is {VERSION}")
        if "fingerprint" in state:
            same = state["fingerprint"] == self.fingerprint()
        else:  # saved before there was one, with all that it is a hash of
            with damage_named(folder):
                config = experiment_settings(from_stored(state["config"], "config"))
                own = {"config": experiment_settings(self.config)} | self._known.to_dict()
            same = state | {"config": config} == own
        if params is None or not same:
            return False
        with damage_named(folder):
            self._threshold = self._stored_threshold(state)
        self._forget_inputs(words)
        self._params = params
        return True

    def _stored_threshold(self, state: dict[str, Any]) -> float | None:
        """None if it is not known, or another number of labels was expected when it was learnt."""
        value = state.get("threshold")
        same = "unchosen" in state and unchosen_of(state) == self._known.unchosen
        return float(value) if same and value is not None else None
