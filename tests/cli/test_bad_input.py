"""Every mistake of ``bad_input.py`` is one line, a status, and no changed file."""

import hashlib
import importlib.util
import logging
import shlex
import shutil
import warnings
from pathlib import Path

import pytest

from crabjax.cli.main import main
from crabjax.config import from_overrides
from crabjax.labelling import Project
from crabjax.labelling.answers import Answer

HERE = Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("bad_input", HERE / "bad_input.py")
assert _spec is not None
bad_input = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bad_input)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """Texts, projects whole and hurt, a finished run, and data to test on."""
    folder = tmp_path_factory.mktemp("mistakes")
    ids = [*(f"d{n}" for n in range(8)), "007"]
    (folder / "pool.csv").write_text(
        "id,text\n" + "".join(f"{one},words {n}\n" for n, one in enumerate(ids))
    )
    for name in ("labelling", "empty", "altered", "swapped", "torn"):
        project = Project.create(folder / name, folder / "pool.csv", ["a", "b"], from_overrides([]))
        if name != "empty":
            project.add([Answer("x", "d0", ["a"])])
    spoil = lambda name, old, new: (folder / name).write_text(
        (folder / name).read_text().replace(old, new)
    )
    spoil("altered/texts.jsonl", "words 3", "words 4")
    spoil("swapped/labels.jsonl", '"a"', '"b"')
    with (folder / "torn" / "labels.jsonl").open("a") as log:
        log.write('{"id": "d1", "la')
    lines = [f'{{"text": "w{n} t", "labels": ["a"]}}' for n in range(9)]
    (folder / "test.jsonl").write_text("\n".join(lines))
    (folder / "train.jsonl").write_text("\n".join(lines))
    shutil.copytree(HERE.parent / "fixtures" / "before_reliability" / "run", folder / "runs" / "b")
    return folder


def contents(folder):
    """Every file, as a hash; locks are no content."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("case", bad_input.CASES, ids=lambda case: case.what)
def test_a_mistake_is_one_line_and_changes_nothing(workplace, tmp_path, monkeypatch, capsys, case):
    folder = tmp_path / "here"
    shutil.copytree(workplace, folder)
    for name, content in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(logging.root, "handlers", list(logging.root.handlers))
    before = contents(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            status = main(shlex.split(case.typed))
        except SystemExit as stopped:  # of argparse, which prints how it is used as well
            status = stopped.code
    said = capsys.readouterr().err
    assert status == case.status, said
    assert case.said in said
    assert "Traceback" not in said
    if status == 1 and "nothing was added" not in said and "another config" not in said:
        assert len(said.splitlines()) == 1, said
    assert contents(folder) == before


def test_the_table_in_the_documents_is_this_one():
    page = (HERE.parents[1] / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert bad_input.table() in page
    assert len({case.what for case in bad_input.CASES}) == len(bad_input.CASES)
