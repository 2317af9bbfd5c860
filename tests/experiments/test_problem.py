"""What is held out, and what is said before any work begins."""

import numpy as np
import pytest

from crabjax.config import from_dict
from crabjax.config.build import merge
from crabjax.experiments.problem import ProblemError, ProblemWarning, prepare
from crabjax.files import DataError

TREE = {
    "data": {"max_tokens": 6, "synthetic": {"documents": 400, "test_documents": 10}},
    "devices": {"cache": False},
    "loop": {"initial_size": 10, "query_size": 10, "rounds": 2, "seeds": [0, 1]},
}


def problem(keep="best", **data):
    tree = TREE | {"data": TREE["data"] | data, "ensemble": {"keep": keep}}
    return prepare(from_dict(tree))


def test_validation_documents_are_drawn_by_seed_and_leave_the_pool():
    found = problem(validation_size=12)
    assert found.validation_rows.shape == (2, 12)
    assert (found.validation_rows[0] != found.validation_rows[1]).any()
    np.testing.assert_array_equal(found.held_out, np.sort(found.validation_rows, axis=1))
    for first, held_out in zip(found.initial, found.held_out):
        assert not set(first) & set(held_out)


def test_the_last_documents_validate_and_stay_in_the_pool_as_in_the_released_code():
    found = problem(validation_size=12, validation_from="last")
    np.testing.assert_array_equal(found.validation_rows, np.tile(np.arange(388, 400), (2, 1)))
    assert found.held_out.shape == (2, 0)


def test_no_document_is_held_out_where_the_last_epoch_is_kept():
    found = problem(keep="last", validation_size=12)
    assert found.validation_rows.shape == (2, 0)
    assert found.held_out.shape == (2, 0)


def test_too_many_validation_documents_are_named():
    with pytest.raises(ProblemError, match="fewer than the 400 training documents, found 400"):
        problem(validation_size=400)


def test_missing_data_are_said_before_an_encoder_is_looked_for(tmp_path):
    missing = {"train": str(tmp_path / "a.jsonl"), "test": str(tmp_path / "b.jsonl")}
    model = {"name": "distilbert", "pretrained": str(tmp_path / "no encoder either")}
    with pytest.raises(DataError, match=r"data\.train: no such file"):
        prepare(from_dict({"data": missing, "model": model}))


def test_a_query_larger_than_the_pool_is_said():
    with pytest.warns(ProblemWarning, match="5000 asked for, found .* unlabelled documents"):
        found = prepare(
            from_dict(merge(TREE, {"loop": {"query_size": 5000}, "data": {"validation_size": 12}}))
        )
    assert found.rounds == 1
