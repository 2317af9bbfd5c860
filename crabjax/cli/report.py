"""Compares finished runs: crabjax report runs/demo --output report"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from crabjax.cli.common import command_parser, run_command

DESCRIPTION = """\
Compares runs of `crabjax train`: learning curves, what was selected, tables with paired
differences, and one HTML page that needs no other file."""

EXAMPLE = """\
  %(prog)s runs/demo --output report     (after `crabjax demo`)
  %(prog)s runs/demo --markdown tables.md

--markdown fills the places of a file that has some, such as <!-- table areas: crab | random -->
and <!-- end -->, each on a line of its own, and writes a new file with every table otherwise."""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Parses the arguments and writes the report."""
    parser = command_parser(prog, DESCRIPTION, EXAMPLE)
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders of runs, or what --keep wrote"
    )
    parser.add_argument("--output", type=Path, help="folder for pictures and page")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write tables to this file")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="write what tables need, a small file each"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="show these runs, in this order")
    parser.add_argument(
        "--reference", metavar="NAME", help="compare with this run (default: random and besra)"
    )
    arguments = parser.parse_args(argv)
    if not (arguments.output or arguments.markdown or arguments.keep):
        parser.error("expected --output FOLDER, --markdown FILE or --keep FOLDER")
    return run_command(lambda: report(arguments), "no report was finished")


def report(arguments: argparse.Namespace) -> None:
    """Writes what the arguments ask for."""
    from crabjax.report.find import find_runs
    from crabjax.report.kept import write_kept
    from crabjax.report.markdown import write_markdown
    from crabjax.report.page import write_report

    experiments = find_runs(arguments.runs, arguments.only)
    if arguments.output:
        print(f"report: {write_report(experiments, arguments.output, arguments.reference)}")
    if arguments.markdown:
        found = write_markdown(experiments, arguments.markdown)
        left = f"; {found.left} of other runs left as they were" if found.left else ""
        print(f"{arguments.markdown}: {found.filled} tables{left}")
    if arguments.keep:
        for path in write_kept(experiments, arguments.keep):
            print(path)
