"""The table of rounds, the phase under way, and an earlier start shown again."""

import io
import json

from crabjax import progress as root
from crabjax.experiments.progress import Progress

RECORDS = [
    {"round": 1, "labelled": 30, "micro_f1": 0.5, "macro_f1": 0.2, "seconds": {"fit": 2.0}},
    {"round": 1, "labelled": 30, "micro_f1": 0.7, "macro_f1": 0.2, "seconds": {"fit": 2.0}},
]
ROW = ["1", "30", "0.600", "±0.100", "0.200", "±0.000"]


def two_rounds(records=()):
    progress, steps = Progress("corpus crab", 3), []
    progress.header(records)
    for number in range(2):
        with progress.round(number), progress.phase("fit"):
            steps += [step.text for step in root._display._steps] if root._display else []
        row = progress.row(RECORDS)
    return row, steps


def test_the_table_is_printed_a_line_a_round(capsys):
    row, _ = two_rounds()
    assert row.split()[:6] == ROW
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_the_step_tells_phase_and_time_left():
    with root.shown("lines", io.StringIO()):
        _, steps = two_rounds()
    assert steps == [
        "corpus crab, round 0 of 3, fit",
        "corpus crab, round 1 of 3, fit, about 0 s left",
    ]


def test_rounds_of_an_earlier_start_are_shown_again(capsys):
    Progress("corpus crab", 3).header(RECORDS)
    assert capsys.readouterr().out.splitlines()[2].split() == [*ROW, "4.0", "0.0", "0.0"]


def test_quiet_prints_no_rows_and_json_an_object_each(capsys):
    with root.shown("quiet", io.StringIO()):
        two_rounds()
    assert capsys.readouterr().out == ""
    with root.shown("json", io.StringIO()):
        two_rounds()
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["round"], first["decided_micro_f1"]) == (0, 0.6)
    assert second | {"seconds": {}} == {
        "event": "round",
        "run": "corpus crab",
        "round": 1,
        "labelled": 30,
        "decided_micro_f1": 0.6,
        "decided_macro_f1": 0.2,
        "seconds": {},
    }


def test_without_a_round_there_is_no_table(capsys):
    Progress("corpus crab", 3).header()
    assert capsys.readouterr().out == "corpus crab\n"


def test_phases_are_timed_by_name():
    progress = Progress("x", 1)
    with progress.round(0):
        for name in ("fit", "query", "fit"):
            with progress.phase(name):
                assert progress.current == name
    assert set(progress.seconds) == {"fit", "query"}
