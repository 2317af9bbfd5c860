"""What accelerators are given, run on a CPU, against the labels one by one."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.scoring import BetaRule, expected_loss_reduction, total_loss_reduction
from crabjax.scoring.gain import _at_once, _matrix_product, _one_by_one, _unrolled_product, gains


class HalfBrier(NamedTuple):
    """The rule of alpha = beta = 1 as one's own."""

    def entropy(self, q):
        return q * (1 - q) / 2


WAYS = {"tpu": (_matrix_product, 128), "gpu": (_unrolled_product, 1)}


def by_label(labels, members=5, candidates=7, anchors=11, disagreement=1.0):
    """[K, E, C], [K, E, P], [K]."""
    random = np.random.default_rng(labels)
    shared = random.normal(-1, 2, (labels, 1, candidates + anchors))
    own = random.normal(0, disagreement, (labels, members, candidates + anchors))
    probs = (1 / (1 + np.exp(-shared - own))).astype(np.float32)
    weights = random.uniform(0, 2, labels).astype(np.float32)
    return tuple(map(jnp.asarray, (probs[..., :candidates], probs[..., candidates:], weights)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("labels", "members", "rule", "total"),
    [
        (3, 5, (0.1, 3), False),
        (3, 5, (0.1, 3), True),
        (129, 2, (0, 0), True),
        (2, 17, (2.5, 1), False),
    ],
)
def test_all_labels_at_once_equal_one_by_one(way, labels, members, rule, total):
    product, lanes = WAYS[way]
    arrays = by_label(labels, members)
    rule = BetaRule(*rule)
    expected = _one_by_one(*arrays, rule=rule, total=total)
    found = _at_once(*arrays, rule=rule, total=total, product=product, lanes=lanes)
    assert found.shape == ((7,) if total else (7, 11))
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize(
    ("platform", "rule", "loops"),
    [
        *(("cpu", (0.1, 3), True), ("tpu", (0.1, 3), False), ("cuda", (0.1, 3), False)),
        ("cuda", (0.5, 1.7), True),  # a long formula, label by label anywhere
    ],
)
def test_accelerators_go_through_no_loop_over_labels(platform, rule, loops):
    sizes = [jax.ShapeDtypeStruct(size, jnp.float32) for size in ((5, 7, 3), (5, 11, 3), (3,))]
    traced = jax.jit(gains, static_argnums=(3, 4)).trace(*sizes, BetaRule(*rule), False)
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    assert ("stablehlo.while" in text) == loops
    # a TPU multiplies in bfloat16 unless it is told otherwise: small gains would be rounding
    assert text.count("stablehlo.dot_general") == text.count("precision = [HIGHEST, HIGHEST]")


@pytest.mark.parametrize(("anchors", "padded"), [(11, 128), (128, 128), (129, 256)])
def test_anchors_fill_the_lanes_of_a_tpu(anchors, padded):
    sizes = []

    def product(influence, deviation):
        sizes.append(deviation.shape[-1])
        return _matrix_product(influence, deviation)

    at_once = functools.partial(_at_once, rule=BetaRule(), total=False, product=product, lanes=128)
    assert jax.eval_shape(at_once, *by_label(3, anchors=anchors)).shape == (7, anchors)
    assert sizes == [padded]


@pytest.mark.parametrize("way", WAYS)
def test_small_gains_keep_their_digits_at_once(way):
    """Gains of 1e-12 and less, against float64, which goes by another formula."""
    product, lanes = WAYS[way]
    arrays = by_label(3, disagreement=1e-5)
    with jax.enable_x64(True):
        wide = tuple(jnp.asarray(np.asarray(one), jnp.float64) for one in arrays)
        expected = np.asarray(_one_by_one(*wide, rule=BetaRule(), total=False))
    assert np.max(expected) < 1e-11
    found = _at_once(*arrays, rule=BetaRule(), total=False, product=product, lanes=lanes)
    np.testing.assert_allclose(found, expected, rtol=2e-2)


@pytest.mark.parametrize("rule", [(0.1, 3), (3, 0.1), (0, 0), (0.5, 1.7)])
def test_totals_are_row_sums_and_padding_adds_nothing(rule):
    candidates, anchors, weights = by_label(4, candidates=30)
    first, second = (np.moveaxis(np.asarray(one), 0, 2) for one in (candidates, anchors))
    score = lambda c, a: total_loss_reduction(c, a, BetaRule(*rule), weights, chunk_size=8)
    rows = expected_loss_reduction(first, second, BetaRule(*rule), weights)
    totals = score(first, second)
    np.testing.assert_allclose(totals, np.sum(rows, axis=1), rtol=1e-5)
    padded = np.pad(second, ((0, 0), (0, 5), (0, 0)))
    np.testing.assert_allclose(score(first, padded), totals, rtol=1e-6)
    on_device = score(jnp.asarray(first), jnp.asarray(second))
    np.testing.assert_allclose(on_device, totals, rtol=1e-6)


def test_a_rule_of_ones_own_gives_the_gains_of_the_same_rule_of_the_family():
    candidates, anchors, weights = by_label(4)
    first, second = (np.moveaxis(np.asarray(one), 0, 2) for one in (candidates, anchors))
    found = expected_loss_reduction(first, second, HalfBrier(), weights)
    expected = expected_loss_reduction(first, second, BetaRule(1, 1), weights)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.min(expected, axis=0).max() > 1e-4
