"""What every command does the same way: warnings, errors and Ctrl-C in a line, and small types."""

import argparse
import sys
import warnings
from collections.abc import Callable


def run_command(work: Callable[[], None], when_stopped: str) -> int:
    """Does the work of a command; the exit status.

    Args:
      work: raises ValueError, RuntimeError or OSError for what the user can mend.
      when_stopped: what to say of the state of things after Ctrl-C.
    """
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        work()
    except KeyboardInterrupt:
        print(f"\nstopped; {when_stopped}", file=sys.stderr)
        return 130
    except (ValueError, RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def add_overrides(parser: argparse.ArgumentParser, note: str = "") -> None:
    """The option ``--set``, which may be repeated."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        dest="overrides",
        help=f"change a setting; {note}may be repeated",
    )


def whole_number(text: str) -> int:
    """An argument that counts something."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!r}")
    return int(text)
