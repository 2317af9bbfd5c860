"""A run killed at any moment goes on to the records of one never killed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crabjax.report.records import read_records

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "train_loop.py"
CONFIG = """
data:
  validation_size: 40
  max_tokens: 16
  synthetic: {documents: 200, test_documents: 50, mean_ir: 5}
model: {embedding: 4, kernels: 4, widths: [2]}
ensemble: {members: 2, epochs: 3, batch_size: 20}
strategy: {name: crab, per_label: 10, hard_size: 20}
loop: {rounds: 4, initial_size: 20, query_size: 10, seeds: [0, 1]}
"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    (folder / "tiny.yaml").write_text(CONFIG)
    return folder


def start(workplace, output, *arguments):
    environment = os.environ | {"CRABJAX_CACHE": str(workplace / "cache")}
    command = [sys.executable, SCRIPT, "--config", workplace / "tiny.yaml", "--output", output]
    return subprocess.Popen(
        [*command, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(workplace, output, *arguments):
    process = start(workplace, output, *arguments)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def timeless(folder):
    records = read_records(folder / "records.jsonl")
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture(scope="module")
def whole(workplace):
    """A run that nobody disturbed; the later ones find its compiled programs."""
    finish(workplace, workplace / "whole")
    return workplace / "whole"


def kill_when(process, condition, timeout=120):
    """Kills a process at a moment that really comes while it is alive."""
    end = time.monotonic() + timeout
    while not condition():
        assert process.poll() is None, "the run ended before the moment to kill it"
        assert time.monotonic() < end, "the moment to kill never came"
        time.sleep(0.0005)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_killed_at_random_moments(workplace, whole):
    output, chance = workplace / "killed", random.Random(0)
    for begun in ("run.json", "checkpoints/0", "checkpoints/1"):
        process = start(workplace, output)
        wait = chance.uniform(0, 0.2)
        since: list[float] = []

        def late_enough(begun=begun, wait=wait, since=since):
            """A random while after the run got so far."""
            if (output / begun).exists() and not since:
                since.append(time.monotonic())
            return bool(since) and time.monotonic() >= since[0] + wait

        kill_when(process, late_enough)
    finish(workplace, output)
    assert timeless(output) == timeless(whole)
    assert summary(output) == summary(whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 2])
def test_killed_during_a_save(workplace, whole, number):
    output = workplace / f"saving{number}"
    process = start(workplace, output)
    unfinished = f"{number}.orbax-checkpoint-tmp*"
    kill_when(process, lambda: any((output / "checkpoints").glob(unfinished)))
    finish(workplace, output)
    assert timeless(output) == timeless(whole)


@pytest.mark.slow
def test_truncated_records_are_mended(workplace, whole):
    output = workplace / "truncated"
    process = start(workplace, output)
    kill_when(process, lambda: (output / "checkpoints" / "1").exists())
    with (output / "records.jsonl").open("a") as file:
        file.write('{"seed": 0, "rou')
    finish(workplace, output)
    assert timeless(output) == timeless(whole)


def test_killed_between_the_last_checkpoint_and_its_summary(workplace, whole):
    output = workplace / "late"
    shutil.copytree(whole, output)
    (output / "summary.json").write_text("{}")
    (output / "records.jsonl").write_text("")
    finish(workplace, output)
    assert timeless(output) == timeless(whole)
    assert summary(output) == summary(whole)


@pytest.mark.slow
def test_interrupt_says_how_to_go_on(workplace, whole):
    output = workplace / "interrupted"
    process = start(workplace, output)
    while not (output / "checkpoints" / "0").exists():
        assert process.poll() is None
        time.sleep(0.0005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "the same command goes on" in err
    finish(workplace, output)
    assert timeless(output) == timeless(whole)


def test_another_config_in_the_folder_is_an_error_that_shows_the_differences(workplace, whole):
    process = start(workplace, whole, "--set", "loop.query_size=5")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "loop.query_size: 10 there, 5 asked for" in err
    assert "--fresh" in err


def test_output_folder_is_complete(whole):
    names = {path.name for path in whole.iterdir()} - {".lock"}
    assert names == {
        "checkpoints",
        "config.yaml",
        "curve.png",
        "log.txt",
        "records.jsonl",
        "run.json",
        "summary.json",
    }
    records = read_records(whole / "records.jsonl")
    assert [r["labelled"] for r in records if r["seed"] == 1] == [20, 30, 40, 50, 60]
    assert len(set(records[0]["selected"])) == 10
    assert json.loads((whole / "run.json").read_text())["versions"]["jax"]
    assert "  60  " in (whole / "log.txt").read_text().splitlines()[-1]
