"""The report page: whole, and true to the records."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from crabjax.records import write_records
from crabjax.report_page import write_report

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "report.py"


def run(name, lift, seeds=3):
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
            "seconds": {"query": 0.1},
        }
        for r in range(3)
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
    assert "+0.1000 [+0.1000, +0.1000], p = 0.000" in text
    assert "<td>25</td>" in text  # crab reaches random's final 0.41 halfway in its last round


def test_several_data_sets_are_compared_first(tmp_path):
    runs = {"crab": run("crab", 0.1), "random": run("random", 0.0)}
    level = {"crab": run("crab", 0.0), "random": run("random", 0.0)}
    text = write_report({"one": runs, "two": level}, tmp_path).read_text(encoding="utf-8")
    table = re.search(r"Area, test micro-F1.*?</table>", text).group()
    assert "<td>crab</td><td>0.3100 (+0.1000*)</td><td>0.2100 (+0.0000)</td>" in table
    assert "<td>random</td><td>0.2100</td><td>0.2100</td>" in table
    assert (tmp_path / "all_macro_f1.png").stat().st_size > 10_000


def rows_of_areas(page):
    table = re.search(r"Area under the learning curve.*?</table>", page.read_text()).group()
    return re.findall(r"<tr><td>(\w+)</td>", table)


def test_the_script_finds_runs_below_a_folder(tmp_path):
    for name in ("bald", "besra", "crab", "random"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        write_records(tmp_path / "runs" / name / "records.jsonl", run(name, 0.0, seeds=1))
    command = [sys.executable, SCRIPT, tmp_path / "runs", "--output", tmp_path / "out"]
    subprocess.run(command, check=True, capture_output=True)
    assert "too few seeds" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
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
