"""The ``crabjax`` command: finds the subcommand, and loads no other.

Nothing here or at the head of the other files of this folder imports JAX, so that help and mistakes
in the arguments are answered at once.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib import metadata

# By subcommand: the file of this folder that runs it, and a line of help.
COMMANDS = {
    "demo": ("demo", "CRAB against random picks on a built-in corpus: a table and a picture"),
    "train": ("train", "run an experiment that a configuration describes"),
    "report": ("report", "compare finished runs: one HTML page, or Markdown tables"),
    "prepare": ("prepare", "make data sets from raw files, and describe them"),
    "devices": ("devices", "what JAX finds here, and how a run would use it"),
    "benchmark": ("benchmark", "time crabjax on this machine"),
    "init": ("label", "label your own texts: make a project from a file of them"),
    "suggest": ("label", "write the documents to label next"),
    "add": ("label", "keep the labels of a file"),
    "status": ("label", "where a project stands, and whether to go on"),
    "predict": ("label", "write labels of all documents"),
}

INTRODUCTION = """\
Multi-label active learning on text: which documents to label next.

commands:
{commands}
`crabjax COMMAND --help` has the options and an example of each.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    found = parser.parse_args(words)
    if found.command is None:
        parser.print_help()
        return 0
    if found.command not in COMMANDS:
        from crabjax.files import did_you_mean

        hint = did_you_mean(found.command, COMMANDS, f"there are {', '.join(COMMANDS)}")
        parser.error(f"no command {found.command!r}{hint}")
    file, _ = COMMANDS[found.command]
    module = importlib.import_module(f"crabjax.cli.{file}")
    if file == "label":  # one parser for a project's five commands
        return module.main([found.command, *found.arguments], prog="crabjax")
    return module.main(found.arguments, prog=f"crabjax {found.command}")


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    commands = "".join(f"  {name:{width}}  {text}\n" for name, (_, text) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="crabjax",
        usage="crabjax [-h] [--version] COMMAND ...",
        description=INTRODUCTION.format(commands=commands),
        epilog="Begin with: crabjax demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = f"crabjax {metadata.version('crabjax')}"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser
