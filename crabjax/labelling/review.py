"""What is wrong with a file of answers, before any of them is kept."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from crabjax.labelling.answers import Answer, Said, composed, unknown_label
from crabjax.labelling.exchange import LABEL_SEPARATOR, NO_LABEL

_SHOWN = 10  # problems that a message lists
_LONGEST_ID = 32  # characters of an id that zeros are sought for
_LONGEST_CELL = 32_000  # spreadsheets cut a cell a little above this many characters


class Known(NamedTuple):
    """What a project knows when answers come in.

    Attributes:
      text_of: the texts of the documents in question, and of those they may be mixed up with.
      answers: the last answer for each text.
      label_names: the K labels.
    """

    text_of: Mapping[str, str]
    answers: Mapping[str, Answer]
    label_names: Sequence[str]


def find_problems(
    answers: Sequence[Answer], known: Known, replace: bool, ignore_texts: bool = False
) -> list[str]:
    """One line a problem, the first ten: other texts, unknown ids and labels, contradictions.

    Args:
      answers: the rows of a file.
      known: what they must agree with.
      replace: whether an answer may take the place of a different one given earlier.
      ignore_texts: whether a row counts whose text is not that of the document with its id.
    """
    problems = [] if ignore_texts else _other_texts(answers, known)
    by_id: dict[str, Answer] = {}
    by_text: dict[str, Answer] = {}  # of those with an answer
    for answer in answers:
        if answer.id not in known.text_of:
            hint = _zeros(answer, known) if len(problems) < _SHOWN else ""
            problems.append(f'{answer.where}: unknown id "{answer.id}"{hint}')
        elif (first := by_id.setdefault(answer.id, answer)) is not answer:
            kind = "twice" if first.labels == answer.labels else "twice, with other labels"
            problems.append(f'{answer.where}: id "{answer.id}" {kind}, first at {first.where}')
        elif answer.labels is not None:
            first = by_text.setdefault(known.text_of[answer.id], answer)
            problems += _contradictions(answer, first, known, replace)
        problems += _unknown_labels(answer, known.label_names)
    more = len(problems) - _SHOWN
    return [*problems[:_SHOWN], *([f"... and {more} more"] if more > 0 else [])]


def with_zeros(identity: str) -> list[str]:
    """An id, and what it may have been before a spreadsheet took zeros from its front."""
    bare = identity.lstrip("0")
    return [identity, *(bare.rjust(width, "0") for width in range(len(bare), _LONGEST_ID) if bare)]


def _zeros(answer: Answer, known: Known) -> str:
    """What a spreadsheet may have done to an id."""
    bare = answer.id.lstrip("0")
    lost = next((one for one in known.text_of if bare and one.lstrip("0") == bare), None)
    if lost is None:
        return ""
    return f'; "{lost}" is known: spreadsheets drop zeros, unless the column is imported as text'


def same_text(shown: str, text: str) -> bool:
    """Whether a file shows this text, as far as spreadsheets leave a text alone."""
    shown, text = (" ".join(composed(one).split()) for one in (shown, text))
    return shown == text or (len(shown) >= _LONGEST_CELL and text.startswith(shown))


def _other_texts(answers: Sequence[Answer], known: Known) -> list[str]:
    """One line in all: with a file of another project, every row is wrong in the same way."""
    other = [
        answer
        for answer in answers
        if answer.labels is not None and answer.text is not None and answer.id in known.text_of
        if not same_text(answer.text, known.text_of[answer.id])
    ]
    if not other:
        return []
    first = other[0]
    return [
        f'{first.where}: id "{first.id}" is {_start(known.text_of[first.id])} in the project, but '
        f"{_start(first.text or '')} here, as in {len(other)} of {len(answers)} rows: a file of "
        "another project, or a column sorted apart from the others; --ignore-texts goes by id alone"
    ]


def _start(text: str, limit: int = 40) -> str:
    plain = " ".join(text.split())
    return repr(plain if len(plain) <= limit else plain[:limit] + "...")


def _contradictions(answer: Answer, first: Answer, known: Known, replace: bool) -> Iterator[str]:
    """Disagreement with the first answer for this text in the file, or with an earlier one."""
    earlier = known.answers.get(known.text_of[answer.id])
    if first.labels != answer.labels:
        yield (
            f'{answer.where}: id "{answer.id}" has the same text as "{first.id}" at {first.where}, '
            f"but is answered {_shown(answer.labels)}, not {_shown(first.labels)}"
        )
    elif not replace and earlier is not None and earlier.labels != answer.labels:
        yield (
            f'{answer.where}: id "{answer.id}" was answered {_shown(earlier.labels)} before, now '
            f"{_shown(answer.labels)}; --replace takes the new answer"
        )


def _unknown_labels(answer: Answer, names: Sequence[str]) -> Iterator[str]:
    for label in answer.labels if isinstance(answer.labels, list) else []:
        if problem := unknown_label(label, names):
            advice = f" ({answer.advice})" if answer.advice else ""
            yield f"{answer.where}: {problem}{advice}"


def _shown(labels: Said) -> str:
    if isinstance(labels, list):
        return f'"{LABEL_SEPARATOR.join(labels) or NO_LABEL}"'
    return f'"{labels}"'
