"""What the demonstration says of its numbers follows from them."""

import json

import pytest

from crabjax.cli.demo import meaning


@pytest.mark.parametrize(
    ("crab", "random", "expected"), [(0.6, 0.5, "has the higher F1"), (0.5, 0.6, "no higher F1")]
)
def test_the_demo_looks_at_the_areas(tmp_path, crab, random, expected):
    areas = {"crab": crab, "random": random}
    summary = {name: {"decided_micro_f1": {"area": {"mean": areas[name]}}} for name in areas}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert expected in meaning(tmp_path)
    assert f"{crab:.4f} against {random:.4f}" in meaning(tmp_path)
