"""The report page: whole, and true to the records."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from crabjax.report import tables
from crabjax.report.figures import draw_curves
from crabjax.report.page import write_report
from crabjax.report.records import write_records

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "report.py"


def run(name, lift, seeds=3, rounds=3):
    return [
        {
            "seed": seed,
            "round": r,
            "labelled": 10 * (r + 1),
            "strategy": name,
            "model": "text_cnn",
            "data": "a <b>",
            "micro_f1": 0.2 * r + 0.01 * seed + lift,
            "macro_f1": 0.1 * r,
            "mean_average_precision": 0.3,
            "selected": [1, 2] if r < 2 else [],
            "mean_ir_selected": 2.0 if r < 2 else None,
            "hard_left": 5,
            "negative_left": 1,
            "members": {"micro_f1": [0.1, 0.3]},
            "failed_epochs": [-1, 4 if r == 1 and seed == 0 else -1],
            "seconds": {"fit": 2.0, "query": 0.1 if r else 9.0},
        }
        for r in range(rounds)
        for seed in range(seeds)
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    runs = {"crab": run("crab", 0.1), "random": run("random", 0.0), "besra": run("besra", 0.1)}
    return write_report({"a <b>": runs}, tmp_path_factory.mktemp("report"))


def test_the_page_needs_no_other_file(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 2
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert "a &lt;b&gt;" in text
    assert "<b>" not in text


def test_its_tables_say_what_the_records_say(page):
    text = page.read_text(encoding="utf-8")
    assert "0.3100 ±0.0058" in text  # 0.2 + 0.01 + 0.1, seeds 0.01 apart
    assert "+0.1000 [+0.1000, +0.1000], p &lt; 0.001" in text
    assert "<td>25 [25, 25]</td>" in text  # crab reaches random's final 0.41 in its last round
    assert "<td>crab</td><td>2.00</td><td>0.00</td><td>0.10</td><td>0.2000</td><td>1</td>" in text


def test_a_shorter_run_stands_under_its_own_budgets():
    runs = {"crab": run("crab", 0.1, rounds=2), "random": run("random", 0.0)}
    table = tables.budgets(runs, "macro_f1")
    assert table.head == ["", "10", "20", "30"]
    assert [row[-1] for row in table.rows] == [tables.NOTHING, "0.200 ±0.000"]
    assert [row[1] for row in tables.areas(runs).rows] == ["-", "-"]  # of an earlier version
    ours = {name: [r | {"preset": "paper"} for r in records] for name, records in runs.items()}
    assert [row[1] for row in tables.areas(ours).rows] == ["paper", "paper"]
    assert [row[-2:] for row in tables.areas(runs).rows] == [["10 to 20", "3"], ["10 to 30", "3"]]
    (difference,) = tables.differences(runs, "random").rows
    assert difference[1].startswith("+0.1000 [")
    assert difference[-1] == "never [never, never]"


def test_without_random_the_first_run_is_the_measure():
    runs = {"whole": run("crab", 0.1), "without attention": run("crab", 0.0)}
    assert tables.references(runs) == ["whole"]
    assert tables.references(runs | {"random": run("random", 0.0)}) == ["random"]
    assert tables.references(runs, "without attention") == ["without attention"]
    with pytest.raises(ValueError, match="--reference crab: expected one of whole, without"):
        tables.references(runs, "crab")
    assert "difference to whole" in tables.overview({"a": runs}, "micro_f1").caption


def test_the_picture_shows_the_mean_its_spread_and_what_it_is(tmp_path):
    runs = {f"run {number}": run("crab", 0.1 * number) for number in range(12)}
    figure = draw_curves(runs, tmp_path / "a.png", ("decided_micro_f1", "mean_ir_selected"))
    first, second = figure.axes
    assert (first.get_xlabel(), first.get_ylabel()) == ("labelled documents", "test micro-F1")
    assert second.get_ylabel() == "MeanIR of the selected documents"
    line = first.lines[1]
    assert line.get_xdata().tolist() == [10, 20, 30]
    assert line.get_ydata() == pytest.approx([0.11, 0.31, 0.51])
    assert second.lines[1].get_xdata().tolist() == [10, 20]  # the last round selects nothing
    band = first.collections[1].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((0.11 - 0.00577, 0.51 + 0.00577), abs=1e-4)
    for look in ("get_color", "get_linestyle", "get_marker"):
        assert len({str(getattr(line, look)()) for line in first.lines[:4]}) == 4
    assert len({str(line.get_color()) for line in first.lines}) == 12


def test_several_data_sets_are_compared_first(tmp_path):
    runs = {"crab": run("crab", 0.1), "random": run("random", 0.0)}
    level = {"crab": run("crab", 0.0), "random": run("random", 0.0)}
    text = write_report({"one": runs, "two": level}, tmp_path).read_text(encoding="utf-8")
    table = re.search(r"Area, test micro-F1, and difference to random.*?</table>", text).group()
    assert "<td>crab</td><td>0.3100 (+0.1000*)</td><td>0.2100 (+0.0000)</td>" in table
    assert "<td>random</td><td>0.2100</td><td>0.2100</td>" in table
    assert "All data sets" in text
    assert (tmp_path / "all_decided_macro_f1.png").is_file()


def rows_of_areas(page):
    table = re.search(r"Area under the learning curve.*?</table>", page.read_text()).group()
    return re.findall(r"<tr><td>(\w+)</td>", table)


def test_the_script_finds_runs_below_a_folder(tmp_path):
    for name in ("bald", "besra", "crab", "random"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        write_records(tmp_path / "runs" / name / "records.jsonl", run(name, 0.0, seeds=1))
    command = [sys.executable, SCRIPT, tmp_path / "runs", "--output", tmp_path / "out"]
    subprocess.run(command, check=True, capture_output=True)
    assert "too little in common" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert rows_of_areas(tmp_path / "out" / "report.html") == ["crab", "random", "besra", "bald"]
    picked = subprocess.run(
        [*command, "--only", "random", "crb"], capture_output=True, text=True, check=False
    )
    assert "--only crb: a <b>, text_cnn has bald, besra, crab, random" in picked.stderr
    for only, shown in ((["random"], ["random"]), (["random", "crab"], ["random", "crab"])):
        subprocess.run([*command, "--only", *only], check=True, capture_output=True)
        assert rows_of_areas(tmp_path / "out" / "report.html") == shown
    command[2] = tmp_path / "out"
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "no records.jsonl in it or below it" in failed.stderr


def test_runs_of_one_name_are_told_apart_by_their_experiment(tmp_path):
    for place in ("first/crab", "first/random", "second/crab"):
        (tmp_path / place).mkdir(parents=True)
        write_records(tmp_path / place / "records.jsonl", run("crab", 0.0, seeds=2))
    command = [sys.executable, SCRIPT, tmp_path, "--output", tmp_path / "out"]
    subprocess.run([*command, "--reference", "first/crab"], check=True, capture_output=True)
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Difference of areas to first/crab" in text
    assert set(re.findall(r"<tr><td>([\w/]+)</td>", text)) == {
        "first/crab",
        "second/crab",
        "random",
    }
