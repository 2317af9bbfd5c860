"""What a person sees while a run goes on: one live line, and a table row per round."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from crabjax.report.records import DECIDED, Record, mean_and_error, value_of

COLUMNS = ("round", "labelled", "micro-F1", "macro-F1", "fit s", "predict s", "query s")


class Progress:
    """Times the phases of a round; draws a live line when the stream is a terminal."""

    def __init__(self, title: str, rounds: int, stream: TextIO | None = None):
        self._title, self._rounds = title, rounds
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._round_seconds: list[float] = []
        self.seconds: dict[str, float] = {}
        self.current = ""  # the phase under way
        self._rows = 0

    @contextmanager
    def round(self, number: int) -> Iterator[None]:
        """Brackets one round; ``seconds`` starts empty."""
        self.seconds = {}
        self._number = number
        start = time.perf_counter()
        yield
        self._round_seconds.append(time.perf_counter() - start)
        self._line("")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Brackets one phase; its wall time is added to ``seconds[name]``."""
        self._line(f"{self._title}: round {self._number}/{self._rounds}, {name}{self._time_left()}")
        self.current = name
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def header(self) -> None:
        """Prints the title; the names of columns come with the first row, if there is one."""
        print(self._title, file=self._stream)

    def row(self, records: Sequence[Record]) -> str:
        """Prints, and returns, the result of the round: mean and standard error over seeds."""
        scores = [
            mean_and_error([value_of(record, one) for record in records], digits=3)
            for one in DECIDED
        ]
        if self._rows == 0:
            self._row(COLUMNS)
        self._rows += 1
        times = [f"{self.seconds.get(name, 0.0):.1f}" for name in ("fit", "predict", "query")]
        return self._row((str(self._number), str(records[0]["labelled"]), *scores, *times))

    def _row(self, cells: Sequence[str]) -> str:
        widths = (5, 8, 13, 13, 8, 9, 8)
        text = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths))
        print(text, file=self._stream, flush=True)
        return text

    def _time_left(self) -> str:
        if not self._round_seconds:
            return ""
        # The first round carries the compilation, so later ones tell more.
        seen = self._round_seconds[1:] or self._round_seconds
        left = sum(seen) / len(seen) * (self._rounds - self._number + 1)
        return f", about {left / 60:.0f} min left" if left > 90 else f", about {left:.0f} s left"

    def _line(self, text: str) -> None:
        if self._live:
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)
