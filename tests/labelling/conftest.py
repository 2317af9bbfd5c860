"""What tests of labelling projects share."""

import pytest

from crabjax.config import from_overrides
from crabjax.labelling import Project


@pytest.fixture
def project(tmp_path):
    """Forty texts, d0 to d39, two labels and a tiny classifier."""
    lines = ["id,text", *(f"d{number},words of text {number}" for number in range(40))]
    (tmp_path / "pool.csv").write_text("\n".join(lines))
    config = from_overrides(["model.kernels=4", "model.embedding=4", "model.widths=2"])
    return Project.create(tmp_path / "labelling", tmp_path / "pool.csv", ["a", "b"], config)
