"""What every command does the same way: warnings, errors and Ctrl-C in a line, and small types."""

import argparse
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from crabjax.cli.interrupt import STATUS, interruptible
from crabjax.progress import Kind, shown

# The extra that brings a package which is not always installed.
EXTRAS = {"torch": "torch", "pyarrow": "parquet"}


def command_parser(
    prog: str | None, description: str, example: str, **options
) -> argparse.ArgumentParser:
    """A parser whose help ends with an example; ``%(prog)s`` in it is the command as typed."""
    return argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **options,
    )


def run_command(
    work: Callable[[], None], when_stopped: str, options: argparse.Namespace | None = None
) -> int:
    """Does the work of a command; the exit status.

    Args:
      work: raises ValueError, RuntimeError, OSError or ImportError for what the user can mend.
      when_stopped: what to say of the state of things after Ctrl-C.
      options: with those of :func:`add_talk`, if the command has them.
    """
    with shown(_kind(options)) as display:
        say = lambda text: display.say(text, sys.stderr)
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        return _answered(work, lambda: say(f"\nstopped; {when_stopped}"), say)


def _answered(
    work: Callable[[], None], stopped: Callable[[], None], say: Callable[[str], None]
) -> int:
    with interruptible(stopped) as heard:
        try:
            work()
        except BrokenPipeError:
            # Whoever read the output (`| head`) has gone; nobody is left to tell.
            sys.stdout = None
            return 1
        except (KeyboardInterrupt, ValueError, RuntimeError, OSError, ImportError) as error:
            # A library that is interrupted half-way, as while it is imported, may fail otherwise.
            if isinstance(error, KeyboardInterrupt) or heard.is_set():
                stopped()
                return STATUS
            say(f"error: {_in_words(error)}")
            return 1
    return 0


def add_talk(parser: argparse.ArgumentParser) -> None:
    """The options ``--quiet`` and ``--json``."""
    talk = parser.add_mutually_exclusive_group()
    talk.add_argument("--quiet", action="store_true", help="print results only, no progress")
    talk.add_argument("--json", action="store_true", help="print JSON, an object a line")


def _kind(options: argparse.Namespace | None) -> Kind | None:
    if getattr(options, "quiet", False):
        return "quiet"
    return "json" if getattr(options, "json", None) is True else None


def _in_words(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        package = error.name.partition(".")[0]
        extra = f"crabjax[{EXTRAS[package]}]" if package in EXTRAS else package
        return f"{package} is not installed; pip install '{extra}'"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


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


def seed_number(text: str) -> int:
    """An argument that seeds a random draw."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number >= 0, found {text!r}")
    return int(text)


def ratio(text: str) -> float:
    """An argument that is an imbalance, 1 or above."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number >= 1, found {text!r}")
    return value


def new_folder(text: str) -> Path:
    """An argument that is, or can become, a folder."""
    path = Path(text)
    for part in (path, *path.parents):
        if part.exists() and not part.is_dir():
            raise argparse.ArgumentTypeError(f"expected a folder, found a file: {part}")
    return path
