"""Label names as texts, and similarities against a loop in plain Python."""

import math

import numpy as np
import pytest

from crabjax.config import ConfigError, DataConfig
from crabjax.data import names as module
from crabjax.data.names import compare_with_names, label_texts

GENERATOR = np.random.default_rng(0)
NAMES = GENERATOR.normal(size=(3, 5)).astype(np.float32)
DOCUMENTS = GENERATOR.normal(size=(40, 5)).astype(np.float32) + 0.3


def cosine(one, other):
    dot = sum(float(a) * float(b) for a, b in zip(one, other))
    return dot / math.dist(one, [0] * len(one)) / math.dist(other, [0] * len(other))


def plain_similarities(documents, standardised_on):
    """[n, K], one number at a time."""
    columns = []
    for name in NAMES:
        known = [cosine(own, name) for own in standardised_on]
        mean = sum(known) / len(known)
        deviation = math.sqrt(sum((one - mean) ** 2 for one in known) / len(known))
        columns.append([(cosine(own, name) - mean) / deviation for own in documents])
    return np.array(columns).T


def test_similarities_equal_the_plain_ones():
    similarity = compare_with_names(NAMES, DOCUMENTS)
    expected = plain_similarities(DOCUMENTS, DOCUMENTS)
    np.testing.assert_allclose(similarity.of(DOCUMENTS), expected, atol=1e-5)
    assert similarity.of(DOCUMENTS).dtype == np.float32


def test_further_documents_are_standardised_as_the_first_were():
    similarity = compare_with_names(NAMES, DOCUMENTS[:30])
    expected = plain_similarities(DOCUMENTS[30:], DOCUMENTS[:30])
    np.testing.assert_allclose(similarity.of(DOCUMENTS[30:]), expected, atol=1e-5)


def test_many_documents_are_sampled_evenly(monkeypatch):
    monkeypatch.setattr(module, "_SAMPLE", 8)
    similarity = compare_with_names(NAMES, DOCUMENTS)
    expected = plain_similarities(DOCUMENTS, DOCUMENTS[::5])
    np.testing.assert_allclose(similarity.of(DOCUMENTS), expected, atol=1e-5)


def test_where_documents_are_all_alike_names_say_nothing():
    similarity = compare_with_names(NAMES, np.tile(DOCUMENTS[:1], (7, 1)))
    np.testing.assert_array_equal(similarity.of(DOCUMENTS), np.zeros((40, 3)))


def test_vectors_of_zeros_are_no_error():
    similarity = compare_with_names(np.zeros_like(NAMES), np.vstack([DOCUMENTS, 0 * DOCUMENTS]))
    assert np.isfinite(similarity.of(0 * DOCUMENTS)).all()


def test_names_become_words():
    names = ("money-fx", "sustained_angiogenesis", "joy / calm", " a  b ", "C15")
    assert label_texts(DataConfig(), names) == [
        "money fx",
        "sustained angiogenesis",
        "joy calm",
        "a b",
        "C15",
    ]


def test_own_words_take_the_place_of_names():
    config = DataConfig(label_texts={"C15": "company-wide performance", "GPOL": ""})
    texts = label_texts(config, ("C15", "GPOL", "M13"))
    assert texts == ["company-wide performance", "GPOL", "M13"]


def test_words_for_what_is_no_label():
    config = DataConfig(label_texts={"C155": "performance"})
    with pytest.raises(ConfigError, match=r"data.label_texts: 'C155' is not a label; .* C15\?"):
        label_texts(config, ("C15", "GPOL"))


@pytest.mark.parametrize("seed", range(4))
def test_many_copies_near_their_names_tell_nothing(seed):
    """Sums of 10,000 equal cosines near one: in float32 they have a spread of 1e-4."""
    generator = np.random.default_rng(seed)
    text = generator.normal(size=384).astype(np.float32)
    names = (generator.normal(size=(12, 384)) + 1.5 * text).astype(np.float32)
    similarity = compare_with_names(names, np.tile(text, (10_000, 1)))
    np.testing.assert_array_equal(similarity.of(text[None]), np.zeros((1, 12)))


def test_copies_of_one_text_tell_nothing_and_one_odd_text_does_not_decide_alone():
    copies = np.repeat(DOCUMENTS[:1], 10_000, axis=0)
    similarity = compare_with_names(NAMES, copies)
    np.testing.assert_array_equal(similarity.of(DOCUMENTS), np.zeros((len(DOCUMENTS), len(NAMES))))
    copies[7] = DOCUMENTS[1]
    found = compare_with_names(NAMES, copies).of(DOCUMENTS)
    assert np.abs(found).max() <= 10
    assert np.isfinite(found).all()
