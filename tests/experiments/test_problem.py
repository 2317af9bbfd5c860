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
    assert (found.initial[0] != found.initial[1]).any()
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


def test_a_first_batch_larger_than_the_pool_is_named():
    changes = {"loop": {"initial_size": 389}, "data": {"validation_size": 12}}
    tree = merge(TREE, changes | {"ensemble": {"keep": "best"}})
    with pytest.raises(ProblemError, match=r"loop\.initial_size: expected at most the 388"):
        prepare(from_dict(tree))


def test_the_schedule_ends_with_the_pool():
    found = prepare(from_dict(merge(TREE, {"loop": {"rounds": 100, "query_size": 150}})))
    assert found.rounds == 3  # 400 - 10 first: 390 in queries of 150


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


def with_vectors(tmp_path, **loop):
    """The built-in corpus with vectors of one's own, 12 documents of it for validation."""
    generator = np.random.default_rng(0)
    for name, rows in (("vectors", 400), ("test_vectors", 10)):
        np.save(tmp_path / f"{name}.npy", generator.normal(size=(rows, 8)).astype(np.float32))
    vectors = {name: str(tmp_path / f"{name}.npy") for name in ("vectors", "test_vectors")}
    changes = {
        "data": vectors | {"validation_size": 12},
        "model": {"name": "frozen"},
        "ensemble": {"keep": "best"},
        "loop": loop,
    }
    return prepare(from_dict(merge(TREE, changes)))


def test_half_of_the_first_batch_is_drawn_as_all_of_it_would_be(tmp_path):
    half, drawn = (with_vectors(tmp_path, first_batch=how) for how in ("half_covering", "random"))
    assert half.initial.shape == drawn.initial.shape == (2, 10)
    np.testing.assert_array_equal(half.held_out, drawn.held_out)
    np.testing.assert_array_equal(half.validation_rows, drawn.validation_rows)
    for own, other, held_out in zip(half.initial, drawn.initial, half.held_out):
        assert len(set(own) & set(other)) >= 5
        assert not set(own) & set(held_out)
        assert len(set(own)) == 10
        assert (np.diff(own) > 0).all()
        assert set(own) != set(other)
    again = with_vectors(tmp_path)
    np.testing.assert_array_equal(again.initial, half.initial)


def test_classifiers_without_vectors_begin_at_random():
    covering, drawn = (
        prepare(from_dict(merge(TREE, {"loop": {"first_batch": how}}))).initial
        for how in ("half_covering", "random")
    )
    np.testing.assert_array_equal(covering, drawn)
