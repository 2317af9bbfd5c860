"""Generated input, by grammars: it works, or one line names the place."""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grammars
from hypothesis import HealthCheck, Phase, given, seed, settings
from outcome import Outcome

EXAMPLES = 20_000
_BATCH = 50


def fuzz(folder: Path, deadline: float) -> list[Outcome]:
    """A share of the examples, and of the time, to each grammar."""
    from crabjax.config import Config, to_dict
    from crabjax.config.build import flat, keys_of

    known = flat(to_dict(Config()))
    defaults = {key: known.get(key) for key in keys_of(Config)}
    answers = _Answers(folder)
    parts = {
        "configurations": (grammars.configurations(defaults), _read_configuration, ".yaml"),
        "overrides": (grammars.overrides(defaults), _read_overrides, ".txt"),
        "JSON lines of documents": (grammars.documents_json(), _read_documents, ".jsonl"),
        "CSV files of documents": (grammars.documents_csv(), _read_documents, ".csv"),
        "CSV files of answers": (grammars.answers_csv(), answers, ".csv"),
        "JSON lines of answers": (grammars.answers_json(), answers, ".jsonl"),
        "Label Studio exports": (grammars.label_studio(), answers, ".json"),
        "records of runs": (grammars.records(), _read_records, ".jsonl"),
    }
    outcomes = []
    for number, (name, (grammar, read, suffix)) in enumerate(parts.items()):
        until = time.monotonic() + (deadline - time.monotonic()) / (len(parts) - number)
        outcomes.append(
            _part(name, grammar, read, folder / f"fuzzed{suffix}", until, EXAMPLES // len(parts))
        )
    return outcomes


def _part(name: str, grammar, read: Callable, path: Path, until: float, wanted: int) -> Outcome:
    outcome = Outcome(f"generated {name}", "works, or one line naming the place; no file changed")
    refused = 0

    def one(content) -> None:
        nonlocal refused
        outcome.tried += 1
        path.write_bytes(content if isinstance(content, bytes) else repr(content).encode())
        before = path.read_bytes()
        refused += _try(outcome, read, path, content)
        if path.read_bytes() != before:
            outcome.failures.append(f"the input was changed: {content!r:.300}")

    every_check: Any = list(HealthCheck)
    # In batches: what Hypothesis has begun it finishes, whatever the clock says.
    for batch in range(wanted // _BATCH):
        if time.monotonic() > until or len(outcome.failures) >= 20:
            break
        quick = settings(
            max_examples=_BATCH,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=every_check,
        )
        seed(batch)(quick(given(grammar)(one)))()
    outcome.notes.append(f"{outcome.tried - refused:,} accepted, {refused:,} refused")
    return outcome


def _try(outcome: Outcome, read: Callable, path: Path, content) -> bool:
    """Whether the content was refused; anything but a named place is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read(path, content)
        except (ValueError, RuntimeError, OSError) as error:
            said = str(error)
            if path.name not in said and "--set" not in said:
                outcome.failures.append(f"place not named: {said[:200]} for {content!r:.300}")
            elif "\n" in said and "nothing was added" not in said:
                outcome.failures.append(f"several lines: {said[:200]!r}")
            return True
        except Exception as error:
            outcome.failures.append(f"{type(error).__name__}: {error} for {content!r:.300}")
            return True
    return False


def _read_configuration(path: Path, _) -> None:
    from crabjax.config import load_variants

    load_variants(path)


def _read_overrides(path: Path, overrides: list[str]) -> None:
    from crabjax.config import load_variants

    load_variants("demo.yaml", overrides)


def _read_documents(path: Path, _) -> None:
    from crabjax.data.corpus import read_corpus

    read_corpus(path)


def _read_records(path: Path, _) -> None:
    from crabjax.report.records import read_records

    read_records(path)


class _Answers:
    """Adds a file to a project; what is refused changes no file of it."""

    def __init__(self, folder: Path):
        from crabjax.config import from_overrides
        from crabjax.labelling import Project

        self.folder = folder / "project"
        if not self.folder.exists():
            (folder / "pool.csv").write_text("id,text\nd0,words 0\nd1,words 1\nd2,words 2\n")
            Project.create(self.folder, folder / "pool.csv", ["a", "b", "é"], from_overrides([]))
        self.project = Project.open(self.folder)
        self.before = (self.folder / "labels.jsonl").read_bytes()

    def __call__(self, path: Path, _) -> None:
        from crabjax.labelling.exchange import read_answers

        labels = self.folder / "labels.jsonl"
        try:
            self.project.add(read_answers(path))
        except Exception:
            if labels.read_bytes() != self.before:
                raise TypeError("a file that was refused changed the answers") from None
            raise
        self.project.answers()  # whatever was accepted can be read back
        labels.write_bytes(self.before)
