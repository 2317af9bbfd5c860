"""``labels.jsonl``: what people said about documents, in the order they said it.

The file only grows, by whole batches: a new file with the batch at its end takes the old one's
place, so a reader, or a crash, sees all of a batch or none of it.
"""

import json
from collections.abc import Iterator, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path

from crabjax.files import write_text
from crabjax.labelling.answers import RESERVED, SKIPPED, Answer, composed, unknown_label
from crabjax.seals import open_sealed, seal


class ProjectError(ValueError):
    """A project that cannot be opened, or a file that cannot be added; nothing was changed."""


def read_log(path: Path, ids: Set[str], label_names: Sequence[str]) -> Iterator[Answer]:
    """Yields the answers, oldest first.

    Args:
      path: the file.
      ids: of the project's documents.
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
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield _parse(f"{path}:{number}", line, ids, label_names)
        except ValueError as error:
            raise ProjectError(
                f"{path}:{number}: not an answer: {error}, in {line[:60]!r}; mend this line, or "
                "put a copy of the file back"
            ) from error


def append_to_log(path: Path, answers: Sequence[Answer]) -> None:
    """Adds answers as one batch."""
    if not answers:
        return
    now = datetime.now(UTC).isoformat(timespec="seconds")
    records = [{"id": one.id, "labels": one.labels, "time": now} for one in answers]
    before = path.read_text(encoding="utf-8")
    if before and not before.endswith("\n"):  # as some editors leave it
        before += "\n"
    lines = [json.dumps(seal(record), ensure_ascii=False) + "\n" for record in records]
    write_text(path, before + "".join(lines))


def _parse(where: str, line: str, ids: Set[str], label_names: Sequence[str]) -> Answer:
    record = open_sealed(json.loads(line))
    if not isinstance(record, dict) or not {"id", "labels"} <= record.keys():
        raise ValueError('expected an object with "id" and "labels"')
    identity, labels = record["id"], record["labels"]
    if not isinstance(identity, str) or identity not in ids:
        raise ValueError(f"unknown id {identity!r}")
    if isinstance(labels, str) and labels in RESERVED:
        return Answer(where, identity, labels)
    if not isinstance(labels, list):
        raise ValueError(f'expected "labels" to be a list or "{SKIPPED}", found {labels!r}')
    names = [composed(label) if isinstance(label, str) else label for label in labels]
    for label in names:
        if problem := unknown_label(label, label_names):
            raise ValueError(problem)
    return Answer(where, identity, sorted(set(names)))
