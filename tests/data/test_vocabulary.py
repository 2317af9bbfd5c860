"""Words of many documents: the same tokens and sizes, counted in the first start only."""

import numpy as np
import pytest

from crabjax import inputs as module
from crabjax.config import from_overrides
from crabjax.data import vocabulary
from crabjax.files import DataWarning
from crabjax.inputs import encode_texts, text_inputs

TEXTS = [f"word{n % 7} word{n % 3} " + "more " * (n % 5) for n in range(60)]


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Notes every counting of words."""
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_IN_MEMORY", 0)
    monkeypatch.setattr(vocabulary, "_MANY", 10)
    counts, real = [], vocabulary.build_vocabulary
    noted = lambda *given: counts.append(1) or real(*given)
    monkeypatch.setattr(vocabulary, "build_vocabulary", noted)
    return counts


def encoded(texts=TEXTS, digest="one"):
    return encode_texts(from_overrides(["data.min_count=2"]), texts, ["a"], lambda: digest)


def test_a_second_start_counts_no_words(counted, tmp_path):
    expected = encode_texts(from_overrides(["data.min_count=2"]), TEXTS, ["a"])
    counted.clear()
    for _ in range(2):
        found = encoded()
        np.testing.assert_array_equal(found.inputs, expected.inputs)
        assert found.tokenizer is not None
        assert found.tokenizer.size == expected.tokenizer.size  # type: ignore[union-attr]
    assert len(counted) == 1
    new = ["word1 word2 nobody knows", "more " * 9]
    one, other = [text_inputs(from_overrides([]), own, new) for own in (found, expected)]
    np.testing.assert_array_equal(one, other)
    assert len(counted) == 2
    for path in (tmp_path / "cache").rglob("*"):
        assert path.is_dir() or b"word" not in path.read_bytes()


def test_other_texts_are_counted_again(counted):
    encoded()
    other = encoded(TEXTS[:30] + ["new new"] * 3, "other")
    assert other.tokenizer is not None
    assert (len(counted), other.tokenizer.size) == (2, encoded().tokenizer.size + 1)  # type: ignore


def test_damaged_sizes_are_made_again(counted, tmp_path):
    size = encoded().tokenizer.size  # type: ignore[union-attr]
    (path,) = (tmp_path / "cache").rglob("sizes")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.warns(DataWarning, match="its content is not what was written; made again"):
        assert encoded().tokenizer.size == size  # type: ignore[union-attr]
    assert len(counted) == 2
