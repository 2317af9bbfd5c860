"""The folder of a labelling project, in which nothing that a person said is ever lost.

``project.json``, ``config.yaml`` and ``texts.jsonl`` are written once. ``labels.jsonl`` only grows,
by whole batches: a new file with the batch at its end takes the old one's place, so a reader, or
a crash, sees all of a batch or none of it. ``model`` and ``estimate.json`` can be made again.
"""

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crabjax.answers import SKIPPED, LabelError, check_label_names, label_row
from crabjax.config import Config, load_config, to_yaml
from crabjax.data.corpus import Corpus, CsvFormat, read_corpus, write_corpus
from crabjax.data.files import write_text
from crabjax.labelling.exchange import (
    LABEL_SEPARATOR,
    NO_LABEL,
    Entry,
    labelling_interface,
    read_answers,
)
from crabjax.learner import Learner
from crabjax.saved_learner import SavedLearnerError

PROJECT, CONFIG, TEXTS, LABELS = "project.json", "config.yaml", "texts.jsonl", "labels.jsonl"
MODEL, INTERFACE = "model", "label_studio.xml"
_FORMAT = 1
_SHOWN = 10  # problems of a file that a message lists


class ProjectError(ValueError):
    """A project that cannot be opened, or a file that cannot be added; nothing was changed."""


class Added(NamedTuple):
    """What became of the rows of a file."""

    labelled: int
    skipped: int
    blank: int  # no answer yet
    known: int  # the same answer was there already
    replaced: int  # of labelled and skipped, those that had another answer before


@dataclass(frozen=True)
class Project:
    """An open project.

    Attributes:
      folder: where it lies.
      config: of the learner.
      label_names: the K labels.
      ids: of the documents, in the order of the file they came from.
      texts: the documents.
    """

    folder: Path
    config: Config
    label_names: tuple[str, ...]
    ids: list[str]
    texts: list[str]

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
          DataError: naming file and line, for documents that cannot be read.
        """
        names = _check_names(label_names)
        Learner(config, names)  # a config that cannot be used is an error now
        corpus = read_corpus(texts, csv_format=CsvFormat(text_column), labelled=False)
        ids = corpus.ids or [str(number) for number in range(1, len(corpus) + 1)]
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            if (folder / PROJECT).exists():
                raise ProjectError(f"{folder}: there is a project already; choose another folder")
            bare = Corpus(list(corpus.texts()), [()] * len(corpus), False, "texts", ids)
            write_corpus(bare, folder / TEXTS)
            write_text(folder / CONFIG, to_yaml(config))
            write_text(folder / INTERFACE, labelling_interface(names))
            if not (folder / LABELS).exists():
                write_text(folder / LABELS, "")
            # Written last: a folder without it is not a project, and can be begun again.
            write_text(folder / PROJECT, json.dumps({"format": _FORMAT, "labels": list(names)}))
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> "Project":
        """Reads a project.

        Raises:
          ProjectError: if there is none.
        """
        path = folder / PROJECT
        if not path.is_file():
            raise ProjectError(
                f"{folder}: no labelling project here; make one with `init`, or name its folder "
                "with --project"
            )
        about = json.loads(path.read_text(encoding="utf-8"))
        if about.get("format") != _FORMAT:
            raise ProjectError(f"{path}: expected format {_FORMAT}, found {about.get('format')}")
        corpus = read_corpus(folder / TEXTS)
        config = load_config(folder / CONFIG)
        return cls(folder, config, tuple(about["labels"]), corpus.ids or [], corpus.documents)

    def answers(self) -> dict[str, list[str] | str]:
        """The last answer for each document, by id: labels, or "skipped"; oldest first."""
        answers: dict[str, list[str] | str] = {}
        for record in self._records():
            answers.pop(record["id"], None)
            answers[record["id"]] = record["labels"]
        return answers

    def add(self, entries: Sequence[Entry], replace: bool = False) -> Added:
        """Keeps answers, all of them or, if anything is wrong with one, none.

        Args:
          entries: the rows of a file.
          replace: whether an answer may take the place of a different one given earlier.

        Raises:
          ProjectError: listing the rows with unknown ids or labels, repeated ids, and answers
            that contradict earlier ones.
        """
        with _lock(self.folder):
            before = self.answers()
            if problems := self._problems(entries, before, replace):
                shown = problems[:_SHOWN]
                more = len(problems) - len(shown)
                rest = [f"... and {more} more"] if more else []
                raise ProjectError("\n".join([*shown, *rest, "nothing was added"]))
            answered = [entry for entry in entries if entry.labels is not None]
            new = [entry for entry in answered if before.get(entry.id) != entry.labels]
            self._append(new)
        skipped = sum(entry.labels == SKIPPED for entry in new)
        return Added(
            labelled=len(new) - skipped,
            skipped=skipped,
            blank=len(entries) - len(answered),
            known=len(answered) - len(new),
            replaced=sum(entry.id in before for entry in new),
        )

    def check_outside(self, path: Path) -> None:
        """Raises ProjectError if a file to write is one of the project's own."""
        if path.resolve().is_relative_to(self.folder.resolve()):
            raise ProjectError(f"{path}: inside the project, whose files are its own")

    def check_added(self, path: Path) -> None:
        """Raises ProjectError if a file to write holds answers that were not added yet."""
        if not path.is_file():
            return
        known = self.answers()
        said = [entry for entry in read_answers(path) if entry.labels is not None]
        if any(known.get(entry.id) != entry.labels for entry in said):
            raise ProjectError(
                f"{path}: holds answers that were not added yet; add it, or choose another name"
            )

    def learner(self) -> Learner:
        """A learner with all answers so far; trained, if the kept one has the same answers."""
        learner = Learner(self.config, self.label_names)
        learner.tell(self.texts, [None] * len(self.texts))  # the order of texts stays the same
        text_of = dict(zip(self.ids, self.texts))
        answers = self.answers()
        learner.tell([text_of[one] for one in answers], list(answers.values()))
        try:
            kept = Learner.load(self.folder / MODEL)
        except SavedLearnerError:
            return learner
        return kept if kept.fingerprint() == learner.fingerprint() else learner

    def decide(self, probabilities: np.ndarray) -> tuple[list[list[str]], list[str]]:
        """Labels of every document, and by whom: "person" where one said, else "model".

        Args:
          probabilities: [N, K] of all documents.
        """
        names, answers = np.array(self.label_names), self.answers()
        labels, sources = [], []
        for one, row in zip(self.ids, probabilities):
            said = answers.get(one)
            by_person = isinstance(said, list)
            labels.append(said if by_person else names[row > 0.5].tolist())
            sources.append("person" if by_person else "model")
        return labels, sources

    def keep(self, learner: Learner) -> None:
        """Keeps a trained learner for the next command."""
        with _lock(self.folder):
            learner.save(self.folder / MODEL)

    def _problems(
        self, entries: Sequence[Entry], before: dict[str, Any], replace: bool
    ) -> list[str]:
        problems, first, known = [], {}, set(self.ids)
        for entry in entries:
            if entry.id not in known:
                problems.append(f'{entry.where}: unknown id "{entry.id}"')
            elif entry.id in first:
                other = first[entry.id]
                kind = "twice" if other.labels == entry.labels else "twice, with other labels"
                problems.append(f'{entry.where}: id "{entry.id}" {kind}, first at {other.where}')
            elif (
                not replace
                and entry.labels is not None
                and before.get(entry.id, entry.labels) != entry.labels
            ):
                problems.append(
                    f'{entry.where}: id "{entry.id}" was answered {_shown(before[entry.id])} '
                    f"before, now {_shown(entry.labels)}; --replace takes the new answer"
                )
            first.setdefault(entry.id, entry)
            if isinstance(entry.labels, list):
                try:
                    label_row(entry.where, entry.labels, self.label_names)
                except LabelError as error:
                    problems.append(str(error))
        return problems

    def _append(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        records = [{"id": e.id, "labels": e.labels, "time": now} for e in entries]
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        path = self.folder / LABELS
        before = path.read_text(encoding="utf-8")
        if before and not before.endswith("\n"):  # as some editors leave it
            before += "\n"
        write_text(path, before + "".join(lines))

    def _records(self) -> Iterator[dict[str, Any]]:
        path = self.folder / LABELS
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if not line:
                continue
            try:
                record = json.loads(line)
                yield {"id": record["id"], "labels": record["labels"]}
            except (ValueError, TypeError, KeyError) as error:
                raise ProjectError(f"{path}:{number}: not an answer: {line[:60]!r}") from error


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One writer at a time; others wait, since no writer takes long."""
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_names(names: Sequence[str]) -> tuple[str, ...]:
    for name in check_label_names(names):
        if name == NO_LABEL or LABEL_SEPARATOR in name or name != name.strip():
            raise ProjectError(
                f'label {name!r}: expected a name without "{LABEL_SEPARATOR}", other than '
                f'"{NO_LABEL}", and without spaces at its ends'
            )
    return tuple(names)


def _shown(labels: list[str] | str | None) -> str:
    if isinstance(labels, list):
        return f'"{LABEL_SEPARATOR.join(labels) or NO_LABEL}"'
    return f'"{labels}"'
