"""The `crabjax` command as a hurried user meets it: help at once, mistakes in a line or two."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from crabjax.cli.main import COMMANDS
from crabjax.config import CONFIG_FOLDER

ROOT = Path(__file__).resolve().parents[2]
# What a parser may not load: it would be waited for by somebody who misspelt an option.
SLOW = ("jax", "scipy", "sklearn", "matplotlib", "transformers", "flax")


def crabjax(folder, *words):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CRABJAX_CACHE": str(folder / ".cache")}
    command = [sys.executable, "-m", "crabjax", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def loaded_by(*words):
    """What a command printed, its exit status, and the slow packages it imported."""
    code = f"""
import sys
from crabjax.cli.main import main
try:
    status = main({list(words)!r})
except SystemExit as stop:
    status = stop.code
print("status", status, [name for name in {SLOW!r} if name in sys.modules])
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_and_loads_nothing_slow(name):
    text = loaded_by(name, "--help").stdout
    assert text.endswith("status 0 []\n")
    assert f"usage: crabjax {name}" in text
    assert re.search(rf"^example:\n  crabjax (prepare synthetic|{name})", text, re.MULTILINE)


def test_help_and_mistakes_of_a_benchmark_load_nothing_slow():
    assert loaded_by("benchmark", "compile", "--help").stdout.endswith("status 0 []\n")
    done = loaded_by("benchmark", "fit", "--repeats", "0")
    assert done.stdout == "status 2 []\n"
    assert "--repeats: expected a number above 0, found 0" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_misspelt_option_is_told_at_once(name):
    done = loaded_by(name, "--nosuch")
    assert done.stdout == "status 2 []\n"
    assert re.search("--nosuch|required|expected", done.stderr)


def test_the_command_alone_lists_all_and_names_the_nearest():
    text = loaded_by().stdout
    assert text.endswith("status 0 []\n")
    for name in COMMANDS:
        assert f"\n  {name} " in text
    done = loaded_by("trian")
    assert done.stdout == "status 2 []\n"
    assert "no command 'trian'; did you mean train?" in done.stderr
    assert re.match(r"crabjax \d+\.\d+", loaded_by("--version").stdout)


MISTAKES = {
    "train --config mimic.yaml": "crabjax prepare mimic --raw FOLDER .*physionet.org",
    "train --config rcv1_t10_5.yaml": "crabjax prepare resample --input data/rcv1",
    "train --config results/semeval2018ec.yaml": "data.train: no such file",
    "train --config mimc.yaml": r"mimc.yaml: no such configuration file.*did you mean mimic.yaml\?",
    "train --config nothing-like-it": "crabjax comes with demo.yaml, eurlex.yaml",
    "train --set loop.rouds=3": r"loop.rouds: unknown key; did you mean loop.rounds\?",
    "train --only mmc": "--only mmc: demo.yaml has crab, random",
    "train --output occupied/runs": "occupied/runs.*: Not a directory",
    "demo --output occupied": "occupied/crab: Not a directory",
    "report .": r"\.: no records.jsonl in it or below it; `crabjax train` writes them",
    "report nowhere": "nowhere: no records.jsonl in it",
    "devices --config mimc.yaml": r"did you mean mimic.yaml\?",
    "prepare mimic --raw .": "no NOTEEVENTS.csv or NOTEEVENTS.csv.gz here.*physionet",
    "prepare resample --input . --output . --mean-ir 5": "expected another folder than --input",
    "prepare stats nowhere.jsonl": "nowhere.jsonl: no such file",
    "benchmark scoring --json occupied/a.json": "occupied",
    "init --texts nowhere.csv --labels a,b": "nowhere.csv: no such file",
    "init --texts occupied --labels sport,Sport": "'sport' and 'Sport' differ in capitals only",
    "suggest --output a.csv": "labelling: no labelling project here; make one with `init`",
    "add a.csv": "no labelling project here",
    "status": "no labelling project here",
    "predict --output a.txt": "a.txt: expected a name ending in .csv, .jsonl",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_are_a_line_or_two_and_write_nothing(tmp_path, line):
    (tmp_path / "occupied").write_text("a file")
    words = line.split()
    output = ["--output", "out"] if words[0] == "report" else []
    done = crabjax(tmp_path, *words, *output)
    assert done.returncode == 1
    said = [one for one in done.stderr.splitlines() if not one.endswith(" ...")]  # what is going on
    assert said[0].startswith("error: ")
    assert len(said) <= 2
    assert re.search(MISTAKES[line], "\n".join(said)), done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".cache") == ["occupied"]


def test_a_missing_extra_is_named(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no', name='torch')")
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from crabjax.cli.common import run_command\n"
        "def work(): import torch\n"
        "sys.exit(run_command(work, ''))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        1,
        "error: torch is not installed; pip install 'crabjax[torch]'\n",
    )


def test_configurations_are_part_of_the_package():
    assert CONFIG_FOLDER.parent.name == "crabjax"
    ours = {path.relative_to(ROOT / "configs") for path in (ROOT / "configs").rglob("*.yaml")}
    assert {path.relative_to(CONFIG_FOLDER) for path in CONFIG_FOLDER.rglob("*.yaml")} == ours


def test_devices_says_what_is_here_and_what_a_run_would_do(tmp_path):
    small = ("data.synthetic.documents=400", "data.validation_size=50", "loop.seeds=0")
    settings = [word for one in small for word in ("--set", one)]
    done = crabjax(tmp_path, "devices", "--config", "demo.yaml", *settings)
    assert done.returncode == 0, done.stderr
    assert re.search(r"jax \S+ on 1 cpu device\(s\)", done.stdout)
    assert re.search(r"memory +\S+ GB to be had", done.stdout)
    assert f"kept in {tmp_path / '.cache' / 'programs'}" in done.stdout
    assert "demo.yaml: crab; random" in done.stdout
    assert "members    5: 1 seeds of 5" in done.stdout
    assert re.search(r"data +400 documents of \d+ tokens, 12 labels; 600 to test on", done.stdout)
    assert re.search(r"training .* in all 6 rounds; about \d+ MB", done.stdout)
    assert re.search(r"prediction 256 documents at once", done.stdout)


def test_devices_without_data_says_how_to_get_them(tmp_path):
    done = crabjax(tmp_path, "devices", "--config", "mimic.yaml")
    assert done.returncode == 0, done.stderr
    assert "members    25: 5 seeds of 5" in done.stdout
    assert "crabjax prepare mimic" in done.stdout
