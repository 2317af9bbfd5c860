"""Comparing reports: pure functions of numbers."""

import json

import pytest

from crabjax.benchmarks import common, compare
from crabjax.benchmarks.clock import covered
from crabjax.benchmarks.sizes import PRESETS
from crabjax.cli.benchmark import main

DEVICE = {"platform": "cpu", "kind": "one", "count": 1}


def report(*rows, device=DEVICE, **settings):
    benchmarks = {"scoring": {"settings": settings, "rows": list(rows)}}
    return {"device": device, "jax": "0.10", "benchmarks": benchmarks}


def row(seconds, spread: float | None = 0.1, what="kernel", **rest):
    return {"what": what, "labels": 20, "seconds": seconds, "spread": spread, **rest}


@pytest.mark.parametrize(
    ("before", "after", "mark"),
    [
        (row(1.0), row(1.05), ""),  # the ranges of repeats overlap
        (row(1.0), row(1.09, 0.02), "slower"),  # they do not, but it is within the tolerance
        (row(1.0), row(1.5), "REGRESSION"),
        (row(1.0, 1.0), row(1.5, 0.4), ""),  # half as slow again, and yet it may be noise
        (row(1.0), row(0.5), "faster"),
        (row(1.0, None), row(1.2, None), "REGRESSION"),  # without a spread the tolerance decides
    ],
)
def test_a_change_counts_beyond_the_spreads_a_regression_beyond_the_tolerance(before, after, mark):
    found = compare.compare_reports(report(before), report(after), tolerance=0.1)
    assert [one["mark"] for one in found.rows] == [mark]
    assert found.rows[0]["ratio"] == after["seconds"] / before["seconds"]
    assert found.regressions == (mark == "REGRESSION")


def test_rows_are_matched_by_name_and_sizes_whatever_their_order():
    small, large = row(1.0), row(8.0) | {"labels": 160}
    outcome = {"fits": "yes"}
    found = compare.compare_reports(
        report(small, large), report(large | outcome, small, row(1.0, what="dense")), 0.1
    )
    assert [one["ratio"] for one in found.rows] == [1.0, 1.0]
    assert found.notes == ["only in the second report: scoring dense labels=20"]


def test_other_devices_and_settings_are_said_and_other_devices_are_no_regression():
    other = DEVICE | {"kind": "two"}
    found = compare.compare_reports(
        report(row(1.0), alpha=0.1), report(row(3.0), device=other, alpha=0.2), 0.1
    )
    assert "the devices differ" in found.notes[0]
    assert found.notes[1] == "scoring: alpha differs: 0.1 and 0.2"
    assert found.regressions == 0
    assert found.rows[0]["mark"] == "slower"


def test_reports_without_a_common_row_are_refused():
    with pytest.raises(compare.CompareError, match="no row"):
        compare.compare_reports(report(row(1.0)), report(row(1.0, what="other")), 0.1)


def test_the_command_prints_ratios_and_exits_by_what_it_found(tmp_path, capsys):
    first, second, broken = (tmp_path / name for name in ("a.json", "b.json", "c.json"))
    first.write_text(json.dumps(report(row(1.0))))
    second.write_text(json.dumps(report(row(1.3))))
    broken.write_text("[]")
    assert main(["--compare", str(first), str(first)]) == 0
    assert main(["--compare", str(first), str(second)]) == 1
    assert "REGRESSION" in capsys.readouterr().out
    assert main(["--compare", str(first), str(second), "--tolerance", "0.5"]) == 0
    assert main(["--compare", str(second), str(first)]) == 0
    assert main(["--compare", str(first), str(broken)]) == 2
    assert "c.json" in capsys.readouterr().err
    assert main(["--compare", str(first), str(tmp_path / "missing.json")]) == 2


def test_a_written_report_is_read_back(tmp_path):
    path = tmp_path / "report.json"
    found = {"scoring": common.Result({"labels": 20}, [row(1.0)])}
    common.write_json(path, found, common.device_description())
    found = compare.read_report(path)
    assert found["benchmarks"]["scoring"] == {"settings": {"labels": 20}, "rows": [row(1.0)]}
    assert found["device"]["count"] >= 1


def test_time_in_several_threads_counts_once():
    assert covered([]) == 0
    assert covered([(0, 2), (1, 3), (1, 1.5), (5, 6)]) == 4


def test_presets_have_sizes_for_every_benchmark():
    assert len({frozenset(preset) for preset in PRESETS.values()}) == 1
