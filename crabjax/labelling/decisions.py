"""Labels of every document of a project: what a person said, else what the learner predicts."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from crabjax.data.documents import hashes_of
from crabjax.files import DataWarning, lock
from crabjax.labelling.exchange import MODEL, PERSON, write_predictions
from crabjax.labelling.learner import Learner
from crabjax.labelling.project import Project
from crabjax.progress import doing

PROBABILITIES = "probabilities"  # the project's file while they are made
LOCK = ".predict.lock"
_AT_ONCE = 4096  # documents whose predictions are written together


def decide(project: Project, predicted: Iterable[np.ndarray]) -> Iterator[tuple[list[str], str]]:
    """Labels of every document, and by whom: "person" where one said, else "model".

    Args:
      project: the documents and answers.
      predicted: bool [K] of each document, in their order.
    """
    names = np.array(project.label_names)
    answers = project.answers()
    given = (answer.labels for answer in answers.values())
    said = dict(zip(hashes_of(list(answers)).tolist(), given))
    for text, row in zip(hashes_of(project.texts).tolist(), predicted):
        if isinstance(own := said.get(text), list):
            yield [name for name in project.label_names if name in own], PERSON
        else:
            yield names[row].tolist(), MODEL


def write_decisions(project: Project, learner: Learner, path: Path) -> int:
    """Writes labels and probabilities of every document; returns how many a person labelled.

    Probabilities are kept in the project while they are made: stopped, it goes on there. A second
    call of the same time waits.

    Warns:
      DataWarning: if they cannot be kept; then they are in memory.
    """
    project.keep(learner.train())  # first: whoever goes on later needs the same parameters
    with _part_of(project.folder) as part:
        known = learner.knows_threshold
        by_person = _write(project, learner, path, part)
        if not known:
            project.keep(learner)  # with the threshold, for the next time
        if part is not None:
            part.unlink(missing_ok=True)
    return by_person


@contextmanager
def _part_of(folder: Path) -> Iterator[Path | None]:
    """The file of the probabilities, for one process at a time; None where that is refused."""
    with ExitStack() as held:
        part = folder / PROBABILITIES
        try:
            held.enter_context(lock(folder, name=LOCK))
        except OSError as error:
            reason = f"probabilities cannot be kept ({error})"
            warnings.warn(f"{folder}: {reason}", DataWarning, stacklevel=4)
            part = None
        yield part


def _write(project: Project, learner: Learner, path: Path, part: Path | None) -> int:
    rows, probabilities = learner.rows(project.texts), learner.predict_all(part)
    assert rows is not None
    limit = learner.threshold(probabilities)
    blocks = lambda: (
        probabilities[rows[start : start + _AT_ONCE]] for start in range(0, len(rows), _AT_ONCE)
    )
    by_person = 0

    def decided() -> Iterator[tuple[list[str], str]]:
        nonlocal by_person
        for labels, source in decide(project, (row for block in blocks() for row in block > limit)):
            by_person += source == PERSON
            yield labels, source

    with doing("writing predictions"):
        write_predictions(
            path, project.ids, decided(), blocks(), project.label_names, project.style
        )
    return by_person
