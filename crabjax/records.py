"""Records: one flat JSON object per seed and round, and what is computed from many of them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crabjax.data.files import write_text

Record = dict[str, Any]

MEASURES = ("micro_f1", "macro_f1", "mean_average_precision")


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
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise RecordsError(
                f"{path}:{number}: not a whole JSON object ({error.msg}); "
                "starting the run again mends the file"
            ) from error
        if not isinstance(record, dict) or not {"seed", "round", "labelled"} <= record.keys():
            raise RecordsError(f"{path}:{number}: expected a record with seed, round, labelled")
        records.append(record)
    return records


def curves(records: Sequence[Record], measure: str) -> tuple[np.ndarray, np.ndarray]:
    """The learning curve of every seed.

    Returns:
      Labelled documents [rounds], and the measure [seeds, rounds]; only rounds all seeds finished.
    """
    seeds = list(dict.fromkeys(record["seed"] for record in records))
    per_seed = [[r for r in records if r["seed"] == seed] for seed in seeds]
    rounds = min((len(rows) for rows in per_seed), default=0)
    labelled = np.array([row["labelled"] for row in per_seed[0][:rounds]] if per_seed else [])
    values = np.array([[row[measure] for row in rows[:rounds]] for rows in per_seed], dtype=float)
    return labelled, values


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
    for measure in MEASURES:
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
