"""The README's labelling walk, command by command, and what the script says to mistakes."""

import csv
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "query.py"


def readme_commands():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Label your own texts")[1]
    lines = section.split("\n## ")[0].splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """A folder like a checkout, in which the README's commands have run."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "scripts").symlink_to(ROOT / "scripts")
    (folder / ".venv/bin").mkdir(parents=True)
    python = folder / ".venv/bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    environment = os.environ | {"CRABJAX_CACHE": str(folder / "cache")}
    done = subprocess.run(
        ["bash", "-e", "-c", readme_commands()],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_the_readme_section_is_short():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Label your own texts")[1]
    assert len(section.split("\n## ")[0].splitlines()) <= 30


def test_the_walk_says_what_happens(walked):
    _, output = walked
    assert "labelling: 500 documents, 6 labels" in output
    assert output.count("to_label.jsonl: 40 documents to label") == 2
    assert output.count("chosen to cover all of them") == 1  # only the first is a cold start
    assert output.count("added 40 labelled and 0 skipped documents") == 2
    assert "80 labelled (16%)" in output
    assert "hint: 40 to 80 labelled documents" in output


def test_the_walk_leaves_predictions_and_a_picture(walked):
    folder, _ = walked
    with (folder / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 500
    assert sum(row["by"] == "person" for row in rows) == 80
    assert (folder / "labelling/progress.png").read_bytes().startswith(b"\x89PNG")
    assert len((folder / "labelling/labels.jsonl").read_text().splitlines()) == 80


def test_mistakes_are_one_message_and_change_nothing(walked):
    folder, _ = walked
    before = (folder / "labelling/labels.jsonl").read_bytes()
    (folder / "wrong.csv").write_text("id,labels\n1,root0\n9999,root0\n2,rot1\n")
    done = subprocess.run(
        [sys.executable, SCRIPT, "add", "wrong.csv"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert 'wrong.csv:3: unknown id "9999"' in done.stderr
    assert 'wrong.csv:4: unknown label "rot1"; did you mean "root1"?' in done.stderr
    assert "nothing was added" in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "labelling/labels.jsonl").read_bytes() == before
