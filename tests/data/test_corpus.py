"""Reading documents: both JSON formats, CSV, gzip, and every kind of bad input by file and line."""

import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from crabjax.data import corpus as module
from crabjax.data.corpus import read_corpus, write_corpus
from crabjax.data.documents import Documents
from crabjax.data.records import CsvFormat
from crabjax.files import DataError, DataWarning

TEXT = '{"text": "One two", "labels": ["b", "a"]}\n'
TOKENS = (
    '{"doc_label": ["a"], "doc_token": ["New York", "x"], "doc_keyword": [], "doc_topic": []}\n'
)


def write(folder, content, name="c.jsonl"):
    path = folder / name
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["train.jsonl", "train.json", "train.jsonl.gz"])
def test_reads_text_lines(tmp_path, name):
    corpus = read_corpus(write(tmp_path, TEXT + "\n" + TEXT, name))
    assert list(corpus.texts()) == ["One two"] * 2
    assert corpus.label_names == ("a", "b")
    assert (corpus.split, corpus.tokenised, corpus.ids) == ("train", False, None)


@pytest.mark.parametrize("name", ["pool.csv", "pool.jsonl.gz"])
def test_documents_of_other_large_files_lie_in_a_file_without_a_name(tmp_path, monkeypatch, name):
    monkeypatch.setattr(module, "_IN_MEMORY", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    bodies = ["One, two", "naïve\nline", "x" * 9000, "y"]
    lines = "".join(json.dumps({"text": body, "labels": []}) + "\n" for body in bodies)
    rows = "text,labels\n" + "".join(f'"{body}",\n' for body in bodies)
    corpus = read_corpus(write(tmp_path, rows if name.endswith("csv") else lines, name))
    assert isinstance(corpus.documents, Documents)
    assert not list((tmp_path / "temporary").iterdir())  # nothing that a kill would leave
    first, second = iter(corpus.documents), iter(corpus.documents)
    assert [next(first), next(second), next(second)] == [bodies[0], *bodies[:2]]
    assert list(first) == bodies[1:]
    part = corpus.documents[1:]
    del corpus
    assert [part[1], *part] == [bodies[2], *bodies[1:]]  # a part needs it too


def test_a_full_disk_names_the_folder_of_the_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_IN_MEMORY", 10)
    full = open("/dev/full", "r+b", buffering=0)  # noqa: SIM115, whoever takes it closes it
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: full)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = write(tmp_path, "text,labels\nOne two three,a\n", "pool.csv")
    with pytest.raises(OSError, match="No space left") as error:
        read_corpus(path)
    assert error.value.filename == f"{tmp_path} (TMPDIR), where {path} is copied to"


def test_reads_token_lines_and_keeps_tokens_with_spaces_whole(tmp_path):
    corpus = read_corpus(write(tmp_path, TOKENS), split="other")
    assert corpus.tokenised
    assert corpus.documents[0].split("\x1f") == ["New York", "x"]
    assert list(corpus.texts()) == ["New York x"]
    assert corpus.split == "other"


def test_label_matrix_leaves_out_labels_that_are_not_named(tmp_path):
    corpus = read_corpus(write(tmp_path, TEXT + '{"text": "x", "labels": []}\n'))
    np.testing.assert_array_equal(corpus.label_matrix(("b", "z")), [[True, False], [False, False]])


def test_equal_label_sets_are_stored_once(tmp_path):
    corpus = read_corpus(write(tmp_path, TEXT * 2))
    assert corpus.label_sets[0] is corpus.label_sets[1]


@pytest.mark.parametrize("name", ["c.csv", "c.csv.gz"])
def test_reads_csv(tmp_path, name):
    content = 'id,text,labels\n7,"One,\ntwo",a; b\n8,three,\n'
    corpus = read_corpus(write(tmp_path, content, name))
    assert corpus.documents == ["One,\ntwo", "three"]
    assert corpus.label_sets == [("a", "b"), ()]
    assert corpus.ids == ["7", "8"]


def test_reads_csv_with_other_columns_and_tsv(tmp_path):
    form = CsvFormat("body", "topics", "|", ";")
    corpus = read_corpus(write(tmp_path, "body;topics\nx;b|a\n", "c.csv"), csv_format=form)
    assert corpus.label_sets == [("a", "b")]
    corpus = read_corpus(write(tmp_path, "text\tlabels\nx, y\ta;b\n", "c.tsv"))
    assert (corpus.documents, corpus.label_sets) == (["x, y"], [("a", "b")])


def test_byte_order_mark_and_windows_line_ends_are_no_problem(tmp_path):
    assert len(read_corpus(write(tmp_path, b"\xef\xbb\xbf" + TEXT.encode()))) == 1
    corpus = read_corpus(write(tmp_path, "text,labels\r\nx,a\r\n", "c.csv"))
    assert corpus.label_sets == [("a",)]


@pytest.mark.parametrize(
    ("second_line", "message"),
    [
        (b"{oops\n", r"c\.jsonl:2: malformed JSON"),
        (b"[1]\n", r"c\.jsonl:2: expected one JSON object a line, found list"),
        (b'{"labels": []}\n', r'c\.jsonl:2: expected the field "doc_token" or "text", found "lab'),
        (b'{"text": "x"}\n', r'c\.jsonl:2: expected the field "labels", which is missing'),
        (b'{"text": 3, "labels": []}\n', r'c\.jsonl:2: "text" must be a string, found int'),
        (b'{"text": "x", "labels": "a"}\n', r'c\.jsonl:2: "labels" must be a list of .* found str'),
        (b'{"text": "x", "labels": [1]}\n', r'c\.jsonl:2: "labels" .* found int in it'),
        (b'{"text": "x", "labels": [""]}\n', r"c\.jsonl:2: a label must not be empty"),
        (b'{"text": "x", "labels": [], "id": [1]}\n', r'c\.jsonl:2: "id" must be a string'),
        (
            b'{"text": "x", "labels": [], "id": 1}\n',
            r'c\.jsonl:2: either every document has an "id',
        ),
        (b'{"text": "\\ud800", "labels": []}\n', r"c\.jsonl:2: half of a surrogate pair"),
        (b'{"text": "x", "labels": [], "id": "\\ud800"}\n', r"c\.jsonl:2: half of a surrogate"),
        (
            b'{"text": "caf\xe9", "labels": []}\n',
            r"c\.jsonl:2: expected utf-8 .* 0xe9 at column 14",
        ),
        (TOKENS.encode(), r'c\.jsonl:2: one file holds either "doc_token" or "text"'),
    ],
)
def test_bad_json_line_is_named(tmp_path, second_line, message):
    with pytest.raises(DataError, match=message):
        read_corpus(write(tmp_path, TEXT.encode() + second_line))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"doc_token": "x", "doc_label": []}', r':1: "doc_token" must be a list .* found str'),
        ('{"doc_token": ["x", null], "doc_label": []}', r":1: .* found NoneType in it"),
        ('{"doc_token": ["x"]}', r':1: expected the field "doc_label"'),
        ('{"doc_token": ["x", ""], "doc_label": []}', r":1: a token .* must not be empty"),
        ('{"doc_token": ["a\\u001fb"], "doc_label": []}', r":1: a token .* hold .* U\+001F"),
    ],
)
def test_bad_token_line_is_named(tmp_path, line, message):
    with pytest.raises(DataError, match=message):
        read_corpus(write(tmp_path, line))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,labels\nx\n", r"c\.csv:2: expected 2 columns as in the header, found 1"),
        ("txt,labels\nx,a\n", r'c\.csv:2: no column "text" .* did you mean "txt"\?'),
        ("text,topics\nx,a\n", r'c\.csv:2: no column "labels"'),
        ('text,labels\nx,a\n"y,a\n', r"c\.csv:3: malformed CSV"),
        ("text,text\nx,a\n", r"c\.csv:1: two columns of one name"),
        ("text,labels\n", r"c\.csv: no documents"),
    ],
)
def test_bad_csv_is_named(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_corpus(write(tmp_path, content, "c.csv"))


def test_duplicate_ids_are_an_error_with_both_lines(tmp_path):
    lines = "".join(f'{{"text": "x", "labels": [], "id": {i}}}\n' for i in (5, 6, 5))
    with pytest.raises(DataError, match=r'c\.jsonl:3: id "5" is also that of line 1'):
        read_corpus(write(tmp_path, lines))


def test_files_that_cannot_be_read_at_all(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file"):
        read_corpus(tmp_path / "nowhere.jsonl")
    with pytest.raises(DataError, match="expected a file, found a folder; name a file in it"):
        read_corpus(tmp_path)
    with pytest.raises(DataError, match="no documents in this file"):
        read_corpus(write(tmp_path, "\n\n"))
    with pytest.raises(DataError, match=r"\.jsonl, \.json, \.csv or \.tsv.*found \"\.txt\""):
        read_corpus(write(tmp_path, TEXT, "c.txt"))
    with pytest.raises(DataError, match=r":1: expected utf-8 text, found utf-16"):
        read_corpus(write(tmp_path, TEXT.encode("utf-16")))


def test_broken_gzip_files_are_named(tmp_path):
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(TEXT.encode())
    with pytest.raises(DataError, match=r"c\.jsonl\.gz:1: broken gzip file"):
        read_corpus(path)
    many = "".join(json.dumps({"text": f"x{i * i}", "labels": []}) + "\n" for i in range(5000))
    path.write_bytes(gzip.compress(many.encode())[:-2000])
    with pytest.raises(DataError, match=r"c\.jsonl\.gz:\d+: broken gzip file"):
        read_corpus(path)


@pytest.mark.parametrize(
    "empty",
    [
        '{"text": " ", "labels": ["a"]}',
        '{"text": "!!! ...", "labels": ["a"]}',
        '{"doc_token": [], "doc_label": ["a"]}',
    ],
)
def test_documents_without_words_are_kept_and_counted(tmp_path, empty):
    with pytest.warns(DataWarning, match=r"c\.jsonl: 2 of 2 documents have no words") as caught:
        corpus = read_corpus(write(tmp_path, f"{empty}\n{empty}\n"))
    assert len(corpus) == 2
    assert corpus.notes == (str(caught[0].message),)
    assert list(corpus.words()) == [[], []]


def test_documents_with_any_word_or_token_are_not_counted(tmp_path):
    lines = ('{"text": "- _ -", "labels": []}', '{"doc_token": ["!", " "], "doc_label": []}')
    for line in lines:
        corpus = read_corpus(write(tmp_path, line))
        assert corpus.notes == ()
        assert all(corpus.words())


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_separators_that_cannot_separate_are_named(delimiter):
    with pytest.raises(DataError, match=r"csv_delimiter: expected one character, .* found ['\"]"):
        CsvFormat(csv_delimiter=delimiter)
    with pytest.raises(DataError, match="label_separator: expected at least one character"):
        CsvFormat(label_separator="")


def test_labels_may_be_missing_where_none_are_asked_for(tmp_path):
    corpus = read_corpus(write(tmp_path, '{"text": "x"}\n'), labelled=False)
    assert corpus.label_sets == [()]
    corpus = read_corpus(write(tmp_path, "text\nx\n", "c.csv"), labelled=False)
    assert corpus.label_sets == [()]


@pytest.mark.parametrize("content", [TEXT, TOKENS, '{"text": "é", "labels": [], "id": "k"}\n'])
def test_written_corpus_reads_back_equal(tmp_path, content):
    corpus = read_corpus(write(tmp_path, content), split="train")
    write_corpus(corpus, tmp_path / "new" / "train.jsonl")
    assert read_corpus(tmp_path / "new" / "train.jsonl") == corpus


def test_select_keeps_order_ids_and_named_labels(tmp_path):
    lines = "".join(
        json.dumps({"id": i, "text": f"t{i}", "labels": ["a", f"l{i}"]}) + "\n" for i in range(3)
    )
    part = read_corpus(write(tmp_path, lines)).select([2, 0], ["l2"])
    assert (part.documents, part.ids) == (["t2", "t0"], ["2", "0"])
    assert part.label_sets == [("l2",), ()]


def test_one_document_is_read_without_a_megabyte_around_it(tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {n} " * 40}) + "\n" for n in range(9000)))
    documents = read_corpus(path, labelled=False).documents
    counter = Path("/proc/self/io")
    if not counter.exists():
        pytest.skip("this system does not count what is read")
    read = lambda: int(counter.read_text().split()[1])
    before = read()
    assert documents[4321].startswith("text 4321 ")
    assert read() - before < 1 << 16
