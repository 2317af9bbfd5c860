"""Draws finished runs: python scripts/report.py runs/demo --output report"""

import argparse
import sys
from pathlib import Path

from crabjax.records import read_records
from crabjax.report_page import write_report

FIRST = ("crab", "random", "besra")  # drawn and listed before the others


def find_runs(folders: list[Path], only: list[str] | None = None) -> dict[str, dict[str, list]]:
    """Records by run name, by data set and model; a folder may be a run or hold runs.

    Runs of one name are told apart by the folder above them.

    Args:
      folders: to look in.
      only: names of runs, in the order to show them; None for all.
    """
    found: dict[str, list[tuple[str, Path, list]]] = {}
    for folder in folders:
        files = sorted(folder.rglob("records.jsonl"))
        if not files:
            raise FileNotFoundError(f"{folder}: no records.jsonl in it or below it")
        for file in files:
            records = read_records(file)
            name = file.parent.name if file.parent != folder else records[0]["strategy"]
            experiment = f"{records[0]['data']}, {records[0]['model']}"
            found.setdefault(experiment, []).append((name, file, records))
    return {
        experiment: in_order(experiment, named(runs), only) for experiment, runs in found.items()
    }


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
    if missing := [name for name in only or () if name not in runs]:
        raise ValueError(f"--only {missing[0]}: {experiment} has {', '.join(runs)}")
    others = [name for name in runs if name not in FIRST]
    order = only or [*(name for name in FIRST if name in runs), *others]
    return {name: runs[name] for name in order}


def main() -> int:
    """Parses the arguments and writes the report."""
    parser = argparse.ArgumentParser(
        description="Compares runs of scripts/train_loop.py: learning curves, what was selected, "
        "tables with paired differences, and one HTML page that needs no other file."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs")
    parser.add_argument("--output", type=Path, required=True, help="folder for pictures and page")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="show these runs, in this order")
    parser.add_argument(
        "--reference", metavar="NAME", help="compare with this run (default: random and besra)"
    )
    arguments = parser.parse_args()
    try:
        experiments = find_runs(arguments.runs, arguments.only)
        page = write_report(experiments, arguments.output, arguments.reference)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"report: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
