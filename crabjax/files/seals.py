"""Sums inside JSON objects, by which a changed byte is noticed.

A sum is optional on reading: files of earlier versions have none, and a person who mends a file by
hand takes it out.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SUM = "sum"


class BrokenSealError(ValueError):
    """Content that is not what was written."""


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with a sum over all of it."""
    return {**record, SUM: sum_of(record)}


def open_sealed(record: Any) -> Any:
    """The record without its sum.

    Raises:
      BrokenSealError: if it has one that does not fit.
    """
    if not isinstance(record, dict) or SUM not in record:
        return record
    content = {key: value for key, value in record.items() if key != SUM}
    if record[SUM] != sum_of(content):
        raise BrokenSealError(
            f'the content is not what was written, by its "{SUM}"; take "{SUM}" out after a '
            "change by hand"
        )
    return content


def sum_of(content: Any) -> str:
    """:func:`json_hash`, shortened."""
    return json_hash(content)[:16]


def json_hash(content: Any) -> str:
    """SHA-256 of a JSON-able value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
