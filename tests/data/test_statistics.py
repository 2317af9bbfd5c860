"""Statistics against values worked out by hand."""

import json

import numpy as np
import pytest

from crabjax.data.corpus import Corpus
from crabjax.data.statistics import (
    cardinality,
    corr_avg,
    describe,
    mean_ir,
    mean_to_smallest,
)

# Counts: a 4, b 2, c 1. Together: ab 2, ac 1, bc 0.
LABELS = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0], [0, 0, 0]], dtype=bool)


def test_hand_computed_values():
    assert cardinality(LABELS) == pytest.approx(7 / 5)
    # a: 4/4, b: 4/2, c: 4/1.
    assert mean_ir(LABELS) == pytest.approx((1 + 2 + 4) / 3)
    assert mean_to_smallest(LABELS) == pytest.approx(7 / 3 / 1)
    # P(b|a) = 2/4, P(c|a) = 1/4, P(a|b) = 2/2, P(c|b) = 0, P(a|c) = 1/1, P(b|c) = 0.
    assert corr_avg(LABELS) == pytest.approx((0.5 + 0.25 + 1 + 0 + 1 + 0) / 9)


def test_a_label_nobody_has_counts_as_one_document_and_adds_no_correlation():
    wider = np.concatenate([LABELS, np.zeros((5, 1), dtype=bool)], axis=1)
    assert mean_ir(wider) == pytest.approx((1 + 2 + 4 + 4) / 4)
    assert mean_to_smallest(wider) == pytest.approx((4 + 2 + 1 + 1) / 4)
    assert corr_avg(wider) == pytest.approx(2.75 / 16)
    assert mean_ir(np.zeros((3, 2), dtype=bool)) == 1.0


def test_shape_is_checked():
    with pytest.raises(ValueError, match=r"labels: expected shape \[N, K\]"):
        mean_ir(LABELS[0])


def test_description_as_table_and_json():
    names = np.array(["a", "b", "c"])
    sets = [tuple(names[row]) for row in LABELS]
    corpus = Corpus(["x y", "x", "Z", "x", "w"], sets, tokenised=False, split="train")
    found = describe(corpus)
    stored = json.loads(found.to_json())
    assert stored["label_counts"] == {"a": 4, "b": 2, "c": 1}
    assert stored["mean_ir"] == pytest.approx(7 / 3)
    assert (stored["documents"], stored["labels"], stored["without_labels"]) == (5, 3, 1)
    assert (stored["vocabulary"], stored["words"]) == (4, 1.2)
    assert stored["density"] == pytest.approx(7 / 15)
    assert ["MeanIR", "2.33"] in [line.split() for line in found.table().splitlines()]
