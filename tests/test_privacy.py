"""Texts stay where they are: no network, no reader but the owner, no text in logs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, sys

def no_network(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        print(f"network: {event} {arguments[1:]}", file=sys.stderr)
        os._exit(99)

sys.addaudithook(no_network)
from crabjax.cli.main import main
tiny = ["--set", "model.kernels=4", "--set", "model.embedding=4", "--set", "model.widths=2",
        "--set", "ensemble.epochs=2", "--set", "ensemble.members=2"]
commands = [
    ["init", "--texts", "train.jsonl", "--labels", "red,blue", *tiny],
    ["add", "answers.jsonl"],
    ["suggest", "-n", "3", "--output", "next.csv"],
    ["predict", "--output", "predictions.csv"],
    ["train", "--config", "tiny.yaml", "--output", "run"],
    ["report", "run", "--output", "page"],
]
for command in commands:
    print("$", *command, flush=True)
    if main(command) != 0:
        sys.exit(f"failed: {command}")
"""
CONFIG = """
data: {train: train.jsonl, test: test.jsonl, validation_size: 5, max_tokens: 8}
model: {embedding: 4, kernels: 4, widths: [2]}
ensemble: {members: 2, epochs: 2}
strategy: {name: entropy}
loop: {rounds: 1, initial_size: 10, query_size: 5, seeds: [0]}
"""
SECRET = "xyzzysecret"


def write_files(folder):
    words = ("red", "blue")
    rows = [
        {
            "id": str(n),
            "text": f"{words[n % 2]} {SECRET} word{n % 7} w{n}",
            "labels": [words[n % 2]],
        }
        for n in range(60)
    ]
    write = lambda name, of: (folder / name).write_text("".join(json.dumps(r) + "\n" for r in of))
    write("train.jsonl", rows)
    write("test.jsonl", [row | {"id": f"t{row['id']}", "text": row["text"] + " t"} for row in rows])
    write("answers.jsonl", rows[:12])
    (folder / "tiny.yaml").write_text(CONFIG)


@pytest.mark.slow
def test_every_step_works_without_network_and_keeps_texts_to_itself(tmp_path):
    write_files(tmp_path)
    environment = {"CRABJAX_CACHE": str(tmp_path / "cache"), "JAX_PLATFORMS": "cpu"}
    environment |= {"PYTHONPATH": str(Path(__file__).resolve().parent.parent), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    for folder in ("run", "page", "cache"):
        for path in (tmp_path / folder).rglob("*"):
            assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    assert (tmp_path / "labelling").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "labelling" / "model").stat().st_mode & 0o777 == 0o700
