"""The built-in corpus has the structure and the statistics that its settings ask for."""

from dataclasses import replace

import numpy as np
import pytest

from crabjax.config import SyntheticConfig
from crabjax.data.statistics import corr_avg, describe, mean_ir
from crabjax.data.synthetic import (
    apportion,
    draw_labels,
    exchange_labels,
    expected_joint,
    make_synthetic,
    solve_label_model,
    spell,
)
from crabjax.files import DataError

SMALL = SyntheticConfig(documents=600, test_documents=200, vocabulary=300, length=12)


@pytest.fixture(scope="module")
def corpora():
    return make_synthetic(SMALL)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mean_ir": 4.0, "corr_avg": 0.3},
        {"documents": 20_000, "mean_ir": 50.0},
        {"roots": 19, "leaves_per_root": 0, "mean_ir": 30.0, "corr_avg": 0.32, "documents": 5000},
        {"roots": 18, "leaves_per_root": 0, "mean_ir": 7.0, "corr_avg": 0.026, "documents": 5000},
    ],
)
def test_mean_ir_and_corr_avg_are_reached(changes):
    train, _ = make_synthetic(replace(SMALL, **changes))
    wanted, found = replace(SMALL, **changes), describe(train)
    assert found.mean_ir == pytest.approx(wanted.mean_ir, rel=0.05)
    assert found.corr_avg == pytest.approx(wanted.corr_avg, abs=0.01)


def test_leaves_imply_their_root_and_exclude_each_other(corpora):
    for corpus in corpora:
        for labels in corpus.label_sets:
            leaves = [label.split(".")[0] for label in labels if "." in label]
            assert set(leaves) <= set(labels)
            assert len(leaves) == len(set(leaves))
        assert all(corpus.label_sets)
    assert corpora[0].label_names == corpora[1].label_names


def test_closed_form_frequencies_are_those_of_the_draw():
    model = solve_label_model(SMALL)
    labels = draw_labels(model, 200_000, np.random.default_rng(1)).astype(np.float64)
    np.testing.assert_allclose(labels.T @ labels / len(labels), expected_joint(model), atol=2e-3)


def test_equal_settings_give_equal_corpora_and_other_seeds_others(corpora):
    assert make_synthetic(SMALL) == corpora
    other, _ = make_synthetic(replace(SMALL, seed=1))
    assert other.documents != corpora[0].documents
    assert other.label_sets != corpora[0].label_sets


def test_length_vocabulary_and_noise_follow_the_settings(corpora):
    found = describe(corpora[0])
    assert found.words == pytest.approx(SMALL.length, rel=0.1)
    assert found.vocabulary <= SMALL.vocabulary
    only_noise, _ = make_synthetic(replace(SMALL, noise_words=1.0))
    matrix = only_noise.label_matrix(only_noise.label_names)
    # Without signal the commonest words are equally common with and without a label.
    word = spell(0)
    has = np.array([word in document.split("\x1f") for document in only_noise.documents])
    assert abs(has[matrix[:, 0]].mean() - has[~matrix[:, 0]].mean()) < 0.1


def test_label_noise_exchanges_sets_and_keeps_the_statistics():
    labels = draw_labels(solve_label_model(SMALL), 600, np.random.default_rng(0))
    noisy = exchange_labels(labels, 0.5, np.random.default_rng(1))
    changed = (noisy != labels).any(axis=1).mean()
    assert 0.3 < changed <= 0.5
    assert mean_ir(noisy) == mean_ir(labels)
    assert corr_avg(noisy) == corr_avg(labels)
    np.testing.assert_array_equal(exchange_labels(labels, 0.0, np.random.default_rng(1)), labels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean_ir": 1.5}, r"synthetic\.mean_ir: .* allow 2\.00 and more, found 1\.5"),
        ({"corr_avg": 0.01}, r"synthetic\.corr_avg: .* allow 0\.07\d to 0\.\d+, found 0\.01"),
        ({"corr_avg": 0.95}, r"synthetic\.corr_avg: .* found 0\.95"),
        ({"mean_ir": 90.0}, r"synthetic\.documents: .* at least 5 are needed; use at least \d+"),
    ],
)
def test_impossible_targets_say_what_is_possible(changes, message):
    with pytest.raises(DataError, match=message):
        make_synthetic(replace(SMALL, **changes))


def test_apportion_sums_up_and_stays_within_one():
    shares = np.array([0.21, 0.34, 0.45])
    for total in (0, 1, 7, 100):
        whole = apportion(shares, total)
        assert whole.sum() == total
        assert np.abs(whole - shares * total).max() < 1


def test_words_are_distinct():
    assert len({spell(number) for number in range(20_000)}) == 20_000


def test_more_labelled_documents_help_clearly():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import RidgeClassifier
    from sklearn.metrics import f1_score

    train, test = make_synthetic(SyntheticConfig(documents=700, test_documents=300))
    vectors = TfidfVectorizer(token_pattern=r"\S+").fit(train.texts())
    features, held_out = vectors.transform(train.texts()), vectors.transform(test.texts())
    labels, truth = (one.label_matrix(train.label_names) for one in (train, test))

    def macro_f1(size):
        seen = [k for k in range(labels.shape[1]) if labels[:size, k].any()]
        guess = np.zeros_like(truth)
        for k in seen:
            fitted = RidgeClassifier().fit(features[:size], labels[:size, k])
            guess[:, k] = fitted.predict(held_out)
        return f1_score(truth, guess, average="macro")

    few, many = macro_f1(100), macro_f1(600)
    assert 0.05 < few < many - 0.1 < 0.85
