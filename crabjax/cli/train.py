"""Runs active-learning experiments: python scripts/train_loop.py --config mimic.yaml"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from crabjax.cache import keep_compiled_programs
from crabjax.cli.common import add_overrides, run_command
from crabjax.config import load_variants
from crabjax.devices.processes import connect
from crabjax.experiments.variants import run_experiment
from crabjax.integrations.by_name import register_by_name


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the arguments and runs every variant of every config."""
    parser = argparse.ArgumentParser(
        description="Runs the active-learning experiment a config describes. A run that was "
        "stopped goes on where it was; a finished one is only reported.",
        epilog="Example: python scripts/train_loop.py --config rcv1_textcnn.yaml "
        "--set strategy.name=crab,besra,random --set loop.seeds=0,1",
    )
    parser.add_argument(
        "--config", nargs="+", default=["demo.yaml"], help="files, or names in configs/"
    )
    add_overrides(parser, "lists as 0,1,2; strategy.name=a,b runs both; ")
    parser.add_argument("--output", type=Path, help="folder to write to (default: runs/NAME)")
    parser.add_argument(
        "--only", nargs="+", metavar="VARIANT", help="run only these variants of the config"
    )
    parser.add_argument("--fresh", action="store_true", help="delete an earlier run there first")
    arguments = parser.parse_args(argv)
    keep_compiled_programs()

    def work() -> None:
        experiments = {name: load_variants(name, arguments.overrides) for name in arguments.config}
        for variants in experiments.values():
            for config in variants.values():
                register_by_name(config.strategy.name)
        connect(next(iter(experiments[arguments.config[0]].values())).devices)
        run_experiment(experiments, arguments.output, only=arguments.only, fresh=arguments.fresh)

    return run_command(work, "every finished round is saved: the same command goes on from there")
