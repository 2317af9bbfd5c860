"""Records: one flat JSON object per seed and round, and what is computed from many of them."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crabjax.files import write_text

Record = dict[str, Any]
Runs = Mapping[str, Sequence[Record]]
"""Records by the name of the run."""

# F1 at the threshold of a run, and the same measure at 0.5: where a record has only that, the run
# decided at 0.5.
DECIDED = {"decided_micro_f1": "micro_f1", "decided_macro_f1": "macro_f1"}
AT_HALF = tuple(DECIDED.values())
# Counts of U, and what a record has in their place where only a sample of U was predicted; beside
# it stands the count's name with "_standard_error".
ESTIMATED = {"hard_left": "estimated_hard_left", "negative_left": "estimated_negative_left"}
MEASURES = (*DECIDED, "mean_average_precision")
_NUMBER, _MAYBE = (int, float), (int, float, type(None))
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("seed", "round", "labelled"), int),
    **dict.fromkeys(("strategy", "model", "data"), str),
    **dict.fromkeys(("selected", "failed_epochs"), list),
    **dict.fromkeys(("seconds", "members"), dict),
    **dict.fromkeys((*AT_HALF, "mean_average_precision"), _NUMBER),
    **dict.fromkeys(("mean_ir_selected", *ESTIMATED), _MAYBE),
}


class RecordsError(ValueError):
    """A records file that cannot be read."""


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Writes all records as JSON lines, in one step."""
    write_text(path, "".join(json.dumps(record) + "\n" for record in records))


def read_records(path: Path) -> list[Record]:
    """Reads JSON lines.

    Raises:
      RecordsError: naming the file and line of what is missing, cut off or not a record.
    """
    if not path.is_file():
        raise RecordsError(f"{path}: no such file; a run writes it after its first round")
    records, seen = [], set()
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise RecordsError(
                f"{path}:{number}: not a whole JSON object ({error}); "
                "starting the run again mends the file"
            ) from error
        if problem := _problem(record):
            raise RecordsError(f"{path}:{number}: {problem}")
        place = (record["seed"], record["round"])
        if place in seen:
            raise RecordsError(f"{path}:{number}: round {place[1]} of seed {place[0]} twice")
        seen.add(place)
        records.append(record)
    if not records:
        raise RecordsError(f"{path}: no record in it")
    return records


def _problem(record: Any) -> str | None:
    """What keeps a JSON value from being a record of a run; None if it is one."""
    if not isinstance(record, dict):
        return f"expected a record, found {str(record)[:40]!r}"
    names = {key: ESTIMATED[key] if is_estimated(record, key) else key for key in _KINDS}
    if missing := [key for key in names.values() if key not in record]:
        return f"expected a record with {', '.join(missing)}"
    for key, kind in _KINDS.items():
        value = record[names[key]]
        if not isinstance(value, kind) or isinstance(value, bool):
            return f'"{key}" of a record cannot be {str(value)[:40]!r}'
        if isinstance(value, float) and not math.isfinite(value):
            return f'"{key}" is {value}: not a result that can be compared'
    if not _numbers(record["members"].get("micro_f1")) or not _numbers(record["failed_epochs"]):
        return '"members" or "failed_epochs" of a record without a number a member'
    if record["selected"] and not _numbers([record["seconds"].get("query")]):
        return '"seconds" of a record without "query"'
    return None


def _numbers(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(v, _NUMBER) for v in values)


def run_names(experiments: Mapping[str, Runs]) -> list[str]:
    """The names of all runs, each once."""
    return list(dict.fromkeys(name for runs in experiments.values() for name in runs))


def value_of(record: Record, measure: str) -> Any:
    """A measure of one record; see :data:`DECIDED` and :data:`ESTIMATED`."""
    if measure in record:
        return record[measure]
    if measure in ESTIMATED:
        return record.get(ESTIMATED[measure])
    return record[DECIDED.get(measure, measure)]


def is_estimated(record: Record, measure: str) -> bool:
    """Whether a record has a count of U from a sample only."""
    return measure not in record and ESTIMATED.get(measure) in record


def curves(records: Sequence[Record], measure: str) -> tuple[np.ndarray, np.ndarray]:
    """The learning curve of every seed, in the order in which seeds first appear.

    Returns:
      Labelled documents [rounds], and the measure [seeds, rounds]; only budgets all seeds have.
    """
    heights: dict[int, dict[int, float]] = {}
    for record in records:
        heights.setdefault(record["seed"], {})[record["labelled"]] = value_of(record, measure)
    labelled = sorted(set.intersection(*map(set, heights.values()))) if heights else []
    values = [[of_seed[count] for count in labelled] for of_seed in heights.values()]
    return np.array(labelled), np.array(values, dtype=float)


def area_under_curve(labelled: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Trapezoid area divided by the range of ``labelled``: the mean height of each curve."""
    if len(labelled) < 2:
        return values.mean(axis=-1)
    return np.trapezoid(values, labelled, axis=-1) / (labelled[-1] - labelled[0])


def mean_and_error(values: Sequence[float] | np.ndarray, digits: int = 4) -> str:
    """ "0.512 ±0.004": mean and standard error; the mean alone of a single value."""
    mean = f"{np.mean(values):.{digits}f}"
    if len(values) < 2:
        return mean
    return f"{mean} ±{np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}"


def summarise(records: Sequence[Record]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, of the area under the curve and of each round."""
    summary: dict[str, Any] = {"seeds": sorted({record["seed"] for record in records})}
    for measure in (*MEASURES, *AT_HALF):
        labelled, values = curves(records, measure)
        areas = area_under_curve(labelled, values)
        spread = int(len(areas) > 1)
        summary["labelled"] = labelled.tolist()
        summary[measure] = {
            "area": {"mean": float(areas.mean()), "std": float(areas.std(ddof=spread))},
            "area_per_seed": areas.tolist(),
            "mean": values.mean(axis=0).tolist(),
            "std": values.std(axis=0, ddof=spread).tolist(),
        }
    return summary
