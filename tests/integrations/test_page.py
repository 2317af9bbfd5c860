"""The blocks of docs/integrations.md run as they stand, and peers are timed."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from crabjax.cli.benchmark import main

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(
    r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```$",
    (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
PACKAGES = ("small_text", "skactiveml", "modAL", "baal")


def test_every_package_has_a_block_and_no_block_is_left_out():
    text = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    assert text.count("```python") == len(BLOCKS) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("title", "block"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_a_block_is_short_and_runs_as_it_stands(tmp_path, title, block):
    for package in PACKAGES:
        if re.search(rf"^from {package}\b|integrations\.{package.lower()}\b", block, re.MULTILINE):
            found = importlib.util.find_spec(package)
            if found is None:
                pytest.skip(f"{package} is not installed")
    assert len(block.splitlines()) < 25
    done = subprocess.run(
        [sys.executable, "-c", block],
        cwd=tmp_path,
        env={**os.environ, "CRABJAX_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{title}: {done.stderr}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_peers_that_are_installed_are_timed(capsys):
    sizes = ["--documents", "300", "--query", "5", "--labelled", "50", "--repeats", "1"]
    assert main(["peers", *sizes]) == 0
    printed = capsys.readouterr().out
    names = {"small_text": "small-text", "skactiveml": "scikit-activeml"}
    for package in PACKAGES:
        name = names.get(package, package)
        left_out = f"note: {name} is left out" in printed
        assert left_out == (importlib.util.find_spec(package) is None)
        assert left_out or f"\n{name} " in printed
