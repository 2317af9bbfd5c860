"""A changed byte is noticed; files without a sum are read as before."""

import json

import pytest

from crabjax.files.seals import BrokenSealError, open_sealed, seal

RECORD = {"id": "d1", "labels": ["a", "é"], "score": 0.1, "nested": {"b": 1, "a": [None, True]}}


def test_what_was_sealed_is_read_back():
    stored = json.loads(json.dumps(seal(RECORD)))
    assert open_sealed(stored) == RECORD
    assert open_sealed(dict(reversed(stored.items()))) == RECORD


def test_no_sum_is_no_mistake():
    for value in (RECORD, {}, [], 3, None):
        assert open_sealed(value) == value


@pytest.mark.parametrize("change", [{"id": "d2"}, {"labels": []}, {"new": 1}, {"sum": ""}])
def test_any_change_is_noticed(change):
    with pytest.raises(BrokenSealError, match="not what was written"):
        open_sealed(seal(RECORD) | change)
