"""Draws finished runs: python scripts/report.py runs/demo --output report"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from crabjax.cli.common import run_command
from crabjax.report.find import find_runs
from crabjax.report.page import write_report


def main(argv: Sequence[str] | None = None) -> int:
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
    arguments = parser.parse_args(argv)

    def work() -> None:
        experiments = find_runs(arguments.runs, arguments.only)
        page = write_report(experiments, arguments.output, arguments.reference)
        print(f"report: {page}")

    return run_command(work, "no report was finished")
