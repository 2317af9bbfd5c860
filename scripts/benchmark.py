"""Runs one benchmark and prints its table: python scripts/benchmark.py scoring --json out.json."""

import argparse
import importlib

from crabjax.benchmarks import SUBCOMMANDS, common


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="benchmark", required=True)
    for name in SUBCOMMANDS:
        module = importlib.import_module(f"crabjax.benchmarks.{name}")
        summary = (module.__doc__ or name).splitlines()[0]
        command = commands.add_parser(name, help=summary, description=module.__doc__)
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        module.add_arguments(command)
        command.add_argument("--json", metavar="FILE", help="also write the rows to this file")
        command.set_defaults(run=module.run)
    arguments = parser.parse_args()
    device = common.device_description()
    print(f"{device['platform']}: {device['kind']}, {device['count']} device(s)")
    rows = arguments.run(arguments)
    common.print_table(rows)
    if arguments.json:
        settings = {k: v for k, v in vars(arguments).items() if k not in ("run", "json")}
        common.write_json(arguments.json, arguments.benchmark, settings, rows)


if __name__ == "__main__":
    main()
