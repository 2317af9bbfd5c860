"""What a person sees while a run goes on: the phase under way, and a table row per round."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from crabjax.progress import doing, tell
from crabjax.report.records import DECIDED, Record, mean_and_error, value_of

COLUMNS = ("round", "labelled", "micro-F1", "macro-F1", "fit s", "predict s", "query s")
_WIDTHS = (5, 8, 13, 13, 8, 9, 8)


class Progress:
    """Times the phases of a round, and says which is under way."""

    def __init__(self, title: str, rounds: int):
        self._title, self._rounds = title, rounds
        self._round_seconds: list[float] = []
        self.seconds: dict[str, float] = {}
        self.current = ""  # the phase under way

    @contextmanager
    def round(self, number: int) -> Iterator[None]:
        """Brackets one round; ``seconds`` starts empty."""
        self.seconds = {}
        self._number = number
        start = time.perf_counter()
        yield
        self._round_seconds.append(time.perf_counter() - start)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Brackets one phase; its wall time is added to ``seconds[name]``."""
        self.current = name
        start = time.perf_counter()
        place = f"round {self._number} of {self._rounds}"
        with doing(f"{self._title}, {place}, {name}{self._time_left()}", f"{self._title} {name}"):
            yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def header(self, records: Sequence[Record] = ()) -> None:
        """Prints the title, the column names, and the rounds of an earlier start."""
        tell(self._title, minor=True)
        self._rows = 0
        for number in sorted({record["round"] for record in records}):
            of_round = [record for record in records if record["round"] == number]
            seconds = {
                name: sum(record["seconds"].get(name, 0.0) for record in of_round)
                for name in of_round[0]["seconds"]
            }
            self._columns()
            tell(_row(of_round, seconds), minor=True)

    def row(self, records: Sequence[Record]) -> str:
        """Prints, and returns, the result of the round: mean and standard error over seeds."""
        text = _row(records, self.seconds)
        means = {
            name: sum(value_of(record, name) for record in records) / len(records)
            for name in DECIDED
        }
        self._columns()
        facts = {"run": self._title, "round": self._number, "labelled": records[0]["labelled"]}
        tell(text, minor=True, event="round", **facts, **means, seconds=self.seconds)
        return text

    def _columns(self) -> None:
        """The names of columns come with the first row, if there is one."""
        if self._rows == 0:
            tell(_aligned(COLUMNS), minor=True)
        self._rows += 1

    def _time_left(self) -> str:
        if not self._round_seconds:
            return ""
        # The first round carries the compilation, so later ones tell more.
        seen = self._round_seconds[1:] or self._round_seconds
        left = sum(seen) / len(seen) * (self._rounds - self._number + 1)
        return f", about {left / 60:.0f} min left" if left > 90 else f", about {left:.0f} s left"


def _row(records: Sequence[Record], seconds: Mapping[str, float]) -> str:
    scores = [
        mean_and_error([value_of(record, one) for record in records], digits=3) for one in DECIDED
    ]
    times = [f"{seconds.get(name, 0.0):.1f}" for name in ("fit", "predict", "query")]
    return _aligned((str(records[0]["round"]), str(records[0]["labelled"]), *scores, *times))


def _aligned(cells: Sequence[str]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS))
