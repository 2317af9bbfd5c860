"""Two real processes on this machine make the run of one."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from crabjax.config import ConfigError, DevicesConfig
from crabjax.devices.processes import connect
from crabjax.report.records import read_records

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "train_loop.py"
CONFIG = """
data:
  validation_size: 40
  max_tokens: 8
  synthetic: {documents: 200, test_documents: 50, mean_ir: 5}
model: {embedding: 2, kernels: 2, widths: [2]}
ensemble: {members: 3, epochs: 2, batch_size: 20}
strategy: {name: crab, per_label: 10, hard_size: 20}
loop: {rounds: 2, initial_size: 20, query_size: 10, seeds: [0, 1]}
"""
TIMEOUT = 600  # seconds; machines can be busy


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    (folder / "tiny.yaml").write_text(CONFIG)
    return folder


def start(workplace, output, *arguments):
    environment = os.environ | {
        "CRABJAX_CACHE": str(workplace / "cache"),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "1",
    }
    command = [sys.executable, SCRIPT, "--config", workplace / "tiny.yaml", "--output", output]
    return subprocess.Popen(
        [*command, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_two(workplace, output, *arguments):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = f"devices.coordinator=127.0.0.1:{port}", "devices.processes=2"
    settings = [part for one in common for part in ("--set", one)]
    return [
        # Only one of them listens: it may not do other work for that.
        start(
            workplace, output, *arguments, *settings, "--set", f"devices.process={process}", *heard
        )
        for process, heard in enumerate(((), ("--quiet",)))
    ]


def finish(processes):
    """Waits for all, and leaves none behind."""
    try:
        outputs = [process.communicate(timeout=TIMEOUT) for process in processes]
    except subprocess.TimeoutExpired:
        for process in processes:
            process.kill()
            process.communicate()
        raise
    for process, (_, errors) in zip(processes, outputs):
        assert process.returncode == 0, errors
    return [out for out, _ in outputs]


def timeless(folder):
    """All that a run recorded but the seconds, as a flat list."""
    records = read_records(folder / "records.jsonl")
    values = [v for record in records for k, v in record.items() if k != "seconds"]
    return jax.tree.leaves(values)


@pytest.fixture(scope="module")
def alone(workplace):
    """The run of one process; the others find its data prepared."""
    finish([start(workplace, workplace / "alone")])
    leaves = timeless(workplace / "alone")
    return [pytest.approx(leaf, rel=1e-5) if isinstance(leaf, float) else leaf for leaf in leaves]


@pytest.mark.slow
def test_two_processes_make_the_records_of_one(workplace, alone):
    output = workplace / "two"
    first, second = finish(start_two(workplace, output))
    assert timeless(output) == alone
    assert "micro-F1" in first
    assert "micro-F1" not in second
    assert "2 of 2 devices: ensemble 2 x pool 1; 6 members, 3 a device" in (
        (output / "log.txt").read_text()
    )


@pytest.mark.slow
@pytest.mark.parametrize(("killed", "go_on_with"), [(0, 1), (1, 2)])
def test_a_run_goes_on_after_one_process_was_killed(workplace, alone, killed, go_on_with):
    output = workplace / f"killed{killed}"
    processes = start_two(workplace, output)
    end = time.monotonic() + TIMEOUT
    try:
        while not (output / "checkpoints" / "0").exists():
            assert time.monotonic() < end
            assert all(process.poll() is None for process in processes)
            time.sleep(0.001)
        processes[killed].kill()
        # The other ends by itself, with an error: it cannot go on alone.
        assert processes[1 - killed].wait(timeout=TIMEOUT) != 0
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    finish(start_two(workplace, output) if go_on_with == 2 else [start(workplace, output)])
    assert timeless(output) == alone


@pytest.mark.slow
def test_an_error_of_the_first_process_ends_all(workplace, alone):
    processes = start_two(workplace, workplace / "alone", "--set", "loop.query_size=5")
    errors = [process.communicate(timeout=TIMEOUT)[1] for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    assert "loop.query_size: 10 there, 5 asked for" in errors[0]
    assert "the first process failed" in errors[1]


def test_a_coordinator_needs_to_know_who_is_who(monkeypatch):
    monkeypatch.delenv("JAX_PROCESS_ID", raising=False)
    with pytest.raises(ConfigError, match=r"devices\.process: expected a number"):
        connect(DevicesConfig(coordinator="localhost:1", processes=2))
    monkeypatch.setenv("JAX_PROCESS_ID", "one")
    with pytest.raises(ConfigError, match="a number in JAX_PROCESS_ID, found 'one'"):
        connect(DevicesConfig(coordinator="localhost:1", processes=2))
