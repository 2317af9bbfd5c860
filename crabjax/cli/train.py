"""Runs active-learning experiments: crabjax train --config mimic.yaml"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from crabjax.cli.common import add_overrides, add_talk, command_parser, run_command
from crabjax.progress import doing

DESCRIPTION = """\
Runs the active-learning experiment a configuration describes. A run that was stopped goes on
where it was; a finished one is only reported."""

EXAMPLE = """\
  %(prog)s --config demo.yaml --set strategy.name=crab,besra,random --set loop.seeds=0,1 \\
      --output runs/mine
  %(prog)s --config mimic.yaml     (needs MIMIC-III, and a GPU)

`crabjax report runs/mine --output report` compares what was run."""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Parses the arguments and runs every variant of every configuration."""
    arguments = _parser(prog).parse_args(argv)
    return run_command(
        lambda: train(arguments),
        "every finished round is saved: the same command goes on from there",
        arguments,
    )


def train(arguments: argparse.Namespace) -> None:
    """Runs what the arguments describe."""
    from crabjax.config import load_variants

    experiments = {name: load_variants(name, arguments.overrides) for name in arguments.config}
    with doing("loading JAX"):
        from crabjax.devices.processes import connect
        from crabjax.experiments.variants import run_experiment
        from crabjax.files.cache import keep_compiled_programs
        from crabjax.integrations.by_name import register_by_name
    for variants in experiments.values():
        for config in variants.values():
            register_by_name(config.strategy.name)
    keep_compiled_programs()
    connect(next(iter(experiments[arguments.config[0]].values())).devices)
    run_experiment(experiments, arguments.output, only=arguments.only, fresh=arguments.fresh)


def _parser(prog: str | None) -> argparse.ArgumentParser:
    parser = command_parser(prog, DESCRIPTION, EXAMPLE)
    parser.add_argument(
        "--config",
        nargs="+",
        default=["demo.yaml"],
        help="files, or names of configurations that come with crabjax (default: demo.yaml)",
    )
    add_overrides(parser, "lists as 0,1,2; strategy.name=a,b runs both; ")
    parser.add_argument("--output", type=Path, help="folder to write to (default: runs/NAME)")
    parser.add_argument(
        "--only", nargs="+", metavar="VARIANT", help="run only these variants of the config"
    )
    parser.add_argument("--fresh", action="store_true", help="delete an earlier run there first")
    add_talk(parser)
    return parser
