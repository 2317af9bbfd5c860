"""Texts that are vectors, and their labels."""

import numpy as np
import pytest


@pytest.fixture
def problem():
    """Inputs [120, 6] and labels 0 or 1 [120, 3], each label a side of a plane."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(120, 6))
    return inputs, (inputs @ random.normal(size=(6, 3)) > 0.5).astype(int)
