"""The command: once as a script, otherwise in this process, which saves its start."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from crabjax.cli.prepare import main

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "prepare_data.py"


def run(*arguments):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            status = main([str(one) for one in arguments])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    done = run("synthetic", "--output", folder, "--documents", 900, "--test-documents", 300)
    assert done.returncode == 0, done.stderr
    assert "900 documents, 12 labels, MeanIR" in done.stdout
    return folder


def test_help_names_every_command():
    command = [sys.executable, str(SCRIPT), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    for name in ("rcv1", "uklex", "eurlex", "mimic", "synthetic", "resample", "stats"):
        assert f"\n    {name}" in done.stdout


def test_stats_as_json(synthetic):
    done = run("stats", synthetic / "train.jsonl", "--json")
    assert json.loads(done.stdout)["mean_ir"] == pytest.approx(8.0, rel=0.05)


def test_resample(synthetic, tmp_path):
    done = run(
        *("resample", "--input", synthetic, "--output", tmp_path, "--labels", 6),
        *("--mean-ir", 5, "--test-mean-ir", 4, "--train-size", 200, "--test-size", 80),
    )
    assert done.returncode == 0, done.stderr
    assert "mean / smallest 5.0" in done.stdout
    assert "mean / smallest 4.0" in done.stdout


def test_bad_input_is_one_line_without_traceback(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"text": "x", "labels": ["a"]}\noops\n')
    for arguments, message in (
        (("stats", tmp_path / "c.jsonl"), "c.jsonl:2: malformed JSON"),
        (("mimic", "--raw", tmp_path), "https://physionet.org"),
        (("synthetic", "--roots", "0", "--output", tmp_path), "data.synthetic.roots: expected"),
        (("synthetic", "--mean-ir", "1.1", "--output", tmp_path), "synthetic.mean_ir"),
        (("stats", tmp_path), "expected a file, found a folder"),
        (("stats", tmp_path / "c.jsonl", "--csv-delimiter", ";;"), "csv_delimiter: expected one"),
        (("stats", tmp_path / "c.jsonl", "--label-separator", ""), "label_separator: expected"),
    ):
        done = run(*arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
        assert message in done.stderr


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--mean-ir", "nan", "expected a number >= 1, found 'nan'"),
        ("--mean-ir", "0", "expected a number >= 1, found '0'"),
        ("--test-mean-ir", "-3", "expected a number >= 1, found '-3'"),
        ("--seed", "-1", "expected a whole number >= 0, found '-1'"),
        ("--output", __file__, "expected a folder, found a file"),
    ],
)
def test_options_out_of_range_are_named(synthetic, tmp_path, option, value, message):
    options = {"--output": tmp_path / "out", "--mean-ir": 5, option: value}
    done = run(
        *("resample", "--input", synthetic, "--labels", 6, "--train-size", 200),
        *("--test-size", 80, *(f"{name}={setting}" for name, setting in options.items())),
    )
    assert done.returncode == 2
    assert f"error: argument {option}: {message}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_no_file_is_written_over_unless_asked_to(synthetic, tmp_path):
    (tmp_path / "train.jsonl").write_text("made by hand")
    small = ("--documents", 900, "--test-documents", 300)
    cut = ("--labels", 6, "--mean-ir", 5, "--test-mean-ir", 4, "--train-size", 200)
    before = (synthetic / "train.jsonl").read_bytes()
    for arguments in (
        ("synthetic", "--output", tmp_path, *small),
        ("resample", "--input", synthetic, "--output", synthetic, *cut, "--test-size", 80),
        ("resample", "--input", synthetic, "--output", tmp_path, *cut, "--test-size", 80),
        ("uklex", "--raw", tmp_path, "--output", tmp_path),
    ):
        done = run(*arguments)
        assert done.returncode == 1
        assert "--force" in done.stderr or "expected another folder than --input" in done.stderr
        assert done.stderr.count("\n") == 1
    assert (tmp_path / "train.jsonl").read_text() == "made by hand"
    assert not (tmp_path / "test.jsonl").exists()
    assert (synthetic / "train.jsonl").read_bytes() == before
    assert run("synthetic", "--output", tmp_path, *small, "--force").returncode == 0
    assert (tmp_path / "train.jsonl").read_bytes() == before
