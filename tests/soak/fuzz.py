"""Generated input, by grammars: it works, or one line names the place."""

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as some
from outcome import Outcome

EXAMPLES = 20_000
_BATCH = 50

plain = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-3, 300),
    some.floats(allow_nan=True, width=32),
    some.text(max_size=6),
    some.sampled_from(["crab", "random", "words", "frozen", "column_max", "1e-3", "last", "auto"]),
)
value = some.recursive(
    plain,
    lambda inner: (
        some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
word = some.one_of(
    some.text(max_size=12),
    some.sampled_from(["a", "b", "é", "a;b", "-", "skipped", '"', "\x00", "\ud7ff"]),
)


def fuzz(folder: Path, deadline: float) -> list[Outcome]:
    """A share of the examples, and of the time, to each grammar."""
    from crabjax.config import Config
    from crabjax.config.build import keys_of

    keys = some.sampled_from([*keys_of(Config), "loop.round", "no.such", "loop", "preset", ""])
    parts = {
        "configurations": (_configurations(keys), _read_configuration, ".yaml"),
        "overrides": (some.lists(_override(keys), min_size=1, max_size=3), _read_overrides, ".txt"),
        "JSON lines of documents": (_json_lines(_document()), _read_documents, ".jsonl"),
        "CSV files of documents": (_csv(["id", "text", "labels"]), _read_documents, ".csv"),
        "CSV files of answers": (_csv(["id", "text", "labels"]), _Answers(folder), ".csv"),
        "JSON lines of answers": (_json_lines(_answer()), _Answers(folder), ".jsonl"),
        "Label Studio exports": (_export(), _Answers(folder), ".json"),
        "records of runs": (_json_lines(_record()), _read_records, ".jsonl"),
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
    outcome.notes.append(f"{refused:,} refused")
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


def _configurations(keys):
    """Files as a person writes them: known keys, near misses, and now and then a broken line."""
    tree = some.dictionaries(keys, value, max_size=6)

    def text(flat: dict, spoil: str, at: int) -> bytes:
        from crabjax.config.build import nest

        try:
            written = yaml.safe_dump(nest(flat), sort_keys=False)
        except (ValueError, AttributeError, yaml.YAMLError):
            written = repr(flat)
        cut = at % (len(written) + 1)
        return (written[:cut] + spoil + written[cut:]).encode("utf-8", "surrogatepass")

    spoilt = some.sampled_from(
        ["", "", "", "\t", ": ", "{", "&a *a", "!!python/name:os", "\n- x\n"]
    )
    return some.builds(text, tree, spoilt, some.integers(0, 500))


def _override(keys):
    text = some.one_of(plain.map(str), some.text(max_size=8), some.just("[1"), some.just("{a: 1}"))
    return some.builds(
        lambda key, sign, own: f"{key}{sign}{own}", keys, some.sampled_from(["=", "=", ""]), text
    )


def _document():
    return some.fixed_dictionaries(
        {},
        optional={
            "text": some.one_of(word, plain),
            "labels": some.one_of(some.lists(word, max_size=3), value),
            "doc_token": some.one_of(some.lists(word, max_size=3), value),
            "doc_label": some.one_of(some.lists(word, max_size=3), value),
            "id": some.one_of(some.integers(0, 5), value),
        },
    )


def _answer():
    return some.fixed_dictionaries(
        {"id": some.one_of(some.sampled_from(["d0", "d1", "d2", "x", 1]), value)},
        optional={
            "labels": some.one_of(
                some.lists(word, max_size=3), some.just("skipped"), some.just("withdrawn"), value
            ),
            "text": some.one_of(some.just("words 0"), word),
            "by": some.sampled_from(["person", "model", 3]),
        },
    )


def _record():
    names = ["seed", "round", "labelled", "strategy", "model", "data", "selected", "seconds"]
    names += ["micro_f1", "macro_f1", "mean_average_precision", "members", "failed_epochs"]
    names += ["mean_ir_selected", "hard_left", "negative_left"]
    return some.fixed_dictionaries({}, optional=dict.fromkeys(names, value))


def _json_lines(record):
    line = some.one_of(
        record.map(lambda one: json.dumps(one).encode()),
        record.map(
            lambda one: json.dumps(one, ensure_ascii=False).encode("utf-8", "surrogatepass")
        ),
        some.sampled_from(
            [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"text": "x", "labels": ["a"]}']
        ),
        some.binary(max_size=12),
    )
    return some.lists(line, max_size=5).map(b"\n".join)


def _csv(columns):
    cell = some.one_of(
        word, some.sampled_from(['"open', "d0", "d1", "001", "words 0", "a", "b", ""])
    )

    def text(
        mark: bytes, first: str, names: list[str], rows: list[list[str]], mark_columns: str
    ) -> bytes:
        lines = [first] * bool(first) + [mark_columns.join(row) for row in [names, *rows]]
        return mark + "\n".join(lines).encode("utf-8", "surrogatepass")

    header = some.one_of(
        some.just(columns), some.lists(some.sampled_from([*columns, "x"]), max_size=4)
    )
    return some.builds(
        text,
        some.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xff\xfe"]),
        some.sampled_from(["", "", "sep=;", "sep=,"]),
        header,
        some.lists(some.lists(cell, min_size=2, max_size=4), max_size=4),
        some.sampled_from([",", ",", ";", "\t"]),
    )


def _export():
    result = some.fixed_dictionaries(
        {},
        optional={
            "type": some.one_of(some.just("choices"), value),
            "value": some.one_of(
                some.fixed_dictionaries({"choices": some.lists(word, max_size=2)}), value
            ),
        },
    )
    annotation = some.one_of(
        some.fixed_dictionaries(
            {},
            optional={
                "result": some.one_of(some.lists(result, max_size=2), value),
                "was_cancelled": value,
            },
        ),
        value,
    )
    data = some.fixed_dictionaries(
        {},
        optional={
            "document_id": some.one_of(some.sampled_from(["d0", "d1", "x"]), value),
            "text": value,
        },
    )
    task = some.one_of(
        some.fixed_dictionaries(
            {},
            optional={
                "data": some.one_of(data, value),
                "annotations": some.one_of(some.lists(annotation, max_size=2), value),
            },
        ),
        value,
    )
    whole = some.one_of(some.lists(task, max_size=3), value)
    return some.one_of(whole.map(lambda one: json.dumps(one).encode()), some.binary(max_size=20))


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
