"""Times crabjax: which benchmark, at which sizes, written where."""

import argparse
import ast
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from crabjax.benchmarks import ALL, SUBCOMMANDS
from crabjax.benchmarks.arguments import ADD
from crabjax.benchmarks.sizes import PRESETS
from crabjax.cli.common import command_parser, run_command

DESCRIPTION = """\
Times crabjax on the devices JAX finds: CPU, GPU or TPU; `compile` needs no device.

Times are medians of repeats after a warm-up; spread is the slowest minus the fastest repeat over
the median, compile s what the first call took on top, peak extra MB the memory a call needed."""

EXAMPLE = """\
  %(prog)s all --preset small --json before.json
  %(prog)s all --preset small --json after.json
  %(prog)s --compare before.json after.json"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Runs what the arguments ask for; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = _parse(words, prog)
    if arguments.compare:
        before, after = arguments.compare
        return _compare(before, after, arguments.tolerance)
    return run_command(lambda: _time(arguments), "no report was written")


def _time(arguments: argparse.Namespace) -> None:
    from crabjax.benchmarks import common
    from crabjax.files import check_writable

    if arguments.json:  # before the work, not after it
        check_writable(arguments.json)
    absent = arguments.benchmark == "compile"
    device = _module("compile").absent_device(arguments) if absent else common.device_description()
    print(f"{device['platform']}: {device['kind']}, {device['count']} device(s)")
    names = ALL if arguments.benchmark == "all" else (arguments.benchmark,)
    results = {}
    for name in names:
        own = arguments if arguments.benchmark == name else _parse(_same_preset(name, arguments))
        if len(names) > 1:
            print(f"\n{name}", flush=True)
        rows = _module(name).run(own)
        common.print_table(rows)
        outside = ("benchmark", "compare", "tolerance", "json")
        settings = {key: value for key, value in vars(own).items() if key not in outside}
        results[name] = common.Result(settings, rows)
    if arguments.json:
        common.write_json(arguments.json, results, device)
    if absent:
        _module("compile").check(results["compile"].rows)


def _parse(words: Sequence[str], prog: str | None = None) -> argparse.Namespace:
    parser, commands = _parser(prog)
    arguments = parser.parse_args(words)
    if arguments.compare is None and arguments.benchmark is None:
        parser.error("expected a benchmark, or --compare A.json B.json")
    if arguments.benchmark in SUBCOMMANDS and getattr(arguments, "preset", None):
        # Presets are defaults, so that an option beside them wins; hence a second look.
        commands[arguments.benchmark].set_defaults(**PRESETS[arguments.preset][arguments.benchmark])
        arguments = parser.parse_args(words)
    for name, value in vars(arguments).items():
        for one in value if isinstance(value, list) else [value]:
            if type(one) is int and one < 1:  # a size, or how often
                parser.error(f"--{name.replace('_', '-')}: expected a number above 0, found {one}")
    return arguments


def _parser(prog: str | None) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser, and that of every benchmark."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = command_parser(prog, DESCRIPTION, EXAMPLE)
    parser.add_argument(
        "--compare", nargs=2, metavar=("A.json", "B.json"), help="ratios of two reports, B over A"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.1,
        help="with --compare: growth of a time that is no regression yet (default: 0.1); the exit "
        "code is 1 if there is a regression",
    )
    commands = {}
    choices = parser.add_subparsers(dest="benchmark")
    for name in SUBCOMMANDS:
        text = _docstring(name)
        commands[name] = choices.add_parser(
            name, help=text.splitlines()[0], description=text, formatter_class=layout
        )
        ADD[name](commands[name])
    commands["all"] = choices.add_parser("all", help=f"{', '.join(ALL)}, one after another")
    for name, command in commands.items():
        if name != "compile":  # its sizes are the paper's, or a configuration's
            command.add_argument("--preset", choices=list(PRESETS), help="sizes; see sizes.py")
        command.add_argument(
            "--json", type=Path, metavar="FILE", help="also write the rows to this file"
        )
    return parser, commands


def _docstring(name: str) -> str:
    """What a benchmark says of itself, without importing it."""
    spec = importlib.util.find_spec(f"crabjax.benchmarks.{name}")
    assert spec is not None
    assert spec.origin is not None
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"crabjax.benchmarks.{name}")


def _same_preset(name: str, arguments: argparse.Namespace) -> list[str]:
    return [name, *(["--preset", arguments.preset] if arguments.preset else [])]


def _compare(before: str, after: str, tolerance: float) -> int:
    from crabjax.benchmarks import common, compare

    try:
        reports = compare.read_report(before), compare.read_report(after)
        found = compare.compare_reports(*reports, tolerance)
    except compare.CompareError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for note in found.notes:
        print(f"note: {note}")
    common.print_table(found.rows)
    if found.regressions:
        print(f"{found.regressions} row(s) slower by more than {tolerance:.0%} and the spreads")
    return 1 if found.regressions else 0
