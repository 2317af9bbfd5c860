"""What is going on, said while it goes on.

Work that may take seconds is bracketed by ``with doing("..."):``, or its function decorated with
the same. Nobody hears of it until a command asks to with :func:`shown`: then one line that updates
on a terminal, and off a terminal a line for each kind of step that takes longer than two seconds,
the first time that it does. That a program is being compiled is heard from JAX itself.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TextIO

PATIENCE = 2.0  # seconds that pass without a word
REMINDER = 20.0  # seconds after which, off a terminal, one may hear again how far it is
COMPILING = "compiling, once: the program is kept for the next start"

Kind = Literal["live", "lines", "json", "quiet"]


class _Step:
    def __init__(self, text: str, kind: str | None = None):
        self.text, self.kind, self.start = text, kind or text, time.monotonic()


class Display:
    """Shows the steps under way; see :func:`shown`."""

    def __init__(self, kind: Kind, stream: TextIO):
        self.kind, self._stream = kind, stream
        self._steps: list[_Step] = []
        self._compiling: list[_Step] = []
        self._lock = threading.RLock()
        self._drawn = False
        self._said: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self, text: str, kind: str | None = None) -> _Step:
        """Adds a step, inside of those that are under way."""
        step = _Step(text, kind)
        with self._lock:
            self._steps.append(step)
        return step

    def end(self, step: _Step) -> None:
        """Removes it."""
        with self._lock:
            self._steps.remove(step)
            self._clear()

    def say(self, text: str, stream: TextIO | None = None) -> None:
        """Prints a line that stays, above the one that updates."""
        with self._lock:
            self._clear()
            print(text, file=stream, flush=True)

    def compiling(self, more: int) -> None:
        """Counts programs that are being compiled, one up or one down."""
        with self._lock:
            if more > 0:
                self._compiling.append(_Step(COMPILING))
            elif self._compiling:
                self._compiling.pop(0)

    def __enter__(self) -> "Display":
        if self.kind != "quiet":
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._clear()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            with self._lock:
                if self.kind == "live":
                    self._draw()
                else:
                    self._mention()

    def _draw(self) -> None:
        steps = [*self._steps, *self._compiling[:1]]
        if steps and _age(self._steps[0] if self._steps else steps[0]) > 0.3:
            text = ": ".join(step.text for step in steps)
            self._stream.write(f"\r\x1b[K{text}, {_age(steps[-1]):.0f} s")
            self._stream.flush()
            self._drawn = True

    def _mention(self) -> None:
        for step in (*self._steps, *self._compiling[:1]):
            if step.kind not in self._said and _age(step) > PATIENCE:
                self._said.add(step.kind)
                words = {"event": "step", "text": step.text}
                print(
                    json.dumps(words) if self.kind == "json" else f"{step.text} ...",
                    file=self._stream,
                    flush=True,
                )

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False


_display: Display | None = None
_listening = False


@contextmanager
def shown(kind: Kind | None = None, stream: TextIO | None = None) -> Iterator[Display]:
    """Says what the work inside the block does.

    Args:
      kind: "live", one line that updates; "lines", a line a step; "json", the same as JSON;
        "quiet", nothing; None for a live line on a terminal and lines off it.
      stream: where to; stderr unless told otherwise.
    """
    global _display
    to: TextIO = stream or sys.stderr
    before = _display
    with Display(kind or ("live" if to.isatty() else "lines"), to) as _display:
        try:
            yield _display
        finally:
            _display = before


@contextmanager
def doing(text: str, kind: str | None = None) -> Iterator[_Step | None]:
    """Says, while the block runs, what it does; also a decorator.

    Args:
      text: what is going on.
      kind: steps of one kind are a line once, off a terminal; the text unless told otherwise.
    """
    display = _display
    if display is None or not heard():
        yield None
        return
    _listen()
    step = display.begin(text, kind)
    try:
        yield step
    finally:
        display.end(step)


@contextmanager
def counting(text: str, total: int, done: int = 0) -> Iterator[Callable[..., None]]:
    """Like :func:`doing`, and says how far it is and about how long the rest takes.

    Args:
      text: what is going on.
      total: how many there are.
      done: how many were done before.

    Yields:
      A function to call with how many more are done, and a note on the one under way if there is
      something to say of it. Off a terminal a tenth is a line, of work that lasts.
    """
    with doing(text) as step:
        first, start = done, time.monotonic()

        def advance(more: int, note: str = "") -> None:
            nonlocal done
            done += more
            if step is not None:
                spent = time.monotonic() - start
                left = (total - done) * spent / max(done - first, 1)
                until = f", about {_in_words(left)} left" if done > first else ""
                step.text = f"{text}: {done:,} of {total:,}{until}{note and ', ' + note}"
                step.kind = f"{text} {min(10 * done // max(total, 1), int(spent / REMINDER))}"

        yield advance


def heard() -> bool:
    """Whether somebody hears what is going on."""
    return _display is not None and _display.kind != "quiet"


def tell(text: str, *, minor: bool = False, **facts: object) -> None:
    """Prints a result: the text, or with ``--json`` the facts, if there are any.

    Args:
      text: for people.
      minor: left out with ``--quiet``.
      facts: the same for machines, as one JSON object.
    """
    if _display is None:
        print(text, flush=True)
    elif _display.kind == "json":
        if facts:
            _display.say(json.dumps(facts))
    elif not (minor and _display.kind == "quiet"):
        _display.say(text)


def _in_words(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _age(step: _Step) -> float:
    return time.monotonic() - step.start


def _listen() -> None:
    """Asks JAX, once it is loaded, to say when it compiles."""
    global _listening
    if _listening or "jax" not in sys.modules:
        return
    _listening = True
    from jax import monitoring

    def asked(event: str, **_: object) -> None:
        if event.endswith("/compile_requests_use_cache") and _display is not None:
            _display.compiling(+1)

    def answered(event: str, duration_secs: float, **_: object) -> None:
        if event.endswith("/backend_compile_duration") and _display is not None:
            _display.compiling(-1)

    monitoring.register_event_listener(asked)
    monitoring.register_event_duration_secs_listener(answered)
