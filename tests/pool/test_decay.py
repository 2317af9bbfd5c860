import math
from itertools import pairwise

import pytest

from crabjax.pool.decay import decay_factor


@pytest.mark.parametrize("decay", ["polynomial", "linear", "cosine", "constant"])
def test_starts_whole_and_never_grows(decay):
    factors = [decay_factor(t, 8, decay) for t in range(10)]
    assert factors[0] == 1.0
    assert all(before >= after for before, after in pairwise(factors))


def test_values_halfway():
    assert decay_factor(4, 8, "polynomial", 0.5) == pytest.approx(math.sqrt(0.5))
    assert decay_factor(4, 8, "polynomial") == decay_factor(4, 8, "polynomial", 0.5)
    assert decay_factor(4, 8, "polynomial", 2.0) == pytest.approx(0.25)
    assert decay_factor(4, 8, "linear") == pytest.approx(0.5)
    assert decay_factor(2, 8, "cosine") == pytest.approx((1 + math.sqrt(0.5)) / 2)
    assert decay_factor(4, 8, "constant") == 1.0


@pytest.mark.parametrize("decay", ["polynomial", "linear", "cosine"])
def test_nothing_is_left_at_the_end_and_after(decay):
    assert decay_factor(8, 8, decay) == decay_factor(11, 8, decay) == pytest.approx(0.0)
