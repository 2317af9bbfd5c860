"""The demonstration: crabjax demo"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from crabjax.cli.common import add_talk, command_parser, run_command
from crabjax.cli.train import train
from crabjax.progress import tell

DESCRIPTION = """\
Compares CRAB with random picks on a built-in corpus. Needs no data and no network, and takes about
a minute on two cores; the second time less, as compiled programs are kept."""

NEXT = """
What the numbers say: {meaning}
next:
  crabjax report {folder} --output report      a page with curves, differences and their intervals
  crabjax train --config demo.yaml --set strategy.name=crab,besra,mmc --output runs/more
  crabjax init --help                        label texts of your own"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Runs ``demo.yaml`` and says what to do next."""
    parser = command_parser(prog, DESCRIPTION, "  %(prog)s")
    parser.add_argument(
        "--output", type=Path, default=Path("runs/demo"), help="folder (default: %(default)s)"
    )
    parser.add_argument("--fresh", action="store_true", help="delete an earlier demo there first")
    add_talk(parser)
    arguments = parser.parse_args(argv)
    arguments.config, arguments.overrides, arguments.only = ["demo.yaml"], [], None

    def work() -> None:
        train(arguments)
        folder: Path = arguments.output
        said = NEXT.format(folder=shlex.quote(str(folder)), meaning=meaning(folder))
        tell(said, minor=True)

    stopped = "every finished round is saved: `crabjax demo` goes on from there"
    return run_command(work, stopped, arguments)


def meaning(folder: Path) -> str:
    """What the areas in the folder of a finished demo say, in a sentence."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    crab, random = (
        summary[name]["decided_micro_f1"]["area"]["mean"] for name in ("crab", "random")
    )
    areas = f"(area {crab:.4f} against {random:.4f} of random picks)"
    if crab > random:
        return f"with the same number of labels, CRAB's classifier has the higher F1 {areas}."
    return f"CRAB's classifier has no higher F1 here than that of random picks {areas}."
