"""Records of many runs in one small file, to be kept beside the tables made from them."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

from crabjax.files import atomic_write, read_json_lines
from crabjax.report.records import (
    AT_HALF,
    ESTIMATED,
    MEASURES,
    Record,
    RecordsError,
    Runs,
    value_of,
)

_SAME = ("seed", "round", "labelled", "strategy", "preset", "model", "data", "member_init", "keep")
_ERRORS = tuple(f"{count}_standard_error" for count in ESTIMATED)
_ESTIMATES = (*ESTIMATED.values(), *_ERRORS)
_COUNTS = ("mean_ir_selected", *ESTIMATED)
_KEPT = (*MEASURES, *AT_HALF)
_PHASES = ("fit", "predict", "query")


def write_kept(experiments: Mapping[str, Runs], folder: Path) -> list[Path]:
    """Writes one ``.jsonl.gz`` an experiment: what tables need of its records.

    The documents selected are replaced by their number, the members by their mean.
    """
    paths = []
    for experiment, runs in experiments.items():
        path = folder / f"{experiment.replace(', ', '.')}.jsonl.gz"
        lines = [_line(name, record) for name, records in runs.items() for record in records]
        with atomic_write(path) as file:
            # No time in its head: equal records are an equal file.
            file.write(gzip.compress("".join(lines).encode(), mtime=0))
        paths.append(path)
    return paths


def read_kept(path: Path) -> dict[str, list[Record]]:
    """Records by run name.

    Raises:
      RecordsError: naming the line of what is not such a record.
    """
    runs: dict[str, list[Record]] = {}
    for number, record in read_json_lines(path):
        if missing := {"run", "seed", "labelled", "data", "model", *_KEPT[2:]} - record.keys():
            raise RecordsError(f"{path}:{number}: expected a record with {sorted(missing)[0]}")
        runs.setdefault(record.pop("run"), []).append(record)
    if not runs:
        raise RecordsError(f"{path}: no record in it")
    return runs


def _line(name: str, record: Record) -> str:
    kept: Record = {"run": name} | {key: record[key] for key in _SAME if key in record}
    # Seven digits are what the float32 of a record has.
    kept |= {key: float(f"{value_of(record, key):.7g}") for key in _KEPT}
    counts = [key for key in _COUNTS if ESTIMATED.get(key) not in record]
    counts += [key for key in _ESTIMATES if key in record]
    kept |= {key: _rounded(record.get(key)) for key in counts}
    selected, failed = record["selected"], record.get("failed_epochs", [])
    kept["selected"] = selected if isinstance(selected, int) else len(selected)
    kept["seconds"] = {key: round(record["seconds"].get(key, 0.0), 4) for key in _PHASES}
    alone = record["members"]["micro_f1"]
    kept["members"] = {"micro_f1": [_rounded(sum(alone) / len(alone))]}
    kept["failed_epochs"] = [epoch for epoch in failed if epoch >= 0]
    return json.dumps(kept) + "\n"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.7g}")
