"""Files that go to people who label, and come back from them.

The name's ending says which kind: ``.csv``, ``.jsonl``, or ``.json`` for Label Studio.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO
from xml.sax.saxutils import quoteattr

import numpy as np

from crabjax.data.csv_rows import CsvStyle, csv_style, read_csv_rows
from crabjax.files import DataError, atomic_write, read_json_lines, read_lines, write_text
from crabjax.labelling.answers import RESERVED, SKIPPED, WITHDRAWN, Answer, Said, composed
from crabjax.labelling.suggestion import Suggestion

LABEL_SEPARATOR = ";"
PLAIN = CsvStyle()
NO_LABEL = "-"  # in a CSV cell: no label applies; an empty cell is no answer
SUFFIXES = (".csv", ".jsonl", ".json")
_CONTROL, _OBJECT = "labels", "text"  # names in Label Studio's interface
_CHOICES_ADVICE = "Label Studio must offer the project's labels: its interface is label_studio.xml"
_BY, PERSON, MODEL = "by", "person", "model"  # who gave the labels that ``predict`` writes


class PredictionsError(DataError):
    """A file that ``predict`` wrote, where answers of a person were expected."""


def check_name(path: Path, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Raises unless the ending of a file name says what kind it is."""
    if path.suffix not in suffixes:
        endings = ", ".join(suffixes)
        raise DataError(f"{path}: expected a name ending in {endings}, found {path.suffix!r}")


def write_suggestion(
    path: Path,
    suggestion: Suggestion,
    ids: Sequence[str],
    texts: Sequence[str],
    names: Sequence[str],
    style: CsvStyle = PLAIN,
) -> None:
    """Writes the documents to label.

    Args:
      path: its ending says the kind.
      suggestion: from ``Learner.ask(texts, n)``.
      ids: of the pool.
      texts: the pool.
      names: the K labels.
      style: of a CSV file.
    """
    rows = [
        _suggested(ids[int(index)], texts[int(index)], score, chances, predicted, source, names)
        for index, score, chances, predicted, source in zip(*suggestion)
    ]
    if path.suffix == ".csv":
        for row in rows:
            row |= {"labels": "", "predicted": LABEL_SEPARATOR.join(row["predicted"] or [])}
            row.pop("probabilities", None)
        write_text(path, _csv_text(rows, style))
    elif path.suffix == ".jsonl":
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    else:
        tasks = [_task(row) for row in rows]
        write_text(path, json.dumps(tasks, ensure_ascii=False, indent=1))


def write_predictions(
    path: Path,
    ids: Iterable[str],
    decisions: Iterable[tuple[Sequence[str], str]],
    probabilities: Iterable[np.ndarray],
    names: Sequence[str],
    style: CsvStyle = PLAIN,
) -> None:
    """Writes a line a document, one by one, ``.csv`` or ``.jsonl``.

    Args:
      path: its ending says the kind.
      ids: of the documents.
      decisions: their labels, and who gave them.
      probabilities: a few documents at a time, [b, K].
      names: the K labels.
      style: of a CSV file.
    """
    values = (row for block in probabilities for row in np.round(block.astype(float), 4).tolist())
    rows = zip(ids, decisions, values)
    with atomic_write(path) as raw:
        file = io.TextIOWrapper(raw, "utf-8", newline="")
        if path.suffix == ".csv":
            writer = _csv_writer(file, style)
            writer.writerow(["id", "labels", _BY, *(f"p({name})" for name in names)])
            for identity, (labels, source), own in rows:
                writer.writerow([identity, LABEL_SEPARATOR.join(labels), source, *own])
        else:
            for identity, (labels, source), own in rows:
                row = {"id": identity, "labels": list(labels), _BY: source}
                row |= {"probabilities": dict(zip(names, own))}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.detach()  # writes what is left, and leaves closing to the block


def read_answers(path: Path) -> list[Answer]:
    """Reads a file that came back: CSV, JSON lines, or a Label Studio export (JSON).

    CSV: columns ``id`` and ``labels``, labels separated by ";". An empty cell is no answer, "-"
    means that no label applies, "skipped" that the document is not to be asked again, "withdrawn"
    that an earlier answer no longer holds. JSON lines: ``{"id": ..., "labels": [...]}``, where
    null is no answer. A field or column ``text`` is kept, to be compared with the document.

    Raises:
      DataError: naming file and line.
      PredictionsError: for labels that are not a person's.
    """
    check_name(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.suffix == ".json":
        return list(_from_label_studio(path))
    if path.suffix == ".csv":
        rows, read = read_csv_rows(path, csv_style(path, ["id", "labels"]).delimiter), _from_csv
    else:
        rows, read = read_json_lines(path), _from_json
    answers = []
    for line, row in rows:
        if row.get(_BY) == MODEL:
            raise PredictionsError(
                f'{path}:{line}: `predict` wrote these labels, as "{_BY}" says; where a person has '
                f'checked them, keep only those rows, and no "{_BY}"'
            )
        answers.append(read(f"{path}:{line}", row))
    if not answers and path.suffix == ".jsonl":
        raise DataError(f"{path}: no lines in this file")
    return answers


def labelling_interface(names: Sequence[str]) -> str:
    """The interface to paste into Label Studio's settings."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in names)
    return (
        f'<View>\n  <Text name="{_OBJECT}" value="$text"/>\n'
        f'  <Choices name="{_CONTROL}" toName="{_OBJECT}" choice="multiple">\n'
        f"{choices}\n  </Choices>\n</View>\n"
    )


def _suggested(
    identity: str,
    text: str,
    score: float,
    probabilities: np.ndarray,
    predicted: np.ndarray,
    source: str,
    names: Sequence[str],
) -> dict[str, Any]:
    """A document to label; ``labels`` is for the person to fill in."""
    row: dict[str, Any] = {"id": identity, "text": text, "labels": None, "predicted": None}
    known = not np.isnan(probabilities).any()
    if known:
        row["predicted"] = [name for name, own in zip(names, predicted) if own]
    row |= {"score": None if np.isnan(score) else float(f"{score:.4g}"), "source": source}
    if known:
        row["probabilities"] = {n: round(float(p), 4) for n, p in zip(names, probabilities)}
    return row


def _task(row: dict[str, Any]) -> dict[str, Any]:
    # Label Studio numbers tasks itself, so the document's id travels inside the data.
    task: dict[str, Any] = {
        "data": {"text": row["text"], "document_id": row["id"], "source": row["source"]}
    }
    if row["predicted"] is not None:
        result = {"from_name": _CONTROL, "to_name": _OBJECT, "type": "choices"}
        result |= {"value": {"choices": row["predicted"]}}
        sure = [max(p, 1 - p) for p in row["probabilities"].values()]
        prediction = {"model_version": "crabjax", "score": min(sure), "result": [result]}
        task["predictions"] = [prediction]
    return task


def _from_csv(where: str, row: dict[str, str]) -> Answer:
    cell, text = row["labels"].strip(), row.get("text")
    if not cell or cell in RESERVED:
        return Answer(where, row["id"], cell or None, text=text)
    if cell == NO_LABEL:
        return Answer(where, row["id"], [], text=text)
    labels = [composed(part.strip()) for part in cell.split(LABEL_SEPARATOR) if part.strip()]
    if not labels:
        raise DataError(
            f'{where}: expected labels, "{NO_LABEL}" for none or an empty cell, found {cell!r}'
        )
    several = any("," in label for label in labels)
    advice = f'labels are separated by "{LABEL_SEPARATOR}"' if several else ""
    return Answer(where, row["id"], sorted(set(labels)), advice, text)


def _from_json(where: str, row: dict[str, Any]) -> Answer:
    identity, labels = row.get("id"), row.get("labels")
    if not isinstance(identity, str | int):
        raise DataError(f'{where}: expected the field "id", a string, found {identity!r}')
    if "labels" not in row:
        raise DataError(f'{where}: expected the field "labels", found {", ".join(row)}')
    text = row["text"] if isinstance(row.get("text"), str) else None
    if labels is None or (isinstance(labels, str) and labels in RESERVED):
        return Answer(where, str(identity), labels, text=text)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise DataError(
            f'{where}: expected "labels" to be a list of strings, "{SKIPPED}", "{WITHDRAWN}" '
            f"or null, found {labels!r}"
        )
    return Answer(where, str(identity), sorted({*map(composed, labels)}), text=text)


def _from_label_studio(path: Path) -> Iterator[Answer]:
    try:
        tasks = json.loads("".join(read_lines(path)))
    except ValueError as error:
        raise DataError(f"{path}: malformed JSON: {error}") from error
    if not isinstance(tasks, list):
        raise DataError(f"{path}: expected a Label Studio export, a list of tasks")
    for number, task in enumerate(tasks, start=1):
        where = f"{path}: task {number}"
        try:
            identity = task["data"]["document_id"]
            text = task["data"].get("text")
            said = [_annotation(annotation) for annotation in task.get("annotations", [])]
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f'{where}: expected "data" with "document_id" and a list "annotations" of '
                f"choices, as in Label Studio's JSON export (not JSON-MIN); {error!r}"
            ) from error
        shown = text if isinstance(text, str) else None
        yield Answer(where, str(identity), _agreed(where, said), _CHOICES_ADVICE, shown)


def _annotation(annotation: dict[str, Any]) -> Said:
    if annotation.get("was_cancelled"):
        return SKIPPED
    chosen = [r["value"]["choices"] for r in annotation["result"] if r["type"] == "choices"]
    return sorted({composed(str(label)) for choices in chosen for label in choices})


def _agreed(where: str, said: Sequence[Said]) -> Said:
    """What the annotators of a task say together; who skipped it leaves it to the others."""
    answers = [labels for labels in said if labels != SKIPPED] or list(said)
    for other in answers[1:]:
        if other != answers[0]:
            raise DataError(f"{where}: annotations disagree: {answers[0]} and {other}")
    return answers[0] if answers else None


def _csv_text(rows: list[dict[str, Any]], style: CsvStyle) -> str:
    text = io.StringIO()
    writer = _csv_writer(text, style)
    writer.writerow(list(rows[0]))
    writer.writerows(list(row.values()) for row in rows)
    return text.getvalue()


def _csv_writer(file: TextIO, style: CsvStyle) -> Any:
    file.write("\ufeff" * style.mark)
    # This line end makes the writer quote texts that hold either of its characters.
    return csv.writer(file, delimiter=style.delimiter, lineterminator="\r\n")
