"""The live line and the table, on a terminal and off it."""

import io

from crabjax.experiments.progress import Progress

RECORDS = [
    {"labelled": 30, "micro_f1": 0.5, "macro_f1": 0.2},
    {"labelled": 30, "micro_f1": 0.7, "macro_f1": 0.2},
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def two_rounds(stream):
    progress = Progress("corpus crab", 3, stream)
    progress.header()
    for number in range(2):
        with progress.round(number), progress.phase("fit"):
            pass
        row = progress.row(RECORDS)
    return row, stream.getvalue()


def test_off_a_terminal_only_the_table_is_printed():
    row, text = two_rounds(io.StringIO())
    assert "\r" not in text
    assert len(text.splitlines()) == 4
    assert row.split()[:6] == ["1", "30", "0.600", "±0.100", "0.200", "±0.000"]


def test_without_a_round_there_is_no_table():
    stream = io.StringIO()
    Progress("corpus crab", 3, stream).header()
    assert stream.getvalue() == "corpus crab\n"


def test_on_a_terminal_a_live_line_tells_phase_and_time_left():
    _, text = two_rounds(Terminal())
    assert "corpus crab: round 0/3, fit\r" in text
    assert "corpus crab: round 1/3, fit, about 0 s left\r" in text


def test_phases_are_timed_by_name():
    progress = Progress("x", 1, io.StringIO())
    with progress.round(0):
        for name in ("fit", "query", "fit"):
            with progress.phase(name):
                assert progress.current == name
    assert set(progress.seconds) == {"fit", "query"}
