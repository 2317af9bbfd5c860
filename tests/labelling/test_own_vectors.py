"""A project that learns from vectors of one's own: its texts are for people, and say nothing."""

import csv
import json
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from crabjax.cli.label import main
from crabjax.data.vectors import Rows
from crabjax.files.store import gather, map_rows
from crabjax.labelling import Project
from crabjax.labelling.learner import Learner
from crabjax.labelling.saved_learner import SavedLearnerError

DOCUMENTS = 400
SIDE = np.random.default_rng(0).integers(0, 2, DOCUMENTS)
VECTORS = np.random.default_rng(1).normal(size=(DOCUMENTS, 6)) + 3 * (2 * SIDE[:, None] - 1)
VECTORS = VECTORS.astype(np.float32)
FAST = ["model.pretrained=no/such-encoder", "ensemble.members=2", "ensemble.epochs=40"]
FAST += ["strategy.candidate_limit=50", "strategy.first_look=null"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))
    texts = [f"number {n}" for n in range(DOCUMENTS)]
    texts[9], texts[350] = texts[3], texts[20]  # rows of vectors that are never learnt from
    with open("pool.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *((f"d{n}", t) for n, t in enumerate(texts))])
    return tmp_path


def init(vectors, name="pool.npy", *more):
    kind = str(name).rpartition(".")[2]
    np.save(name, vectors) if kind == "npy" else save_file({"x": vectors}, name)
    texts = ["--texts", "pool.csv", "--labels", "up,down"]
    return main(["init", *texts, "--vectors", str(name), *(f"--set={one}" for one in FAST), *more])


def read(name):
    with open(name, newline="") as file:
        return list(csv.DictReader(file))


def answer(name, count):
    """As a person would who sees what the vectors are of."""
    assert main(["suggest", "-n", str(count), "--output", name]) == 0
    rows = read(name)
    for row in rows:
        row["labels"] = "up" if SIDE[int(row["id"][1:])] else "down"
    with open(name, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert main(["add", name]) == 0


@pytest.mark.parametrize("name", ["pool.npy", "pool.safetensors"])
@pytest.mark.parametrize("small", [True, False])
def test_a_project_learns_from_the_vectors(folder, name, small, monkeypatch, capsys):
    if not small:  # as of a file that is too large to be read
        monkeypatch.setattr("crabjax.labelling.trained._IN_MEMORY", 0)
        monkeypatch.setattr("crabjax.labelling.trained._WINDOW", 32)
        monkeypatch.setattr(Rows, "__array__", only_a_window)
    assert init(VECTORS, name) == 0
    answer("first.csv", 16)
    answer("second.csv", 8)
    assert main(["status"]) == 0
    assert "24 labelled" in capsys.readouterr().out
    assert main(["predict", "--output", "out.csv"]) == 0
    rows = read("out.csv")
    own = [(row["labels"] == "up") == SIDE[n] for n, row in enumerate(rows) if n not in (9, 350)]
    assert np.mean(own) > 0.97
    shared = {key: row for key, row in rows[3].items() if key != "id"}
    assert {key: row for key, row in rows[9].items() if key != "id"} == shared


def only_a_window(self, dtype=None, copy=None):
    assert len(self) <= 32  # what predictions are streamed in
    return self.base[self.rows]


def test_a_gather_reads_the_rows_it_is_asked_for(tmp_path):
    """A file with a hole of eight gigabytes: whoever read it all would need as much memory."""
    with open(tmp_path / "large", "wb") as file:
        file.truncate(1 << 33)
        file.seek(1 << 32)
        file.write(np.arange(8, dtype=np.float32).tobytes())
    mapped = map_rows(tmp_path / "large", 0, (1 << 27, 16), np.float32)
    rows = Rows(mapped, np.arange(1 << 20) * 128, "x").take(np.arange(1 << 20)[::-1])
    place = (1 << 20) - 1 - (1 << 32) // 64 // 128
    found = gather(rows, np.array([0, place, 5]))
    np.testing.assert_array_equal(found[1], [*range(8), *[0] * 8])
    np.testing.assert_array_equal(rows[place : place + 1], found[1:2])
    assert found.shape == (3, 16)
    assert not found[[0, 2]].any()


def spoilt():
    vectors = VECTORS.copy()
    vectors[7, 2] = np.nan
    return vectors


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        (VECTORS[:-1], "pool.npy: expected 400 rows, one a document of pool.csv, found 399"),
        (spoilt(), "pool.npy: row 7 (from 0): expected numbers, found nan"),
        (VECTORS[:, 0], "pool.npy: expected one row a document, [N, D], found (400,)"),
        (VECTORS.astype(float), "pool.npy: expected float32, found float64"),
    ],
)
def test_vectors_that_cannot_be_used_are_named_at_init(folder, vectors, said, capsys):
    assert init(vectors) == 1
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert not (folder / "labelling").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--vectors", "gone.npy"], "data.vectors: no such file: "),
        (
            ["--vectors", "pool.csv", "--set=model.name=text_cnn"],
            "expected model.name frozen, found",
        ),
        (["--vectors", "pool.csv"], "pool.csv: no whole .npy file of numbers"),
    ],
)
def test_settings_that_do_not_fit_are_named(folder, more, said, capsys):
    assert main(["init", "--texts", "pool.csv", "--labels", "a,b", *more]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_a_file_of_vectors_that_changed_is_noticed(folder, capsys, monkeypatch):
    monkeypatch.setattr("crabjax.labelling.about._CHEAP", 1000)
    assert init(VECTORS) == 0
    capsys.readouterr()
    real = np.load("pool.npy")
    other = real.copy()
    other[5] += 1
    for content in (other, real[:-1]):
        np.save("pool.npy", content)
        assert main(["status"]) == 1
        assert "pool.npy: changed since the project was made" in capsys.readouterr().err
    os.remove("pool.npy")
    assert main(["status"]) == 1
    assert "pool.npy: cannot be read (No such file or directory)" in capsys.readouterr().err
    np.save("pool.npy", real)
    assert main(["status"]) == 0


def test_vectors_without_a_hash_are_looked_at_again(folder, capsys):
    assert init(VECTORS) == 0
    np.save("pool.npy", spoilt())
    about = folder / "labelling" / "project.json"
    kept = json.loads(about.read_text())
    del kept["hashes"], kept["sum"]
    about.write_text(json.dumps(kept))
    (folder / "labelling" / "texts.index").unlink()  # or there were a word about that
    capsys.readouterr()
    assert main(["status"]) == 1
    assert "pool.npy: row 7 (from 0): expected numbers, found nan" in capsys.readouterr().err


def test_other_vectors_are_another_project(folder):
    assert init(VECTORS) == 0
    assert init(VECTORS + 1, "other.npy", "--project", "other") == 0
    one, other = (Project.open(folder / name).learner() for name in ("labelling", "other"))
    assert one.fingerprint() != other.fingerprint()


def test_no_text_without_a_vector_joins_those_that_have_one(folder):
    assert init(VECTORS) == 0
    project = Project.open(folder / "labelling")
    learner = project.learner()
    before = learner.fingerprint()
    learner.tell(["number 4", project.texts[7]], [None, None])  # known ones: they have vectors
    others = Learner(learner.config, learner.label_names)
    others.see(["new"])
    part = Learner(learner.config, learner.label_names)
    part.see(project.texts[:10])
    for one, documents in [(learner, ["new"]), (others, project.texts), (part, project.texts)]:
        seen = one.fingerprint()
        for give in (one.see, lambda own, one=one: one.ask(own, 1)):
            with pytest.raises(ValueError, match=r"expected all texts.*found more.*init --vectors"):
                give(documents)
        assert one.fingerprint() == seen
    assert learner.fingerprint() == before
    assert learner.ask(project.texts, 4).indices.shape == (4,)  # without an encoder


def test_a_learner_whose_vectors_stay_in_a_file_is_saved_without_documents(folder):
    assert init(VECTORS) == 0
    project = Project.open(folder / "labelling")
    learner = project.learner().tell(project.texts[:2], [["up"], ["down"]]).train()
    with pytest.raises(ValueError, match=r"vectors stay in their file.*documents=False") as caught:
        learner.save(folder / "saved")
    assert len(str(caught.value).splitlines()) == 1
    assert not (folder / "saved").exists()
    learner.save(folder / "saved", documents=False)
    again = project.learner().tell(project.texts[:2], [["up"], ["down"]])
    assert again.restore(folder / "saved")
    np.testing.assert_array_equal(again.predict_all(), learner.predict_all())
    state = json.loads((folder / "saved" / "learner.json").read_text())
    del state["fingerprint"], state["sum"]  # as saved before there were vectors in projects
    (folder / "saved" / "learner.json").write_text(json.dumps(state))
    with pytest.raises(SavedLearnerError, match=r"documents=False"):
        again.restore(folder / "saved")
