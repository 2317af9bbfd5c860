"""What is wrong with a file of answers, before any of them is kept."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from crabjax.labelling.answer_log import Said
from crabjax.labelling.answers import LabelError, label_row
from crabjax.labelling.exchange import LABEL_SEPARATOR, NO_LABEL, Entry

_SHOWN = 10  # problems that a message lists


class Known(NamedTuple):
    """What a project knows when answers come in.

    Attributes:
      text_of: the text of each document, by id.
      answers: the last answer for each text.
      label_names: the K labels.
    """

    text_of: Mapping[str, str]
    answers: Mapping[str, Said]
    label_names: Sequence[str]


def find_problems(entries: Sequence[Entry], known: Known, replace: bool) -> list[str]:
    """One line a problem, the first ten: unknown ids and labels, repeated ids, contradictions.

    Args:
      entries: the rows of a file.
      known: what they must agree with.
      replace: whether an answer may take the place of a different one given earlier.
    """
    problems: list[str] = []
    by_id: dict[str, Entry] = {}
    by_text: dict[str, Entry] = {}  # of those with an answer
    for entry in entries:
        if entry.id not in known.text_of:
            problems.append(f'{entry.where}: unknown id "{entry.id}"')
        elif (first := by_id.setdefault(entry.id, entry)) is not entry:
            kind = "twice" if first.labels == entry.labels else "twice, with other labels"
            problems.append(f'{entry.where}: id "{entry.id}" {kind}, first at {first.where}')
        elif entry.labels is not None:
            first = by_text.setdefault(known.text_of[entry.id], entry)
            problems += _contradictions(entry, first, known, replace)
        problems += _unknown_labels(entry, known.label_names)
    more = len(problems) - _SHOWN
    return [*problems[:_SHOWN], *([f"... and {more} more"] if more > 0 else [])]


def _contradictions(entry: Entry, first: Entry, known: Known, replace: bool) -> Iterator[str]:
    """Disagreement with the first answer for this text in the file, or with an earlier one."""
    before = known.answers.get(known.text_of[entry.id])
    if first.labels != entry.labels:
        yield (
            f'{entry.where}: id "{entry.id}" has the same text as "{first.id}" at {first.where}, '
            f"but is answered {_shown(entry.labels)}, not {_shown(first.labels)}"
        )
    elif not replace and before not in (None, entry.labels):
        yield (
            f'{entry.where}: id "{entry.id}" was answered {_shown(before)} before, now '
            f"{_shown(entry.labels)}; --replace takes the new answer"
        )


def _unknown_labels(entry: Entry, names: Sequence[str]) -> Iterator[str]:
    for label in entry.labels if isinstance(entry.labels, list) else []:
        try:
            label_row(entry.where, [label], names)
        except LabelError as error:
            yield f"{error} ({entry.advice})" if entry.advice else str(error)


def _shown(labels: Said | None) -> str:
    if isinstance(labels, list):
        return f'"{LABEL_SEPARATOR.join(labels) or NO_LABEL}"'
    return f'"{labels}"'
