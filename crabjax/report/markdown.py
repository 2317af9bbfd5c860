"""The tables of RESULTS.md, written from records: no figure there is typed by hand.

A table stands between two comments, the first of which says what it holds::

    <!-- table areas on frozen: crab | paper | random -->
    <!-- end -->

``on`` names experiments by data set, model or both, as ``rcv1_t10_10, frozen``; after the colon are
the runs, in this order. Both may be left out: all there are. Kinds are those of
``markdown_tables.KINDS``.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from crabjax.files import write_text
from crabjax.report.markdown_tables import KINDS, Experiments, in_order

_PLACE = re.compile(
    r"^<!-- table (?P<kind>[a-z ]+?)(?: on (?P<on>[^:\n]+?))?(?:: (?P<runs>[^\n]+?))? -->\n"
    r"(?:(?!<!-- table ).)*?^<!-- end -->",
    re.DOTALL | re.MULTILINE,
)
_OPENING = re.compile(r"^<!-- table [^\n]*", re.MULTILINE)


class MarkdownError(ValueError):
    """A file without a place for a table, or with one that is not understood."""


class Filled(NamedTuple):
    """A text with its tables, and how many places were filled and how many left as they were."""

    text: str
    filled: int
    left: int


def write_markdown(experiments: Experiments, path: Path) -> Filled:
    """Fills the places of a file, or writes a new one with a table of every kind.

    A place that names a run or an experiment which is not there is left as it is: other folders
    may have it.

    Args:
      experiments: runs by name, by the name of the experiment.
      path: the file.

    Raises:
      MarkdownError: for a file without a place, and for a place that is not understood.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else _all_places(experiments)
    found = fill(text, experiments)
    if not found.filled:
        raise MarkdownError(
            f"{path}: no place for a table of these runs; put <!-- table areas --> and "
            "<!-- end --> on lines of their own, or name a new file"
        )
    write_text(path, found.text)
    return found


def fill(text: str, experiments: Experiments) -> Filled:
    """The text with every place filled for which there are runs.

    Raises:
      MarkdownError: for a kind that is none, and for a place that does not end.
    """
    whole = {found.start() for found in _PLACE.finditer(text)}
    for opening in _OPENING.finditer(text):
        if opening.start() not in whole:
            raise MarkdownError(f"{opening.group()}: expected <!-- end --> on a line after it")
    done = {True: 0, False: 0}
    experiments = {
        name: {run.replace("_", " "): records for run, records in runs.items()}
        for name, runs in experiments.items()
    }

    def one(found: re.Match[str]) -> str:
        if found["kind"] not in KINDS:
            raise MarkdownError(f"table {found['kind']!r}: expected one of {', '.join(KINDS)}")
        chosen = _chosen(experiments, _listed(found["on"]), _listed(found["runs"]))
        done[bool(chosen)] += 1
        if not chosen:
            return found.group()
        opening = found.group().partition("\n")[0]
        return f"{opening}\n{KINDS[found['kind']](chosen)}<!-- end -->"

    return Filled(_PLACE.sub(one, text), done[True], done[False])


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split("|") if part.strip()]


def _chosen(experiments: Experiments, on: Sequence[str], names: Sequence[str]) -> Experiments:
    """The experiments and runs of a place; nothing if one that it names is missing."""
    covered = {
        experiment: runs
        for experiment, runs in experiments.items()
        if not on or any(_is_called(experiment, one) for one in on)
    }
    whole = {e: runs for e, runs in covered.items() if all(name in runs for name in names)}
    found = all(any(_is_called(experiment, one) for experiment in covered) for one in on)
    if on and not (found and len(whole) == len(covered)):
        return {}
    chosen = {
        experiment: {name: runs[name] for name in names} if names else in_order(runs)
        for experiment, runs in whole.items()
    }
    short = [experiment.partition(", ")[0] for experiment in chosen]
    if len(set(short)) < len(short):
        return chosen
    return dict(zip(short, chosen.values()))


def _is_called(experiment: str, name: str) -> bool:
    return name in (experiment, *experiment.split(", "))


def _all_places(experiments: Experiments) -> str:
    kinds = [kind for kind in KINDS if kind not in ("pair", "strategies")]
    places = [*kinds, *(f"strategies on {experiment}" for experiment in experiments)]
    return "\n".join(f"<!-- table {one} -->\n<!-- end -->\n" for one in places)
