"""What stands beside document vectors: the same made at once and when it is read."""

import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.data.beside import Beside, JoinedRows
from crabjax.data.lsa import latent_words
from crabjax.data.names import compare_with_names
from crabjax.devices.batches import in_batches
from crabjax.files.store import blocks_of, gather

GENERATOR = np.random.default_rng(0)
VECTORS = GENERATOR.normal(size=(40, 5)).astype(np.float32) + 0.3
TOKENS = GENERATOR.integers(1, 20, (40, 6)).astype(np.int32)
NAMES = compare_with_names(GENERATOR.normal(size=(3, 5)).astype(np.float32), VECTORS)
WORDS = latent_words(TOKENS, 4)


def test_words_and_vectors_are_of_one_size_and_names_come_last():
    joined = Beside(WORDS, NAMES).join(VECTORS, TOKENS)
    assert (joined.shape, joined.dtype) == ((40, 12), np.float32)
    np.testing.assert_allclose((joined[:, :5] ** 2).mean(axis=1), np.ones(40), rtol=1e-5)
    np.testing.assert_allclose((joined[:, 5:9] ** 2).mean(axis=1), np.ones(40), rtol=1e-5)
    sizes = np.sqrt((VECTORS**2).mean(axis=1, keepdims=True))
    np.testing.assert_allclose(joined[:, :5], VECTORS / sizes, rtol=1e-5)
    np.testing.assert_allclose(joined[:, 5:9], 2 * WORDS.of(TOKENS), rtol=1e-5)
    np.testing.assert_array_equal(joined[:, 9:], NAMES.of(VECTORS))


def test_without_words_vectors_stay_as_they_are():
    joined = Beside(None, NAMES).join(VECTORS, TOKENS)
    np.testing.assert_array_equal(joined, np.hstack([VECTORS, NAMES.of(VECTORS)]))
    np.testing.assert_array_equal(Beside(None, None).join(VECTORS, TOKENS), VECTORS)


@pytest.mark.parametrize(
    ("beside", "width"),
    [(Beside(WORDS, NAMES), 12), (Beside(WORDS, None), 9), (Beside(None, NAMES), 8)],
)
def test_rows_are_made_when_they_are_read(tmp_path, beside, width):
    mapped = {}
    for name, own in {"vectors": VECTORS, "tokens": TOKENS}.items():
        np.save(tmp_path / f"{name}.npy", own)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    rows = JoinedRows(mapped["vectors"], mapped["tokens"], beside)
    expected = beside.join(VECTORS, TOKENS)
    assert (len(rows), rows.shape, rows.dtype) == (40, (40, width), np.float32)
    np.testing.assert_allclose(np.asarray(rows), expected, atol=1e-6)
    some = np.array([30, 2, 2])
    np.testing.assert_allclose(gather(rows, some), expected[some], atol=1e-6)
    with pytest.raises(TypeError, match="a slice or numbers of rows"):
        rows[3]  # type: ignore[index]
    with pytest.raises(TypeError, match="not iterable"):
        iter(rows)  # type: ignore[call-overload]
    part = rows[14:]
    assert part.shape == (26, width)
    blocks = list(blocks_of(part, 7))
    assert [len(block) for block in blocks] == [7, 7, 7, 5]
    np.testing.assert_allclose(np.concatenate(blocks), expected[14:], atol=1e-6)
    twice = in_batches(lambda batch: jnp.asarray(2 * batch), part, 8)
    np.testing.assert_allclose(twice, 2 * expected[14:], atol=1e-6)
