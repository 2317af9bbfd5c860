"""``labels.jsonl``: what people said about documents, in the order they said it.

The file only grows, by whole batches: a new file with the batch at its end takes the old one's
place, so a reader, or a crash, sees all of a batch or none of it.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from crabjax.files import write_text
from crabjax.files.seals import open_sealed, seal
from crabjax.labelling.answers import (
    RESERVED,
    SKIPPED,
    WITHDRAWN,
    Answer,
    composed,
    is_cold,
    unknown_label,
)


class ProjectError(ValueError):
    """A project that cannot be opened, or a file that cannot be added; nothing was changed."""


def read_log(
    path: Path, texts_of: Callable[[list[str]], Mapping[str, str]], label_names: Sequence[str]
) -> list[tuple[str, Answer]]:
    """The answers, oldest first, each with the text it is about.

    Args:
      path: the file.
      texts_of: gives the texts of documents of the project by their ids.
      label_names: the K labels.

    Raises:
      ProjectError: naming file and line of what is not an answer about one of the documents.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(
            f"{path}: the file of all answers cannot be read ({error}); put a copy of it back"
        ) from error
    answers, lines = [], text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            answers.append((number, _parse(f"{path}:{number}", line, label_names)))
        except ValueError as error:
            raise _no_answer(path, number, line, error) from error
    known = texts_of([answer.id for _, answer in answers])
    for number, answer in answers:
        if answer.id not in known:
            raise _no_answer(path, number, lines[number - 1], f"unknown id {answer.id!r}")
    return [(known[answer.id], answer) for _, answer in answers]


def last_answers(log: Iterable[tuple[str, Answer]]) -> dict[str, Answer]:
    """The last answer for each text, oldest first, of a log that has all."""
    answers: dict[str, Answer] = {}
    for text, answer in log:
        answers.pop(text, None)
        if answer.labels != WITHDRAWN:
            answers[text] = answer
    return answers


def answered_cold(log: Sequence[tuple[str, Answer]]) -> list[str]:
    """The texts of a log that were answered in a cold start, by what was added together."""
    seen: list[tuple[str, Answer]] = []
    for _, together in itertools.groupby(log, lambda one: one[1].time):
        if not is_cold(answer.labels for answer in last_answers(seen).values()):
            break
        seen.extend(together)
    return [text for text, _ in seen]


def _no_answer(path: Path, number: int, line: str, reason: object) -> ProjectError:
    return ProjectError(
        f"{path}:{number}: not an answer: {reason}, in {line[:60]!r}; mend this line, or "
        "put a copy of the file back"
    )


def append_to_log(path: Path, answers: Sequence[Answer]) -> None:
    """Adds answers as one batch."""
    if not answers:
        return
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    records = [{"id": one.id, "labels": one.labels, "time": now} for one in answers]
    before = path.read_text(encoding="utf-8")
    if before and not before.endswith("\n"):  # as some editors leave it
        before += "\n"
    lines = [json.dumps(seal(record), ensure_ascii=False) + "\n" for record in records]
    write_text(path, before + "".join(lines))


def _parse(where: str, line: str, label_names: Sequence[str]) -> Answer:
    record = open_sealed(json.loads(line))
    if not isinstance(record, dict) or not {"id", "labels"} <= record.keys():
        raise ValueError('expected an object with "id" and "labels"')
    identity, labels, time = record["id"], record["labels"], str(record.get("time", ""))
    if not isinstance(identity, str):
        raise ValueError(f"unknown id {identity!r}")
    if isinstance(labels, str) and labels in RESERVED:
        return Answer(where, identity, labels, time=time)
    if not isinstance(labels, list):
        raise ValueError(f'expected "labels" to be a list or "{SKIPPED}", found {labels!r}')
    names = [composed(label) if isinstance(label, str) else label for label in labels]
    for label in names:
        if problem := unknown_label(label, label_names):
            raise ValueError(problem)
    return Answer(where, identity, sorted(set(names)), time=time)
