"""Held-out parts and cross-validated scores."""

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from crabjax.labelling.held_out import held_out_size, member_rows, split_rows
from crabjax.labelling.learning_curve import curve_sizes, score_curve


def best_rows(rows, members):
    return member_rows(rows, members, np.random.default_rng(0), "best")


def test_what_is_held_out_grows_from_nothing_to_an_eighth():
    assert [held_out_size(n) for n in (10, 600, 601, 602, 700)] == [0, 0, 0, 1, 50]
    assert [held_out_size(n) for n in (800, 2000, 8192, 50_000)] == [100, 250, 1024, 1024]


def test_a_label_more_changes_what_models_see_by_little():
    def seen(count):
        split = best_rows(np.arange(count), 1)
        trained = set(split.train_rows[0, : split.train_counts[0]].tolist())
        own = [row in trained for row in split.validation_rows[0].tolist()]
        return int(split.train_counts[0]), np.mean(own)

    steps = [seen(count) for count in range(580, 1300)]
    for (trained, own), (more_trained, less_own) in itertools.pairwise(steps):
        assert abs(more_trained - trained) <= 1
        assert abs(less_own - own) < 0.02
    assert (steps[0][1], steps[-1][1]) == (1, 0)  # from training documents to held-out ones


def test_members_hold_out_parts_that_do_not_overlap():
    rows = np.arange(100, 2148)
    split = best_rows(rows, 5)
    held = [np.unique(own) for own in split.validation_rows]
    assert split.validation_rows.shape == (5, 1024)
    assert [len(own) for own in held] == [256] * 5
    assert len(np.unique(np.concatenate(held))) == 5 * 256
    for member in range(5):
        trained = split.train_rows[member, : split.train_counts[member]]
        assert sorted([*trained, *held[member]]) == rows.tolist()


def test_the_last_epoch_needs_no_document_to_compare_it_on():
    rows = np.arange(1000, 2000)
    split = member_rows(rows, 2, np.random.default_rng(0), "last")
    assert split.validation_rows.shape == (2, 0)
    assert split.train_counts.tolist() == [1000, 1000]
    assert sorted(split.train_rows[1, :1000]) == rows.tolist()


def test_few_documents_are_all_trained_on():
    split = best_rows(np.arange(7), 2)
    assert split.train_counts.tolist() == [7, 7]
    assert set(split.validation_rows[0]) == set(range(7))


def test_shapes_change_only_when_the_labels_double():
    shapes = {
        tuple(part.shape for part in best_rows(np.arange(n), 5)) for n in (*range(65, 129, 9), 128)
    }
    assert len(shapes) == 1


def test_parts_of_several_sizes_each_follow_their_own_rule():
    split = split_rows([np.arange(500), np.arange(700), np.arange(2048)], 2048, "best")
    assert split.train_counts.tolist() == [500, 650, 1792]
    assert len(np.unique(split.validation_rows[0])) == 500
    _, repeats = np.unique(split.validation_rows[2], return_counts=True)
    assert repeats.tolist() == [4] * 256  # 1024 places for 256 documents


def test_curve_sizes_halve():
    assert curve_sizes(180) == [22, 45, 90, 180]
    assert curve_sizes(39) == [39]


def test_scores_are_scikit_learns():
    generator = np.random.default_rng(0)
    labels = generator.random((60, 4)) < 0.4
    labels[:, 3] = False
    poor = generator.random((60, 4)) < 0.4
    good = labels ^ (generator.random((60, 4)) < 0.1)
    curve = score_curve([30, 60], np.stack([poor, good]), labels, generator)

    def expected(average: Any) -> Any:
        absent: Any = 0
        return [
            f1_score(labels, one, average=average, zero_division=absent) for one in (poor, good)
        ]

    np.testing.assert_allclose(curve.micro_f1, expected("micro"))
    np.testing.assert_allclose(curve.macro_f1, expected("macro"))
    np.testing.assert_allclose(curve.label_f1, expected(None)[1])
    assert curve.gain == pytest.approx(curve.micro_f1[1] - curve.micro_f1[0])
    assert 0.01 < curve.gain_error < 0.1


def test_the_standard_error_shrinks_with_documents():
    generator = np.random.default_rng(1)

    def error(count):
        labels = generator.random((count, 3)) < 0.5
        predicted = labels ^ (generator.random((count, 3)) < 0.2)
        return score_curve([count], predicted[None], labels, generator).micro_error[0]

    assert 1.5 < error(100) / error(400) < 2.7  # half the error with four times the documents
