"""The index of a project's texts: read instead of them, and made again where it does not fit."""

import json
import os
import resource
from types import SimpleNamespace

import numpy as np
import pytest

from crabjax.data.documents import hash_of
from crabjax.files import DataError, DataWarning, sha256
from crabjax.files.store import HEADER
from crabjax.labelling import Project, index
from crabjax.labelling.answers import Answer
from crabjax.labelling.index import INDEX


def refuse(*_, **__):
    raise AssertionError("texts were parsed again")


def same(one, other):
    assert list(one.ids) == list(other.ids)
    assert list(one.texts) == list(other.texts)
    np.testing.assert_array_equal(one.texts.hashes, other.texts.hashes)
    assert one.learner().fingerprint() == other.learner().fingerprint()


def test_a_second_start_parses_no_text(project, monkeypatch):
    project.add([Answer("x", "d7", ["a"])])
    parsed = []
    noted = SimpleNamespace(loads=lambda line: parsed.append(line) or json.loads(line))
    monkeypatch.setattr(index, "read_records", refuse)
    monkeypatch.setattr("crabjax.data.documents.json", noted)
    again = Project.open(project.folder)
    assert len(again.ids) == 40
    assert again.distinct() == 40
    assert parsed == []
    learner = again.learner()
    assert learner.labelled == 1
    assert learner.fingerprint()
    assert [json.loads(line)["id"] for line in parsed] == ["d7"]  # which was answered
    monkeypatch.undo()
    same(again, project)


def test_texts_are_found_by_id(project):
    assert project.texts_of(["d3", "d39", "gone"]) == {
        "d3": "words of text 3",
        "d39": "words of text 39",
    }
    assert project.texts_of([]) == {}
    assert project.ids[-1] == "d39"
    with pytest.raises(IndexError):
        project.texts[40]


def test_an_id_is_not_known_by_its_hash_alone(project, monkeypatch):
    monkeypatch.setattr("crabjax.data.documents.hash_of", lambda text: hash_of("d3"))
    assert project.texts_of(["gone"]) == {}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda content: content[:-8], "cut short"),
        (lambda content: b"crabjax array 0\n" + content[16:], "of another version"),
        (lambda content: content[:40] + b"?" + content[41:], "its header is damaged"),
        (lambda content: content[:-1] + b"?", "its content is not what was written"),
    ],
)
def test_a_damaged_index_is_made_again(project, spoil, said):
    path = project.folder / INDEX
    before = path.read_bytes()
    path.write_bytes(spoil(before))
    with pytest.warns(DataWarning, match=rf"texts\.index: .*{said}.*; made again"):
        again = Project.open(project.folder)
    same(again, project)
    assert path.read_bytes()[HEADER:] == before[HEADER:]


def test_an_index_of_other_texts_is_made_again(project, tmp_path):
    texts, about = project.folder / "texts.jsonl", project.folder / "project.json"
    rows = [json.loads(line) for line in texts.read_text().splitlines()]
    rows[4]["text"] = "words of text x"
    texts.write_text("\n\n".join(map(json.dumps, rows)))  # longer lines, and blank ones
    kept = json.loads(about.read_text())
    del kept["hashes"], kept["sum"]
    about.write_text(json.dumps(kept))
    with pytest.warns(DataWarning, match="made from other documents"):
        again = Project.open(project.folder)
    assert list(again.texts) == [row["text"] for row in rows]
    assert again.learner().fingerprint() != project.learner().fingerprint()
    rows[9]["id"] = "d4"
    texts.write_text("\n\n".join(map(json.dumps, rows)))
    message = r"texts\.jsonl:19: an id that is also that of an earlier line"
    with pytest.raises(DataError, match=message), pytest.warns(DataWarning, match="made again"):
        Project.open(project.folder)


def unsealed(project, *names, **changes):
    """Its project.json edited by hand: some fields and the sum taken out, others changed."""
    path = project.folder / "project.json"
    kept = json.loads(path.read_text())
    kept = {name: kept[name] for name in kept if name not in (*names, "sum")}
    path.write_text(json.dumps(kept | changes))


@pytest.mark.parametrize("blank", ["", " ", "\u00a0", "\u3000", "\x1c"])
def test_lines_are_blank_to_the_count_as_they_are_to_the_reader(project, blank):
    texts = project.folder / "texts.jsonl"
    texts.write_text(texts.read_text() + blank + "\n")
    unsealed(project, "hashes")
    with pytest.warns(DataWarning, match="made from other documents"):
        Project.open(project.folder)
    again = Project.open(project.folder)
    assert list(again.ids) == [f"d{number}" for number in range(40)]
    np.testing.assert_array_equal(again.texts.hashes, project.texts.hashes)
    np.testing.assert_array_equal(again.ids.hashes, project.ids.hashes)


@pytest.mark.parametrize("lines", [39, 41])
def test_texts_of_another_number_are_counted_again(project, lines):
    texts = project.folder / "texts.jsonl"
    rows = [{"id": f"d{number}", "text": f"words of text {number}"} for number in range(lines)]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    unsealed(project, "hashes")
    with pytest.warns(DataWarning, match="made from other documents"):
        again = Project.open(project.folder)
    assert list(again.ids) == [row["id"] for row in rows]
    np.testing.assert_array_equal(again.ids.hashes, [hash_of(row["id"]) for row in rows])


@pytest.mark.parametrize("documents", [39, 41])
def test_a_wrong_number_of_documents_is_no_index(project, documents):
    unsealed(project, documents=documents)
    message = rf'texts\.jsonl: expected {documents} documents, .*found 40; .*take "documents"'
    for _ in range(2):  # nothing that the next open would believe is left
        with pytest.raises(DataError, match=message), pytest.warns(DataWarning, match="made again"):
            Project.open(project.folder)
    unsealed(project, "documents")
    same(Project.open(project.folder), project)


def test_large_texts_are_hashed_only_where_size_or_time_differ(project, monkeypatch):
    monkeypatch.setattr("crabjax.labelling.about._CHEAP", 1000)
    Project.open(project.folder)
    hashed, path = [], project.folder / "texts.jsonl"
    noted = lambda own: hashed.append(own.name) or sha256(own)
    monkeypatch.setattr("crabjax.labelling.about.sha256", noted)
    Project.open(project.folder)
    assert "texts.jsonl" not in hashed
    os.utime(path)
    Project.open(project.folder)  # the same content: neither refused nor indexed again
    Project.open(project.folder)
    assert hashed.count("texts.jsonl") == 1
    path.write_bytes(path.read_bytes().replace(b"text 3", b"text 4", 1))
    with pytest.raises(ValueError, match=r"texts\.jsonl: changed since the project was made"):
        Project.open(project.folder)


def test_a_project_that_may_only_be_read_opens(project, monkeypatch):
    (project.folder / INDEX).unlink()

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(index, "lock", denied)
    monkeypatch.setattr("crabjax.files.store.os.open", denied)
    with pytest.warns(DataWarning, match=r"texts\.index: cannot be kept: Permission denied"):
        same(Project.open(project.folder), project)


def test_a_full_disk_keeps_no_project_from_opening(project, tmp_path):
    (project.folder / INDEX).unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HEADER, before[1]))  # for all but the index
    try:
        for make in (
            lambda: Project.open(project.folder),
            lambda: Project.create(
                tmp_path / "new", tmp_path / "pool.csv", ["a", "b"], project.config
            ),
        ):
            with pytest.warns(DataWarning, match=r"texts\.index: cannot be kept: File too large"):
                same(make(), project)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not [*tmp_path.glob("*/texts.index*")]


def test_an_error_of_the_texts_is_not_taken_for_a_full_disk(project, monkeypatch):
    (project.folder / INDEX).unlink()

    def broken(*_, **__):
        raise OSError(5, "Input/output error", "texts.jsonl")

    monkeypatch.setattr(index, "read_records", broken)
    with pytest.raises(OSError, match="Input/output error"):
        Project.open(project.folder)


def test_a_project_without_a_count_of_documents_opens(project):
    about = project.folder / "project.json"
    kept = json.loads(about.read_text())
    del kept["documents"], kept["sum"]
    about.write_text(json.dumps(kept))
    same(Project.open(project.folder), project)
