"""Draws finished runs: python scripts/report.py runs/demo --output report"""

import argparse
import sys
from pathlib import Path

from crabjax.records import read_records
from crabjax.report_page import write_report

FIRST = ("crab", "random", "besra")  # drawn and listed before the others


def find_runs(folders: list[Path], only: list[str] | None = None) -> dict[str, dict[str, list]]:
    """Records by run name, by data set; a folder may be a run or hold runs.

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
            runs = experiments.setdefault(records[0]["data"], {})
            if name in runs:
                raise ValueError(f"{file}: a second run named {name} on {records[0]['data']}")
            runs[name] = records
    for data, runs in experiments.items():
        if missing := [name for name in only or () if name not in runs]:
            raise ValueError(f"--only {missing[0]}: {data} has {', '.join(runs)}")
        places = {name: place for place, name in enumerate(FIRST)}
        order = only or sorted(runs, key=lambda name: (places.get(name, len(FIRST)), name))
        experiments[data] = {name: runs[name] for name in order}
    return experiments


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
