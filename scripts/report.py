"""Draws finished runs: python scripts/report.py runs/demo --output report"""

import argparse
import sys
from pathlib import Path

from crabjax.records import read_records
from crabjax.report_page import write_report

FIRST = ("crab", "random", "besra")  # drawn and listed before the others


def find_runs(folders: list[Path], only: list[str] | None = None) -> dict[str, dict[str, list]]:
    """Records by run name, by data set and model; a folder may be a run or hold runs.

    Args:
      folders: to look in.
      only: names of runs, in the order to show them; None for all.
    """
    experiments: dict[str, dict[str, list]] = {}
    for folder in folders:
        files = sorted(folder.rglob("records.jsonl"))
        if not files:
            raise FileNotFoundError(f"{folder}: no records.jsonl in it or below it")
        for file in files:
            records = read_records(file)
            name = file.parent.name if file.parent != folder else records[0]["strategy"]
            experiment = f"{records[0]['data']}, {records[0]['model']}"
            runs = experiments.setdefault(experiment, {})
            if name in runs:
                raise ValueError(f"{file}: a second run named {name} on {experiment}")
            runs[name] = records
    return {
        experiment: in_order(experiment, runs, only) for experiment, runs in experiments.items()
    }


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
    arguments = parser.parse_args()
    try:
        page = write_report(find_runs(arguments.runs, arguments.only), arguments.output)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"report: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
