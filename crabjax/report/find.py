"""The records of runs, found in folders and put in an order to show them."""

import json
from pathlib import Path

from crabjax.report.kept import read_kept
from crabjax.report.records import Record, read_records

FIRST = ("crab", "random", "besra")  # drawn and listed before the others


def find_runs(folders: list[Path], only: list[str] | None = None) -> dict[str, dict[str, list]]:
    """Records by run name, by data set and model; a folder may be a run or hold runs.

    Runs of one name are told apart by the folder above them. Records also say how members start
    (``member_init``) and which parameters are kept (``keep``), where that is known.

    Args:
      folders: to look in.
      only: names of runs, in the order to show them; None for all.
    """
    found: dict[str, list[tuple[str, Path, list]]] = {}
    for folder in folders:
        files = sorted(folder.rglob("records.jsonl"))
        kept = sorted(folder.glob("*.jsonl.gz")) if folder.is_dir() else [folder]
        if not folder.exists() or not (files or kept):
            raise FileNotFoundError(
                f"{folder}: no records.jsonl in it or below it; `crabjax train` writes them"
            )
        for file in kept:
            for name, records in read_kept(file).items():
                experiment = f"{records[0]['data']}, {records[0]['model']}"
                found.setdefault(experiment, []).append((name, file, records))
        for file in files:
            records = _with_settings(file)
            name = file.parent.name if file.parent != folder else records[0]["strategy"]
            experiment = f"{records[0]['data']}, {records[0]['model']}"
            found.setdefault(experiment, []).append((name, file, records))
    return {
        experiment: in_order(experiment, named(runs), only) for experiment, runs in found.items()
    }


def _with_settings(file: Path) -> list[Record]:
    records = read_records(file)
    try:
        run = json.loads((file.parent / "run.json").read_text(encoding="utf-8"))
        ensemble = run["config"]["ensemble"]
        known = {"member_init": ensemble["member_init"], "keep": ensemble.get("keep", "best")}
    except (OSError, ValueError, KeyError, TypeError):
        return records
    return [record | known for record in records]


def named(runs: list[tuple[str, Path, list]]) -> dict[str, list]:
    """Records by name, with the folder above where several runs have the name."""
    names = [name for name, _, _ in runs]
    experiments: dict[str, list] = {}
    for name, file, records in runs:
        full = name if names.count(name) == 1 else f"{file.parent.parent.name}/{name}"
        if full in experiments:
            raise ValueError(f"{file}: a second run named {full}")
        experiments[full] = records
    return experiments


def in_order(experiment: str, runs: dict[str, list], only: list[str] | None) -> dict[str, list]:
    """The runs to show: those asked for, or all, the ones others are compared with first."""
    # A run named "no attention" lies in the folder no_attention.
    asked = {name: name if name in runs else name.replace(" ", "_") for name in only or ()}
    if missing := [name for name in asked.values() if name not in runs]:
        raise ValueError(f"--only {missing[0]}: {experiment} has {', '.join(runs)}")
    if asked:
        return {name: runs[folder] for name, folder in asked.items()}
    others = [name for name in runs if name not in FIRST]
    return {name: runs[name] for name in [*(one for one in FIRST if one in runs), *others]}
