"""What a query strategy is given: predictions, known labels, and which documents it may take."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from crabjax.checks import check_labels, check_probabilities
from crabjax.pool.look import Look
from crabjax.pool.refine import Beliefs
from crabjax.pool.score import Anchors, anchors_at

_LEAST = 1e-7  # probability of a member that is certain


class PoolError(ValueError):
    """Arrays that do not make a pool."""


class Pool(NamedTuple):
    """The state of active learning before a query. Indices are rows of the arrays here.

    These are the rows of the training set or, where only a part of it was predicted, of that part.
    Rows that are neither labelled nor unlabelled (held out for validation, or empty) may not be
    read.
    """

    logits: np.ndarray  # float32 [E, N, K]
    labels: np.ndarray  # bool [N, K]; only the rows in `labelled` may be read
    labelled: np.ndarray  # int64 [n], sorted
    unlabelled: np.ndarray  # int64 [u], sorted
    features: np.ndarray | None = None  # float32 [N, D]
    round: int = 0
    rounds: int = 1
    beliefs: Beliefs | None = None  # where somebody needed them before; see ``beliefs_of``
    look: Look | None = None  # what of `unlabelled` is looked at; None: still to be drawn
    rows: np.ndarray | None = None  # int64 [up to N], sorted, of the training set; None: all

    @property
    def candidates(self) -> np.ndarray:
        """The documents to choose from, int64 [X], sorted."""
        return self.looked.candidates

    @property
    def anchors(self) -> Anchors:
        """What the members say of the documents that gains are assessed on."""
        return anchors_at(self.logits, self.looked.anchors, self.looked.anchor_capacity)

    @property
    def looked(self) -> Look:
        """What is looked at, once that is drawn."""
        if self.look is None:
            raise PoolError("pool.look: expected what to look at; calling a strategy draws it")
        return self.look

    def probabilities(self, documents: np.ndarray) -> np.ndarray:
        """The members' mean for some documents [X] of the training set, float32 [X, K]."""
        places = documents if self.rows is None else np.searchsorted(self.rows, documents)
        return expit(self.logits[:, places]).mean(axis=0)

    def looking_at(self, look: Look) -> "Pool":
        """The same with only these documents left in ``unlabelled``."""
        seen, beliefs = look.documents, self.beliefs
        if beliefs is not None:
            traits = beliefs.traits.at(np.searchsorted(self.unlabelled, seen))
            beliefs = beliefs._replace(traits=traits)
        return self._replace(look=look, unlabelled=seen, beliefs=beliefs)

    @classmethod
    def of(
        cls,
        *,
        labels: Any,
        labelled: Any,
        unlabelled: Any = None,
        probabilities: Any = None,
        logits: Any = None,
        features: Any = None,
        round: int = 0,
        rounds: int = 1,
    ) -> "Pool":
        """A pool from what other loops have at hand.

        Args:
          labels: 0 or 1, [N, K] of all documents, or [n, K] of those in ``labelled``, in its order.
          labelled: rows of the training set, int [n], in any order.
          unlabelled: int [u]; all others if None.
          probabilities: of the members, [E, N, K]; or [N, K] of a single one.
          logits: the same in place of probabilities.
          features: document vectors [N, D], for the strategies that need them.
          round: of the query, from 0.
          rounds: how many there will be.

        Raises:
          PoolError: naming what does not fit.
        """
        members = _logits(probabilities, logits)
        documents, classes = members.shape[1:]
        labelled = _rows("labelled", labelled, documents)
        rest = np.setdiff1d(np.arange(documents), labelled)
        unlabelled = rest if unlabelled is None else _rows("unlabelled", unlabelled, documents)
        if len(both := np.intersect1d(labelled, unlabelled)):
            raise PoolError(f"unlabelled: row {both[0]} is in labelled as well")
        known = _labels(labels, labelled, documents, classes)
        if features is not None:
            features = _array("features", features, np.float32)
            if features.ndim != 2 or len(features) != documents:
                raise PoolError(f"features: expected [{documents}, D], found {features.shape}")
        order = np.sort(labelled), np.sort(unlabelled)
        return cls(members, known, *order, features, round, rounds)


def _array(name: str, given: Any, dtype: Any = None) -> np.ndarray:
    try:
        return np.asarray(given, dtype)
    except (TypeError, ValueError) as error:
        raise PoolError(f"{name}: expected an array of numbers ({error})") from error


def _logits(probabilities: Any, logits: Any) -> np.ndarray:
    if (probabilities is None) == (logits is None):
        raise PoolError("probabilities: expected either these or logits")
    name, given = ("logits", logits) if probabilities is None else ("probabilities", probabilities)
    members = _array(name, given, np.float32)
    members = members[None] if members.ndim == 2 else members
    if members.ndim != 3 or 0 in members.shape:
        raise PoolError(f"{name}: expected [E, N, K] or [N, K], found {np.shape(given)}")
    if name == "probabilities":
        try:
            check_probabilities(name, members)
        except ValueError as error:
            raise PoolError(str(error)) from error
        # Certain forecasts keep a finite logit: float32 cannot tell them from one that is not.
        members = logit(np.clip(members, _LEAST, 1 - _LEAST))
    elif not np.isfinite(members).all():
        raise PoolError("logits: expected finite numbers")
    return members


def _rows(name: str, given: Any, documents: int) -> np.ndarray:
    rows = _array(name, given)
    if rows.dtype == bool and rows.shape == (documents,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or not (np.issubdtype(rows.dtype, np.integer) or len(rows) == 0):
        raise PoolError(f"{name}: expected row numbers, found {rows.dtype} {rows.shape}")
    rows = rows.astype(np.int64)
    if len(rows) and not (rows.min() >= 0 and rows.max() < documents):
        found = f"{rows.min()} to {rows.max()}"
        raise PoolError(f"{name}: expected rows 0 to {documents - 1}, found {found}")
    if len(np.unique(rows)) < len(rows):
        raise PoolError(f"{name}: expected distinct rows, found one twice")
    return rows


def _labels(given: Any, labelled: np.ndarray, documents: int, classes: int) -> np.ndarray:
    labels = _array("labels", given.toarray() if hasattr(given, "toarray") else given)
    if labels.shape not in ((documents, classes), (len(labelled), classes)):
        expected = f"[{documents}, {classes}] or [{len(labelled)}, {classes}]"
        raise PoolError(f"labels: expected {expected}, found {labels.shape}")
    own = labels[labelled] if len(labels) == documents else labels
    try:
        check_labels("labels", own)
    except ValueError as error:
        raise PoolError(str(error)) from error
    known = np.zeros((documents, classes), bool)
    known[labelled] = own.astype(bool)
    return known
