"""Every example in a help text works when it is typed, in the order of a first hour."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from crabjax.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
# These need files that not everybody has, or a network.
ELSEWHERE = ("--config mimic.yaml", "--raw FOLDER", "crabjax prepare hub")


def examples(*words):
    """The commands of a help text, each on one line, without remarks in brackets."""
    command = [sys.executable, "-m", "crabjax", *words, "--help"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    text = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
    shown = text.split("\nexample:\n")[1].replace("\\\n", "")
    found = re.findall(r"^  (crabjax .*)$", shown, re.MULTILINE)
    lines = [re.sub(r" {5}\(.*\)$", "", line) for line in found]
    return [line for line in lines if not any(one in line for one in ELSEWHERE)]


def first_hour():
    lines = [line for name in COMMANDS for line in examples(name)]
    lines += [
        line for name in ("synthetic", "resample", "stats") for line in examples("prepare", name)
    ]
    # One help may show again what another needs first: that is typed once.
    return list(dict.fromkeys(lines))


def answer(path):
    """What a person does between `suggest` and `add`: every document gets a label that it has."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        row["labels"] = f"root{number % 3}"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_every_command_shows_examples():
    lines = first_hour()
    for name in COMMANDS:
        assert any(line.startswith(f"crabjax {name}") for line in lines), name


@pytest.mark.slow
def test_examples_work_when_typed(tmp_path):
    command = tmp_path / "bin" / "crabjax"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m crabjax "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "CRABJAX_CACHE": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "1",
        "XLA_FLAGS": "",  # of the tests: whole runs are faster with LLVM's optimisations
    }
    place = tmp_path / "empty"
    place.mkdir()
    for line in first_hour():
        if line.startswith("crabjax benchmark"):
            continue  # tests/benchmarks runs them, at sizes that take less time
        if line.startswith("crabjax add"):
            answer(place / "to_label.csv")
        done = subprocess.run(
            line, shell=True, cwd=place, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    assert (place / "runs/demo/curve.png").is_file()
    assert (place / "report/report.html").is_file()
    assert (place / "predictions.csv").is_file()
