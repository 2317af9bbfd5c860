"""What every command does the same way: warnings, errors and Ctrl-C in a line, and small types."""

import argparse
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crabjax.progress import Kind, shown

# The extra that brings a package which is not always installed.
EXTRAS = {"torch": "torch", "pyarrow": "parquet"}
_STOPPED = 130  # what shells expect of a command that Ctrl-C ended
_PATIENCE = 1.5  # seconds for an orderly end


def command_parser(prog: str | None, description: str, example: str) -> argparse.ArgumentParser:
    """A parser whose help ends with an example; ``%(prog)s`` in it is the command as typed."""
    return argparse.ArgumentParser(prog=prog, **_help(description, example))


def add_command(
    commands: Any, name: str, text: str, description: str, example: str
) -> argparse.ArgumentParser:
    """The same for one of several commands, with a line of text for the list of all."""
    return commands.add_parser(name, help=text, **_help(description, example))


def _help(description: str, example: str) -> dict[str, Any]:
    layout = argparse.RawDescriptionHelpFormatter
    return {"description": description, "epilog": f"example:\n{example}", "formatter_class": layout}


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
    with _interruptible(stopped) as heard:
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
                return _STOPPED
            say(f"error: {_in_words(error)}")
            return 1
    return 0


@contextmanager
def _interruptible(say: Callable[[], None]) -> Iterator[threading.Event]:
    """Ends the process within two seconds of Ctrl-C, also while XLA compiles, say.

    Python raises KeyboardInterrupt between two of its own instructions only. A thread that the
    system wakes at once waits a moment for that, and then leaves: what is on the disk is whole at
    any moment.

    Args:
      say: called before the process ends in this way.

    Yields:
      An event that is set once Ctrl-C was pressed.
    """
    heard = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    over = threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        while signals := os.read(reader, 64):
            if signal.SIGINT in signals and not over.wait(_PATIENCE):
                say()
                os._exit(_STOPPED)
        os.close(reader)

    def interrupt(*_) -> None:
        heard.set()
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGINT, interrupt)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield heard
    finally:
        over.set()
        signal.signal(signal.SIGINT, handler)
        signal.set_wakeup_fd(before)
        os.close(writer)


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
