"""No figure in a table of RESULTS.md is typed by hand: the kept records give them all."""

from pathlib import Path

import pytest

from crabjax.report.find import find_runs
from crabjax.report.markdown import fill

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "results"


@pytest.mark.skipif(not KEPT.is_dir(), reason="no records are kept beside RESULTS.md")
@pytest.mark.parametrize("page", ["RESULTS.md", "README.md"])
def test_the_tables_are_those_of_the_kept_records(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    found = fill(text, find_runs([KEPT]))
    assert found.text == text, f"crabjax report results --markdown {page}"
    assert (found.filled, found.left) == (text.count("<!-- table "), 0)


@pytest.mark.skipif(not KEPT.is_dir(), reason="no records are kept beside RESULTS.md")
def test_they_are_small():
    assert sum(path.stat().st_size for path in KEPT.glob("*.jsonl.gz")) < 2_000_000
