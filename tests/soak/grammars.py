"""Grammars of what people and programs write: mostly right, with wild pieces in it."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

import yaml
from hypothesis import strategies as some

Drawn = some.SearchStrategy[Any]

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
    some.sampled_from(["a", "b", "é", "a;b", "-", "skipped", '"', "\x00", "\ud7ff", "d0", "001"]),
)
label = some.sampled_from(["a", "b", "é"])
labels = some.lists(label, max_size=3, unique=True)
text = some.text(some.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=20)


def mostly(right: Drawn, wild: Drawn, one_in: int = 8) -> Drawn:
    """Now and then something wild: a file has several places, and most files should have none."""
    return some.integers(1, one_in).flatmap(lambda drawn: wild if drawn == 2 else right)


def configurations(defaults: Mapping[str, Any]) -> Drawn:
    """Files as a person writes them: known keys, near misses, and now and then a broken line."""

    def written(flat: dict, spoil: str, at: int) -> bytes:
        from crabjax.config.build import nest

        try:
            content = yaml.safe_dump(nest(flat), sort_keys=False)
        except (ValueError, AttributeError, yaml.YAMLError):
            content = repr(flat)
        cut = at % (len(content) + 1)
        return (content[:cut] + spoil + content[cut:]).encode("utf-8", "surrogatepass")

    spoilt = some.sampled_from(["\t", ": ", "{", "&a *a", "!!python/name:os", "\n- x\n"])
    tree = some.lists(_setting(defaults), max_size=5).map(dict)
    return some.builds(written, tree, mostly(some.just(""), spoilt), some.integers(0, 500))


def overrides(defaults: Mapping[str, Any]) -> Drawn:
    """What follows ``--set``."""
    shown = lambda one: yaml.safe_dump(one, default_flow_style=True).removesuffix("...\n").strip()
    broken = some.sampled_from(["[1", "{a: 1}", ""]) | some.text(max_size=8)
    right = _setting(defaults).map(lambda pair: f"{pair[0]}={shown(pair[1])}")
    wild = some.builds("{}{}{}".format, _keys(defaults), some.sampled_from(["=", ""]), broken)
    return some.lists(mostly(right, wild), min_size=1, max_size=3)


def _keys(defaults: Mapping[str, Any]) -> Drawn:
    strange = some.sampled_from(["loop.round", "no.such", "loop", "preset", ""])
    return mostly(some.sampled_from(sorted(defaults)), strange)


def _setting(defaults: Mapping[str, Any]) -> Drawn:
    """A key and a value that is like its default, or not."""
    return _keys(defaults).flatmap(
        lambda key: some.tuples(some.just(key), mostly(_like(defaults.get(key)), value))
    )


def _like(default: Any) -> Drawn:
    """The default, or another value of its kind; most kinds of numbers have a narrow range."""
    if isinstance(default, bool):
        return some.booleans()
    if isinstance(default, int) and default > 0:
        return some.integers(1, 2 * default)
    if isinstance(default, float) and default > 0:
        return some.floats(default / 2, default)
    return some.just(default)


def documents_json() -> Drawn:
    """Documents in either form, one of them in a file."""
    known = some.fixed_dictionaries(
        {"text": mostly(text, plain), "labels": mostly(labels, value)},
        optional={"note": plain, "id": some.sampled_from(["d0", "d1", "d2", "d3"])},
    )
    tokens = some.lists(text, min_size=1, max_size=4)
    other = some.fixed_dictionaries(
        {"doc_token": mostly(tokens, value), "doc_label": mostly(labels, value)},
        optional={"doc_keyword": value},
    )
    wild = some.dictionaries(
        some.sampled_from(["text", "labels", "doc_token", "doc_label", "id"]), value
    )
    return _json_lines(known, wild) | _json_lines(other, wild)


def documents_csv() -> Drawn:
    """Tables of texts with labels."""
    names = some.sampled_from([["text", "labels"], ["labels", "text"], ["text", "labels", "note"]])
    return _tables(names, {"text": text, "labels": labels.map(";".join), "note": word})


def answers_csv() -> Drawn:
    """Tables of answers to a pool of d0, d1 and d2, whose texts are "words 0" and so on."""
    names = some.sampled_from([["id", "labels"], ["id", "text", "labels"], ["labels", "id"]])
    said = mostly(
        some.lists(label, min_size=1, max_size=3, unique=True).map(";".join),
        some.sampled_from(["-", "skipped", "withdrawn", ""]),
        3,
    )
    return _tables(names, {"id": None, "text": None, "labels": said})


def answers_json() -> Drawn:
    """Lines of answers to the same pool."""
    words = some.sampled_from(["skipped", "withdrawn", None])
    said = mostly(labels, mostly(words, value, 3), 5)

    def line(number: int, said: Any, with_text: bool, by: Any, own: Any) -> dict:
        own_text = {"text": f"words {number}"} if with_text else {}
        return {"id": f"d{number}" if own is None else own, "labels": said, **own_text, **by}

    by = mostly(some.just({}), some.sampled_from([{"by": "person"}, {"by": "model"}, {"by": 3}]))
    own = mostly(some.none(), value | some.sampled_from(["x", 1]), 20)
    order = some.permutations(range(3))
    lines = order.flatmap(
        lambda numbers: some.tuples(
            *(some.builds(line, some.just(n), said, some.booleans(), by, own) for n in numbers)
        )
    )
    return some.builds(
        lambda lines, count, wild: b"\n".join([*map(_line, lines[:count]), *wild]),
        lines,
        some.integers(1, 3),
        mostly(some.just([]), some.lists(_broken_line(), min_size=1, max_size=1), 4),
    )


def label_studio() -> Drawn:
    """Exports of Label Studio for the same pool."""
    result = some.fixed_dictionaries(
        {
            "type": mostly(some.just("choices"), value),
            "value": mostly(some.fixed_dictionaries({"choices": mostly(labels, value)}), value),
        }
    )
    annotation = some.fixed_dictionaries(
        {"result": mostly(some.lists(result, max_size=1), value)},
        optional={"was_cancelled": mostly(some.booleans(), value)},
    )

    def task(number: int) -> Drawn:
        data = some.fixed_dictionaries(
            {"document_id": mostly(some.just(f"d{number}"), value, 20)},
            optional={"text": mostly(some.just(f"words {number}"), value)},
        )
        annotations = some.lists(annotation, max_size=1)
        return some.fixed_dictionaries(
            {"data": mostly(data, value, 20), "annotations": mostly(annotations, value, 20)}
        )

    tasks = some.lists(some.integers(0, 2), min_size=1, max_size=3, unique=True).flatmap(
        lambda numbers: some.tuples(*(mostly(task(n), value, 20) for n in numbers))
    )
    whole = mostly(tasks.map(list), value)
    return mostly(whole.map(lambda one: json.dumps(one).encode()), some.binary(max_size=20))


def records() -> Drawn:
    """Records of runs."""
    share = some.floats(0, 1)
    fields = {
        "seed": some.integers(0, 200),
        "round": some.integers(0, 200),
        "labelled": some.integers(0, 1000),
        **dict.fromkeys(("strategy", "model", "data"), text),
        "selected": some.lists(some.integers(0, 99), max_size=3),
        "seconds": some.just({"fit": 1.0, "predict": 0.5, "query": 0.25}),
        **dict.fromkeys(("micro_f1", "macro_f1", "mean_average_precision"), share),
        "members": some.just({"micro_f1": [0.5, 0.25]}),
        "failed_epochs": some.just([0, 0]),
        **dict.fromkeys(("mean_ir_selected", "hard_left", "negative_left"), some.none() | share),
    }
    right = {name: mostly(drawn, value, 100) for name, drawn in fields.items()}
    wild = some.fixed_dictionaries({}, optional=dict.fromkeys(fields, value))
    return _json_lines(some.fixed_dictionaries(right), wild)


def _json_lines(right: Drawn, wild: Drawn) -> Drawn:
    line = mostly(right.map(_line), wild.map(_line) | _broken_line())
    return some.lists(line, min_size=1, max_size=4).map(b"\n".join)


def _line(record: Any) -> bytes:
    return json.dumps(record, ensure_ascii=len(str(record)) % 2 == 0).encode(
        "utf-8", "surrogatepass"
    )


def _broken_line() -> Drawn:
    known = [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"text": "x", "labels": ["a"]}']
    return some.sampled_from(known) | some.binary(max_size=12)


def _tables(names: Drawn, columns: Mapping[str, Drawn | None]) -> Drawn:
    """CSV files; a column without a grammar is that of the pool, and its rows are told apart."""
    pool = {"id": "d{}", "text": "words {}"}

    def row(number: int) -> Drawn:
        cells = {
            name: some.just(pool[name].format(number)) if drawn is None else drawn
            for name, drawn in columns.items()
        }
        wild = word | some.just('"open')
        return some.fixed_dictionaries({n: mostly(d, wild, 20) for n, d in cells.items()})

    def table(names: list[str], rows: tuple, mark: str, first: str, start: bytes, end: str):
        first = first if first == f"sep={mark}" or end else ""
        written = io.StringIO()
        writer = csv.writer(written, delimiter=mark, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([[own.get(name, "") for name in names] for own in rows])
        content = first + "\n" * bool(first) + written.getvalue() + end
        return start + content.encode("utf-8", "surrogatepass")

    order = some.permutations(range(3)).flatmap(
        lambda numbers: some.integers(1, 3).map(lambda count: numbers[:count])
    )
    strange = some.lists(some.sampled_from([*columns, "x"]), max_size=4)
    return some.builds(
        table,
        mostly(names, strange),
        order.flatmap(lambda numbers: some.tuples(*map(row, numbers))),
        some.sampled_from([",", ";", "\t"]),
        some.sampled_from(["", "sep=;", "sep=,"]),
        mostly(some.sampled_from([b"", b"\xef\xbb\xbf"]), some.just(b"\xff\xfe")),
        mostly(some.just(""), word | some.sampled_from(['"open', "\n\n", ";;;", "a,b,c,d,e"])),
    )
