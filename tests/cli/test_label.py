"""The README's labelling walk, command by command, and what the script says to mistakes."""

import csv
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "query.py"


def readme_commands():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Label your own texts")[1]
    lines = section.split("\n## ")[0].splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))


def run(folder, *command, check=True, timeout=500):
    environment = os.environ | {"CRABJAX_CACHE": str(folder / "cache")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0 or not check, done.stderr
    return done


def query(folder, *arguments, check=True):
    return run(folder, sys.executable, SCRIPT, *arguments, check=check)


def answer(folder, name):
    """Fills in the column of labels: what the text's first word says."""
    with (folder / name).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["labels"] = row["text"].split()[0].replace("neither", "-")
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder in which every command ran once, on a tiny model, and what each said."""
    folder = tmp_path_factory.mktemp("project")
    words = ("red", "blue", "neither")
    lines = [f"{words[n % 3]} word{n % 7} word{n % 11}" for n in range(90)]
    (folder / "pool.csv").write_text("\n".join(["text", *lines]))
    tiny = ("model.kernels=4", "model.embedding=4", "model.widths=2", "ensemble.epochs=5")
    settings = [part for one in tiny for part in ("--set", one)]
    said = [query(folder, "init", "--texts", "pool.csv", "--labels", "red, blue", *settings)]
    said.append(query(folder, "suggest", "-n", "40", "--output", "first.csv"))
    answer(folder, "first.csv")
    said.append(query(folder, "add", "first.csv"))
    said.append(query(folder, "status"))
    said.append(query(folder, "suggest", "-n", "10", "--output", "tasks.json"))
    said.append(query(folder, "predict", "--output", "predictions.csv"))
    return folder, [done.stdout for done in said]


def test_every_command_says_what_it_did(project):
    folder, (init, first, add, status, second, predict) = project
    assert "labelling: 90 documents, 2 labels" in init
    assert "labels: red; blue" in init
    assert "first.csv: 40 documents to label" in first
    assert "half of these cover all documents" in first
    assert "added 40 labelled and 0 skipped documents" in add
    assert "40 labelled (44%), 0 skipped, 50 without an answer" in status
    assert "hint: 20 to 40 labelled documents" in status
    assert "tasks.json: 10 documents to label" in second
    assert "label_studio.xml" in second
    assert "predictions.csv: 90 documents, 40 by a person" in predict
    assert (folder / "labelling/progress.png").read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_one_message_and_change_nothing(project):
    folder, _ = project
    before = (folder / "labelling/labels.jsonl").read_bytes()
    (folder / "wrong.csv").write_text("id,labels\n9999,red\n2,bleu\n")
    done = query(folder, "add", "wrong.csv", check=False)
    assert done.returncode == 1
    assert 'wrong.csv:2: unknown id "9999"' in done.stderr
    assert 'wrong.csv:3: unknown label "bleu"; did you mean "blue"?' in done.stderr
    assert "nothing was added" in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "labelling/labels.jsonl").read_bytes() == before


def test_label_names_are_read_as_csv_and_printed(tmp_path):
    (tmp_path / "pool.csv").write_text("text\none two\none two\nthree\n")
    (tmp_path / "names.txt").write_text("news, world\n\nCafe\u0301\n", encoding="utf-8")
    begin = ("init", "--texts", "pool.csv", "--project")
    done = query(tmp_path, *begin, "a", "--labels", '"news, world", sport')
    assert "labels: news, world; sport" in done.stdout
    assert "1 texts equal an earlier one and share its answers; 0 are empty" in done.stdout
    done = query(tmp_path, *begin, "b", "--labels-file", "names.txt", "--json")
    assert json.loads(done.stdout)["labels"] == ["news, world", "Caf\xe9"]


def test_the_readme_section_is_short():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Label your own texts")[1]
    assert len(section.split("\n## ")[0].splitlines()) <= 30


@pytest.mark.slow
def test_the_readme_walk(tmp_path):
    commands = {"python": sys.executable, "crabjax": f"{sys.executable} -m crabjax"}
    for name, command in commands.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)
    script = f'PATH="$PWD/bin:$PATH"; export PYTHONPATH="{ROOT}"\n{readme_commands()}'
    # Five minutes of processor time were seen; the limit is for a walk that hangs.
    output = run(tmp_path, "bash", "-e", "-c", script, timeout=1800).stdout
    assert output.count("to_label.jsonl: 40 documents to label") == 2
    assert output.count("half of these cover all documents") == 1  # only the first is a cold start
    assert output.count("added 40 labelled and 0 skipped documents") == 2
    assert "80 labelled (16%)" in output
    assert "hint: 40 to 80 labelled documents" in output
    with (tmp_path / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["by"] == "person" for row in rows) == 80
    assert (tmp_path / "labelling/progress.png").read_bytes().startswith(b"\x89PNG")
