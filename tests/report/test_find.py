"""Runs by name, in the order they are shown."""

import pytest

from crabjax.report.find import in_order

RUNS = {"crab": [1], "no_attention": [2], "random": [3]}


def test_what_is_asked_for_is_shown_as_it_was_asked_for():
    found = in_order("news", RUNS, ["no attention", "crab"])
    assert list(found.items()) == [("no attention", [2]), ("crab", [1])]
    with pytest.raises(ValueError, match="--only crabs: news has crab, no_attention, random"):
        in_order("news", RUNS, ["crabs"])


def test_without_a_wish_the_ones_others_are_compared_with_come_first():
    turned = dict(reversed(RUNS.items()))
    assert list(in_order("news", turned, None)) == ["crab", "random", "no_attention"]
