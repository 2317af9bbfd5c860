"""What every command does the same way: warnings, errors and Ctrl-C in a line, and small types."""

import argparse
import sys
import warnings
from collections.abc import Callable

from crabjax.cli.interrupt import STATUS, interruptible

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


def run_command(work: Callable[[], None], when_stopped: str) -> int:
    """Does the work of a command; the exit status.

    Args:
      work: raises ValueError, RuntimeError, OSError or ImportError for what the user can mend.
      when_stopped: what to say of the state of things after Ctrl-C.
    """
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    stopped = lambda: print(f"\nstopped; {when_stopped}", file=sys.stderr, flush=True)
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
            print(f"error: {_in_words(error)}", file=sys.stderr)
            return 1
    return 0


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
