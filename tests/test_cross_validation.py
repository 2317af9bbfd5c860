"""Held-out parts and cross-validated scores."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from crabjax.cross_validation import (
    curve_sizes,
    held_out_size,
    member_rows,
    score_curve,
    split_rows,
)


def test_a_tenth_to_a_fifth_is_held_out_in_powers_of_two():
    assert [held_out_size(n) for n in (10, 999, 1000, 1279, 1280)] == [0, 0, 128, 128, 256]
    for documents in range(1000, 6000):
        assert documents / 10 < held_out_size(documents) <= documents / 5


def test_members_hold_out_parts_that_do_not_overlap():
    rows = np.arange(100, 1500)
    split = member_rows(rows, 5, np.random.default_rng(0))
    held = split.validation_rows
    assert held.shape == (5, 256)
    assert len(np.unique(held)) == 5 * 256
    for member in range(5):
        trained = split.train_rows[member, : split.train_counts[member]]
        assert sorted([*trained, *held[member]]) == rows.tolist()


def test_few_documents_are_all_trained_on():
    split = member_rows(np.arange(7), 2, np.random.default_rng(0))
    assert split.train_counts.tolist() == [7, 7]
    assert set(split.validation_rows[0]) == set(range(7))


def test_shapes_change_only_when_the_labels_double():
    shapes = {
        tuple(part.shape for part in member_rows(np.arange(n), 5, np.random.default_rng(0)))
        for n in (*range(65, 129, 9), 128)
    }
    assert len(shapes) == 1


def test_smaller_parts_repeat_their_held_out_documents_equally_often():
    split = split_rows([np.arange(1100), np.arange(2600)], 2600)
    _, repeats = np.unique(split.validation_rows[0], return_counts=True)
    assert repeats.tolist() == [4] * 128  # 512 places for 128 documents
    assert split.train_counts.tolist() == [1100 - 128, 2600 - 512]


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
