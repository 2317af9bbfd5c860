"""From settings to arrays: files, the built-in corpus, the cache, and advice on missing files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crabjax.config import DataConfig, SyntheticConfig
from crabjax.data import encode, splits
from crabjax.data.load import load_data
from crabjax.files import DataError, DataWarning
from crabjax.files.cache import cache_folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))


def write(path, *documents):
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in documents]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def config(tmp_path):
    train = write(tmp_path / "train.jsonl", ("a b a", ["x"]), ("b", ["x", "y"]), ("c", []))
    test = write(tmp_path / "test.jsonl", ("a c", ["y"]))
    return DataConfig(name="mine", train=train, test=test, min_count=2, max_tokens=8)


def same(first, second):
    for one, other in zip((first.train, first.test), (second.train, second.test)):
        for a, b in zip(one, other):
            np.testing.assert_array_equal(a, b)
    assert first.label_names == second.label_names
    assert first.vocabulary_size == second.vocabulary_size


def test_files_become_arrays_with_labels_and_words_of_the_training_file(config):
    data = load_data(config)
    assert (data.label_names, data.vocabulary_size) == (("x", "y"), 4)
    np.testing.assert_array_equal(data.train.tokens, [[2, 3, 2], [3, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(data.test.tokens, [[2, 1, 0]])
    np.testing.assert_array_equal(data.test.labels, [[False, True]])
    assert data.validation is None
    assert list(data.corpus("test").texts()) == ["a c"]


def test_validation_file_and_csv(config, tmp_path):
    (tmp_path / "v.csv").write_text("body|tags\na b|x,y\n", encoding="utf-8")
    data = load_data(
        replace(
            config,
            validation=str(tmp_path / "v.csv"),
            text_column="body",
            label_column="tags",
            label_separator=",",
            csv_delimiter="|",
        )
    )
    assert data.validation is not None
    np.testing.assert_array_equal(data.validation.tokens, [[2, 3, 0]])
    np.testing.assert_array_equal(data.validation.labels, [[True, True]])


def test_second_start_does_not_read_the_documents_again(config, monkeypatch):
    first = load_data(config)
    monkeypatch.setattr(splits, "read_corpus", lambda *_, **__: pytest.fail("read again"))
    same(load_data(config), first)


def test_cache_notices_changed_content_and_settings(config, tmp_path):
    first = load_data(config)
    write(tmp_path / "test.jsonl", ("b b", ["x"]))
    changed = load_data(config)
    np.testing.assert_array_equal(changed.test.tokens, [[3, 3, 0]])
    assert load_data(replace(config, min_count=1)).vocabulary_size == 5
    assert load_data(replace(config, max_tokens=1)).train.tokens.shape == (3, 1)
    same(load_data(config, cache=False), changed)
    assert len(list((cache_folder() / "encoded").iterdir())) == 4
    assert first.vocabulary_size == 4


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("facts.json", "facts.json: unreadable, made again"),
        ("pool.tokens", "pool.tokens: its header is damaged; made again"),
        ("test.labels", "test.labels: its header is damaged; made again"),
    ],
)
def test_broken_cache_file_is_made_again_and_said(config, name, said):
    load_data(config)
    first = load_data(config, cache=False)  # not of the file that is hurt here
    (folder,) = (cache_folder() / "encoded").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / name).write_bytes((folder / name).read_bytes()[:100])
    with pytest.warns(DataWarning, match=said):
        again = load_data(config)
    same(again, first)
    same(load_data(config), first)


def test_arrays_from_the_cache_are_those_made_in_memory(config, tmp_path):
    validation = write(tmp_path / "validation.jsonl", ("a b c d e", ["x"]), ("b", []))
    config = replace(config, validation=validation, min_count=1, max_tokens=4)
    in_memory, made, read = (load_data(config, cache=kept) for kept in (False, True, True))
    for data in (made, read):
        same(data, in_memory)
        np.testing.assert_array_equal(data.pool.tokens, in_memory.pool.tokens)
        np.testing.assert_array_equal(data.validation.tokens, [[2, 3, 4, 1], [3, 0, 0, 0]])
        assert data.train.tokens.base is not None  # a view of the file
    assert len(in_memory.train.tokens) == 3


def test_tokenising_that_was_stopped_goes_on(config, tmp_path, monkeypatch):
    documents = [(f"w{n} w{n % 7} w{n % 3}", ["x", "y"]) for n in range(50)]
    write(tmp_path / "train.jsonl", *documents)
    expected = load_data(config, cache=False)
    monkeypatch.setattr(encode, "_BLOCK", 4)
    made, stop = [], 3

    def padded(rows, width, real=encode._padded):
        made.append(len(rows))
        if len(made) == stop:
            raise KeyboardInterrupt
        return real(rows, width)

    monkeypatch.setattr(encode, "_padded", padded)
    with pytest.raises(KeyboardInterrupt):
        load_data(config)
    made.clear()
    stop = -1
    same(load_data(config), expected)
    assert sum(made) == 50 - 2 * 4 + 1  # and the test file


def test_cache_that_cannot_be_written_only_warns(config, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "file"))
    with pytest.warns(DataWarning, match="cannot cache"):
        assert load_data(config).vocabulary_size == 4


def test_cache_folder_follows_the_environment(tmp_path, monkeypatch):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("CRABJAX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "crabjax"


def test_unknown_test_labels_and_empty_documents_are_counted_with_and_without_cache(
    config, tmp_path
):
    write(tmp_path / "test.jsonl", ("a", ["x", "new"]), ("", ["other"]))
    for _ in range(2):
        with pytest.warns(DataWarning) as caught:
            data = load_data(config)
        messages = sorted(str(one.message) for one in caught)
        assert len(messages) == 2
        assert "1 of 2 documents have no words" in messages[0]
        assert "test: 2 of 2 documents have labels" in messages[1]
        assert "(2: new, other); these labels are left out" in messages[1]
        np.testing.assert_array_equal(data.test.labels, [[True, False], [False, False]])
        np.testing.assert_array_equal(data.test.tokens[1], [1, 0, 0])


def test_documents_in_both_files_are_counted(config, tmp_path):
    for name in ("train.jsonl", "test.jsonl"):
        (tmp_path / name).write_text(f'{{"id": "d7", "text": "{name}", "labels": ["x"]}}\n')
    with pytest.warns(DataWarning, match=r'test: 1 of 1 documents have the id .*"d7"'):
        load_data(config)


def test_training_file_without_labels_is_an_error(config, tmp_path):
    write(tmp_path / "train.jsonl", ("a", []))
    with pytest.raises(DataError, match="no document of the training file has a label"):
        load_data(config)


def test_built_in_corpus_is_the_default():
    data = load_data(
        DataConfig(synthetic=SyntheticConfig(documents=300, test_documents=50, mean_ir=5.0))
    )
    assert data.train.labels.shape == (300, 12)
    assert data.test.tokens.shape[0] == 50
    assert data.train.tokens.max() < data.vocabulary_size
    assert len(data.corpus("train")) == 300


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("mimic", r"crabjax prepare mimic --raw FOLDER .*NOTEEVENTS.*physionet\.org"),
        ("rcv1", r"crabjax prepare rcv1 --raw FOLDER .*lyrl2004_tokens"),
        ("uklex", r"crabjax prepare uklex .*zenodo\.org/records/6355465"),
        ("eurlex", r"crabjax prepare eurlex .*multi_eurlex"),
        ("rcv1_t10_20", r"crabjax prepare resample --input data/rcv1 --labels 10 --mean-ir 20"),
        ("mine", r"crabjax prepare --help"),
    ],
)
def test_missing_file_says_how_to_make_it(tmp_path, name, advice):
    missing = str(tmp_path / name / "train.jsonl")
    with pytest.raises(DataError, match=rf"data\.train: no such file: .*{advice}"):
        load_data(DataConfig(name=name, train=missing, test=missing))


def test_half_a_data_set_is_an_error(config):
    with pytest.raises(DataError, match=r"data\.test: expected a file"):
        load_data(replace(config, test=None))
    with pytest.raises(DataError, match=r"data\.train: expected a file"):
        load_data(replace(config, train=None))


def test_testing_on_the_training_file_is_an_error(config, tmp_path):
    for same in (config.train, str(tmp_path / "." / "link.jsonl")):
        (tmp_path / "link.jsonl").unlink(missing_ok=True)
        (tmp_path / "link.jsonl").symlink_to(config.train)
        with pytest.raises(DataError, match=r"data\.test: expected another file than data\.train"):
            load_data(replace(config, test=same))


def test_a_copy_of_the_training_file_is_said(config, tmp_path):
    (tmp_path / "copy.jsonl").write_bytes(Path(config.train).read_bytes())
    with pytest.warns(DataWarning, match="test: the texts of the training file"):
        load_data(replace(config, test=str(tmp_path / "copy.jsonl")))


def test_texts_that_are_nearly_all_equal_are_said(config, tmp_path):
    write(tmp_path / "train.jsonl", *[("a", ["x"])] * 5, ("b", ["y"]))
    with pytest.warns(DataWarning, match="train: 6 documents, but 2 different texts"):
        load_data(config)
