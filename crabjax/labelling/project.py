"""The folder of a labelling project, in which nothing that a person said is ever lost.

``project.json``, ``config.yaml`` and ``texts.jsonl`` are written once, ``labels.jsonl`` only grows
(:mod:`crabjax.labelling.answer_log`); all else can be made again. Own vectors stay where they are.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from crabjax.config import Config, load_stored, to_yaml
from crabjax.data.corpus import json_line, read_corpus
from crabjax.data.csv_rows import CsvStyle
from crabjax.data.documents import Documents, Ids, count_distinct
from crabjax.data.records import CsvFormat
from crabjax.data.vectors import open_vectors
from crabjax.files import PRIVATE, DataError, atomic_write, check_writable, lock, write_text
from crabjax.inputs import check_encoder
from crabjax.labelling.about import (
    INTERFACE,
    PROJECT,
    TEXTS,
    About,
    ProjectWarning,
    check_hashes,
    check_names,
    check_texts,
    hash_files,
    read_about,
    style_of,
    write_about,
)
from crabjax.labelling.answer_log import (
    ProjectError,
    answered_cold,
    append_to_log,
    last_answers,
    read_log,
)
from crabjax.labelling.answers import SKIPPED, WITHDRAWN, Answer, Said
from crabjax.labelling.exchange import PLAIN, PredictionsError, labelling_interface, read_answers
from crabjax.labelling.index import of_learner, own_vectors, read_texts, texts_of
from crabjax.labelling.learner import Learner
from crabjax.labelling.review import Known, find_problems, same_text, with_zeros
from crabjax.labelling.saved_learner import SavedLearnerError
from crabjax.strategies import get_strategy

CONFIG, LABELS, KEPT = "config.yaml", "labels.jsonl", "model"


class Added(NamedTuple):
    """What became of the rows of a file."""

    labelled: int
    skipped: int
    withdrawn: int
    blank: int  # no answer in the file
    kept: int  # of blank, those with an earlier answer, which holds
    known: int  # the same answer was there already
    replaced: int  # of labelled and skipped, those that had another answer before


@dataclass(frozen=True)
class Project:
    """An open project.

    A text is a document: documents with equal texts share their answers, whichever id they were
    given for.

    Attributes:
      folder: where it lies.
      config: of the learner.
      label_names: the K labels.
      ids: of the documents, in the order of the file they came from.
      texts: the documents, with vectors where the config names a file of them.
      style: of the CSV file they came from, and of those for people.
    """

    folder: Path
    config: Config
    label_names: tuple[str, ...]
    ids: Ids
    texts: Documents
    style: CsvStyle = PLAIN

    @classmethod
    def create(
        cls,
        folder: Path,
        texts: Path,
        label_names: Sequence[str],
        config: Config,
        text_column: str = "text",
    ) -> "Project":
        """Makes a project from a file of documents; those without ids are numbered from 1.

        Raises:
          ProjectError: if there is a project in the folder, or a label has a name that files
            could not carry.
          DataError: naming file and line, or row, of documents or vectors that cannot be used.
          PretrainedNotFoundError: if the encoder is neither on this machine nor on the hub.
        """
        names = check_names(label_names)
        vectors, config = own_vectors(config)
        Learner(of_learner(config), names)  # a config that cannot be used is an error now
        get_strategy(config.strategy.name).check_members(config.ensemble.members)
        if vectors is None:
            check_encoder(config)
        _check_new(folder)
        style = style_of(texts, text_column)
        csv_format = CsvFormat(text_column, csv_delimiter=style.delimiter)
        corpus = read_corpus(texts, csv_format=csv_format, labelled=False)
        check_texts(texts, corpus.documents)
        if vectors is not None:
            open_vectors(vectors, len(corpus), str(texts))
        ids = corpus.ids or (str(number) for number in range(1, len(corpus) + 1))
        folder.mkdir(PRIVATE, parents=True, exist_ok=True)
        with lock(folder):
            _check_new(folder)
            with atomic_write(folder / TEXTS) as file:
                for identity, text in zip(ids, corpus.texts()):
                    file.write(json_line(text, (), False, identity))
            write_text(folder / CONFIG, to_yaml(config))
            write_text(folder / INTERFACE, labelling_interface(names))
            write_text(folder / LABELS, "")
            # Written last: a folder without it is not a project, and can be begun again.
            unchanging = [TEXTS, CONFIG] + ([] if vectors is None else [str(vectors)])
            hashes = hash_files(folder, unchanging)
            write_about(folder / PROJECT, About(names, style, hashes, len(corpus)))
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> "Project":
        """Reads a project.

        Raises:
          ProjectError: if there is none, or it is damaged.
        """
        path = folder / PROJECT
        if not path.is_file():
            raise ProjectError(
                f"{folder}: no labelling project here; make one with `init`, or name its folder "
                "with --project"
            )
        about = read_about(path)
        check_hashes(folder, about)
        config = load_stored(folder / CONFIG)
        ids, texts = read_texts(folder, about, config)
        return cls(folder, config, about.label_names, ids, texts, about.style)

    def texts_of(self, ids: Iterable[str]) -> dict[str, str]:
        """The texts of some documents by their ids, as far as these are known."""
        return texts_of(self.ids, self.texts, set(ids))

    def distinct(self) -> int:
        """How many different texts there are."""
        return count_distinct(self.texts)

    def answers(self) -> dict[str, Answer]:
        """The last answer for each text, oldest first.

        Raises:
          ProjectError: naming the line of an answer that cannot be read.
        """
        return last_answers(read_log(self.folder / LABELS, self.texts_of, self.label_names))

    def add(
        self, answers: Sequence[Answer], replace: bool = False, ignore_texts: bool = False
    ) -> Added:
        """Keeps answers, all of them or, if anything is wrong with one, none.

        Args:
          answers: of a file.
          replace: whether an answer may take the place of a different one given earlier.
          ignore_texts: whether to go by id alone where a file shows another text.

        Raises:
          ProjectError: listing the rows with unknown ids or labels, other texts, repeated ids,
            and answers that contradict earlier ones.
        """
        text_of = self.texts_of(one for answer in answers for one in with_zeros(answer.id))
        with lock(self.folder):
            before = self.answers()
            known = Known(text_of, before, self.label_names)
            if problems := find_problems(answers, known, replace, ignore_texts):
                raise ProjectError("\n".join([*problems, "nothing was added"]))
            answered = [answer for answer in answers if answer.labels is not None]
            by_text = {text_of[answer.id]: answer for answer in answered}
            new = [one for text, one in by_text.items() if _labels(before.get(text)) != one.labels]
            append_to_log(self.folder / LABELS, new)
        blank = [answer for answer in answers if answer.labels is None]
        skipped = sum(answer.labels == SKIPPED for answer in new)
        withdrawn = sum(answer.labels == WITHDRAWN for answer in new)
        return Added(
            labelled=len(new) - skipped - withdrawn,
            skipped=skipped,
            withdrawn=withdrawn,
            blank=len(blank),
            kept=sum(text_of[answer.id] in before for answer in blank),
            known=len(answered) - len(new),
            replaced=sum(text_of[answer.id] in before for answer in new) - withdrawn,
        )

    def check_output(self, path: Path) -> None:
        """Looks at a file to be written, before the work.

        Raises:
          ProjectError: if it is one of the project's own, or holds answers not added yet.
          OSError: if it could not be written.
        """
        if path.resolve().is_relative_to(self.folder.resolve()):
            raise ProjectError(f"{path}: inside the project, whose files are its own")
        check_writable(path)
        if not path.is_file() or path.stat().st_size == 0:
            return
        try:
            answers = read_answers(path)
        except PredictionsError:
            return  # they can be made again
        except DataError as error:
            raise ProjectError(
                f"{path}: there is a file of another kind ({error}); choose another name"
            ) from error
        before, given = self.answers(), [one for one in answers if one.labels is not None]
        text_of = self.texts_of(one.id for one in given)
        if any(_is_new(one, text_of.get(one.id), before) for one in given):
            raise ProjectError(
                f"{path}: holds answers that were not added yet; add it, or choose another name"
            )

    def learner(self) -> Learner:
        """A learner with all texts and answers so far, not trained yet; see :meth:`restore`."""
        learner = Learner(of_learner(self.config), self.label_names)
        learner.see(self.texts)  # first: the order of texts stays the same
        log = read_log(self.folder / LABELS, self.texts_of, self.label_names)
        answers = last_answers(log)
        learner.tell(list(answers), [answer.labels for answer in answers.values()])
        return learner.only_unchosen(answered_cold(log))

    def restore(self, learner: Learner) -> None:
        """Gives a learner the parameters that were kept, if they come from the same answers.

        Warns:
          ProjectWarning: if what was kept cannot be used; training makes it again.
        """
        folder = self.folder / KEPT
        if not folder.exists():
            return
        try:
            with lock(self.folder):
                learner.restore(folder)
        except (SavedLearnerError, OSError) as error:
            warnings.warn(f"{error}; the model is trained again", ProjectWarning, stacklevel=2)

    def keep(self, learner: Learner) -> None:
        """Keeps a trained learner for the next command.

        Warns:
          ProjectWarning: if it could not be written; the next command trains again.
        """
        try:
            with lock(self.folder):
                learner.save(self.folder / KEPT, documents=False)
        except OSError as error:
            warnings.warn(f"the model could not be kept: {error}", ProjectWarning, stacklevel=2)


def _labels(answer: Answer | None) -> Said:
    """What holds of a document: no answer, and one that was withdrawn, are the same."""
    return WITHDRAWN if answer is None else answer.labels


def _is_new(answer: Answer, text: str | None, before: Mapping[str, Answer]) -> bool:
    if text is None or not same_text(text if answer.text is None else answer.text, text):
        return True
    return _labels(before.get(text)) != answer.labels


def _check_new(folder: Path) -> None:
    if (folder / PROJECT).exists():
        raise ProjectError(f"{folder}: there is a project already; choose another folder")
    labels = folder / LABELS
    if labels.exists() and labels.stat().st_size > 0:
        raise ProjectError(
            f"{labels}: holds answers of a project whose {PROJECT} is gone; put that back, or "
            "choose another folder"
        )
