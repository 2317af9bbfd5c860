"""All documents predicted: the same as at once, in a file that a second start goes on with."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from crabjax.config import from_overrides
from crabjax.files import DataWarning
from crabjax.labelling import Project, decisions, trained
from crabjax.labelling.answers import Answer
from crabjax.labelling.decisions import PROBABILITIES, write_decisions
from crabjax.labelling.learner import Learner
from crabjax.labelling.seen import Seen, check_documents
from crabjax.labelling.trained import ahead

SMALL = ["model.kernels=4", "model.embedding=4", "model.widths=2", "ensemble.epochs=2"]
SMALL += ["ensemble.members=2", "strategy.candidate_limit=40", "strategy.anchor_fraction=0.1"]


def test_the_next_item_is_made_while_one_is_in_use():
    made, main = [], threading.get_ident()

    def items():
        for number in range(4):
            assert threading.get_ident() != main
            made.append(number)
            yield number

    for number in ahead(items()):
        deadline = time.monotonic() + 10
        while len(made) < min(number + 2, 4) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert made == list(range(min(number + 2, 4)))


def test_an_error_of_the_other_thread_comes_where_its_item_would():
    def items():
        yield 1
        raise ValueError("here")

    stream = ahead(items())
    assert next(stream) == 1
    with pytest.raises(ValueError, match="here"):
        next(stream)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(trained, "_WINDOW", 32)
    texts = [f"{'red' if n % 2 else 'blue'} word{n % 7} w{n}" for n in range(300)]
    texts[250] = texts[3]  # a document with the text of another
    rows = [json.dumps({"id": f"d{n}", "text": text}) for n, text in enumerate(texts)]
    (tmp_path / "pool.jsonl").write_text("\n".join(rows))
    project = Project.create(
        tmp_path / "labelling", tmp_path / "pool.jsonl", ["red", "blue"], from_overrides(SMALL)
    )
    said = [Answer("x", f"d{n}", ["red" if n % 2 else "blue"]) for n in range(12)]
    project.add(said)
    return project


def expected(project):
    """By way of all probabilities at once."""
    learner = project.learner()
    project.restore(learner)
    return learner.predict_proba(list(project.texts)), learner.threshold()


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(project, path):
    probabilities, threshold = expected(project)
    for number, (row, values) in enumerate(zip(read(path), probabilities)):
        assert row["id"] == f"d{number}"
        np.testing.assert_allclose(list(row["probabilities"].values()), values, atol=6e-5)
        if number >= 12 and number != 250:
            chosen = [name for name, own in zip(project.label_names, values > threshold) if own]
            assert (row["by"], row["labels"]) == ("model", chosen)
    assert read(path)[250]["by"] == "person"
    assert len(read(path)) == 300


def test_streamed_predictions_are_those_made_at_once(project, tmp_path, monkeypatch):
    assert write_decisions(project, project.learner(), tmp_path / "out.jsonl") == 13
    check(project, tmp_path / "out.jsonl")
    assert not (project.folder / PROBABILITIES).exists()
    kept = json.loads((project.folder / "model" / "learner.json").read_text())
    assert kept["threshold"] == expected(project)[1]  # nobody looks for it again
    learner = project.learner()
    project.restore(learner)
    assert learner.knows_threshold
    keeps = []
    monkeypatch.setattr(Project, "keep", lambda _, learner: keeps.append(learner))
    write_decisions(project, learner, tmp_path / "out.jsonl")
    assert keeps == [learner]  # with its parameters: nothing else is new


@pytest.fixture
def stopped(project, tmp_path, monkeypatch):
    """A project whose ``predict`` was stopped in the sixth window."""
    calls, real = [], trained.predict_logits

    def counted(model, params, inputs, batch):
        calls.append(len(inputs))
        if len(calls) == 6:
            raise KeyboardInterrupt
        return real(model, params, inputs, batch)

    monkeypatch.setattr(trained, "predict_logits", counted)
    with pytest.raises(KeyboardInterrupt):
        write_decisions(project, project.learner(), tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    assert (project.folder / f"{PROBABILITIES}.part").exists()
    return calls


def again(project, path):
    learner = Project.open(project.folder).learner()
    project.restore(learner)
    return write_decisions(project, learner, path)


def test_stopped_it_goes_on_where_it_was(project, stopped, tmp_path):
    again(project, tmp_path / "out.jsonl")
    assert sum(stopped[6:]) == 299 - 5 * 32
    check(project, tmp_path / "out.jsonl")
    assert not list(project.folder.glob(f"{PROBABILITIES}*"))


def test_a_second_predict_waits_for_the_first(project, tmp_path, monkeypatch):
    begun, other_predicts, real = threading.Event(), threading.Event(), trained.predict_logits
    calls = []

    def counted(model, params, inputs, batch):
        name = threading.current_thread().name
        if not calls:
            calls.append(name)
        if name != calls[0]:
            other_predicts.set()
        elif not begun.is_set():
            begun.set()
            other_predicts.wait(2)
        return real(model, params, inputs, batch)

    monkeypatch.setattr(trained, "predict_logits", counted)
    monkeypatch.setattr(trained, "ahead", iter)
    learners = [project.learner().train() for _ in range(2)]
    files = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(write_decisions, project, learners[0], files[0])
        assert begun.wait(60)
        second = threads.submit(write_decisions, project, learners[1], files[1])
        assert (first.result(60), second.result(60)) == (13, 13)
    for path in files:
        check(project, path)


def test_a_lock_that_is_refused_is_named_and_memory_used(project, tmp_path):
    (project.folder / decisions.LOCK).mkdir()
    with pytest.warns(DataWarning, match=r"probabilities cannot be kept \(.*directory"):
        write_decisions(project, project.learner(), tmp_path / "out.jsonl")
    check(project, tmp_path / "out.jsonl")


def test_with_other_answers_it_begins_again_and_says_so(project, stopped, tmp_path):
    project.add([Answer("x", "d20", ["red"])])
    with pytest.warns(DataWarning, match=r"probabilities\.part: made from other documents"):
        again(project, tmp_path / "out.jsonl")
    assert sum(stopped[6:]) == 299
    assert read(tmp_path / "out.jsonl")[20]["by"] == "person"


def test_the_threshold_is_the_same_whether_all_were_predicted_or_not(project):
    learner = project.learner()
    alone = learner.threshold()
    learner._threshold = None
    np.testing.assert_allclose(learner.threshold(learner.predict_all()), alone, rtol=1e-5)


def test_memory_does_not_hold_the_texts(project):
    learner = project.learner()
    assert learner._known.documents.path == project.folder / "texts.jsonl"


@pytest.mark.slow
def test_vectors_in_place_of_texts():
    generator = np.random.default_rng(0)
    side = generator.integers(0, 2, 80)
    vectors = (generator.normal(size=(80, 6)) + 3 * (2 * side[:, None] - 1)).astype(np.float32)
    vectors[7] = vectors[3]
    names, said = ("low", "high"), [[("low", "high")[own]] for own in side]
    config = from_overrides(["model.name=frozen", "ensemble.members=2", "ensemble.epochs=20"])
    learner = Learner(config, names).tell(vectors[:30], said[:30])
    assert learner.labelled == 29
    assert learner.evaluate(vectors[30:], said[30:])["micro_f1"] > 0.9
    suggestion = learner.ask(vectors, 5)
    assert len(set(suggestion.indices.tolist()) - set(range(30))) == 5
    assert learner.predict(vectors.astype(float)[:3]).shape == (3, 2)


def test_vectors_stay_what_they_were_when_told():
    config = from_overrides(["model.name=frozen", "ensemble.members=2", "ensemble.epochs=2"])
    vectors = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    buffer = vectors.copy()
    learner = Learner(config, ["a", "b"]).tell(buffer, [["a"], ["b"]] * 10)
    buffer[:] = 0
    expected = Learner(config, ["a", "b"]).tell(vectors, [["a"], ["b"]] * 10)
    np.testing.assert_array_equal(learner.predict_proba(vectors), expected.predict_proba(vectors))


def test_vectors_of_a_file_stay_there(tmp_path):
    np.save(tmp_path / "vectors.npy", np.eye(4, dtype=np.float32))
    seen = Seen()
    seen.add(check_documents(np.load(tmp_path / "vectors.npy", mmap_mode="r")))
    documents = seen.documents
    assert isinstance(documents, np.ndarray)
    assert not documents.flags.writeable
    assert not documents.flags.owndata


def test_saved_vectors_come_back(tmp_path):
    config = from_overrides(["model.name=frozen", "ensemble.members=2", "ensemble.epochs=2"])
    vectors = np.random.default_rng(0).normal(size=(20, 3))
    learner = Learner(config, ["a", "b"]).tell(vectors, [["a"], ["b"]] * 10)
    before = learner.predict_proba(vectors)
    learner.save(tmp_path / "kept")
    loaded = Learner.load(tmp_path / "kept")
    assert loaded.fingerprint() == learner.fingerprint()
    np.testing.assert_array_equal(loaded.predict_proba(vectors), before)


@pytest.mark.parametrize(
    ("documents", "error", "said"),
    [
        (np.ones((2, 3)), ValueError, "vectors: expected a config with model.name frozen"),
        (np.array([[1.0], [np.nan]]), ValueError, r"vectors\[1\]: expected numbers"),
        (np.ones(3), ValueError, r"one row a document, \[n, D\], found \(3,\)"),
        (np.ones((2, 3), int), TypeError, r"texts\[0\]: expected a string, found ndarray"),
    ],
)
def test_arrays_that_cannot_be_used_are_named(documents, error, said):
    learner = Learner(from_overrides(SMALL), ["a", "b"])
    with pytest.raises(error, match=said):
        learner.tell(documents, [["a"]] * len(documents)).predict(documents)


def test_texts_and_vectors_do_not_mix():
    learner = Learner(from_overrides(["model.name=frozen"]), ["a", "b"])
    learner.tell(np.ones((1, 3)), [["a"]])
    with pytest.raises(ValueError, match="expected vectors, as before, found texts"):
        learner.tell(["x"], [["a"]])
    with pytest.raises(ValueError, match="expected 3 numbers each, as before, found 4"):
        learner.tell(np.ones((1, 4)), [["a"]])
