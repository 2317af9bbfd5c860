"""Comparing reports, the roofline's arithmetic, growth: pure functions of numbers."""

import json

import pytest

from crabjax.benchmarks import common, compare
from crabjax.benchmarks.clock import covered
from crabjax.benchmarks.roofline import Peaks, Work, roofline
from crabjax.benchmarks.scaling import Growth, draw_growth, fit_growth, verdict
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
    bound = {"nearer bound": "memory"}
    found = compare.compare_reports(
        report(small, large), report(large | bound, small, row(1.0, what="dense")), 0.1
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


def test_the_roofline_names_the_nearer_bound():
    peaks = Peaks(gflops=100.0, gbytes=10.0)
    slow_memory = roofline(Work(flops=2e9, bytes=4e9), seconds=1.0, peaks=peaks)
    assert slow_memory == {
        "GFLOP/s": 2.0, "GB/s": 4.0, "of peak": 0.4, "nearer bound": "memory",
    }  # fmt: skip
    arithmetic = roofline(Work(flops=1e11, bytes=1e9).times(0.5), seconds=1.0, peaks=peaks)
    assert arithmetic["nearer bound"] == "compute"
    assert arithmetic["of peak"] == 0.5
    assert set(roofline(None, 1.0, peaks).values()) == {None}


def test_time_in_several_threads_counts_once():
    assert covered([]) == 0
    assert covered([(0, 2), (1, 3), (1, 1.5), (5, 6)]) == 4


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_growth_is_the_slope_of_the_logarithms(exponent):
    sizes = [3, 6, 12, 24]
    growth = fit_growth(sizes, [0.1 * size**exponent for size in sizes])
    assert growth.exponent == pytest.approx(exponent)
    assert growth.error == pytest.approx(0, abs=1e-7)
    assert fit_growth(sizes, [1.0, 2.2, 3.8, 8.1]).error > 0.01


def test_growth_in_words():
    assert verdict(Growth(1.1, 0.0), 0.15) == "linear"
    assert verdict(Growth(0.4, 0.0), 0.15) == "less than linear"
    assert verdict(Growth(1.2, 0.1), 0.15) == "MORE THAN LINEAR"
    assert verdict(Growth(1.0, 0.2), 0.15) == "unclear"


def test_growth_is_drawn(tmp_path):
    path = tmp_path / "new" / "growth.png"
    draw_growth({("score", "X"): ([1, 2], [1.0, 2.0]), ("fit", "N"): ([4, 8], [1.0, 1.9])}, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_presets_have_sizes_for_every_benchmark():
    assert len({frozenset(preset) for preset in PRESETS.values()}) == 1
