"""Every kernel lowers for accelerators from a machine that has none."""

import jax
import jax.numpy as jnp
import pytest

from crabjax import scoring

PLATFORMS = ("cuda", "tpu")


def assert_lowers(function, *shapes, **arguments):
    """Traces ``function`` on abstract arrays and lowers it for each platform."""
    traced = jax.jit(lambda *arrays: function(*arrays, **arguments)).trace(*shapes)
    for platform in PLATFORMS:
        traced.lower(lowering_platforms=(platform,))


def floats(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def flags(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.bool_)


@pytest.mark.parametrize("rule", [(0.1, 3), (0, 0), (0.5, 1.7)])
def test_beta_rules_and_expected_loss_reduction(rule):
    rule = scoring.BetaRule(*rule)
    assert_lowers(scoring.beta_losses, floats(7), rule=rule)
    assert_lowers(scoring.beta_entropy, floats(7), rule=rule)
    documents = (floats(5, 9, 3), floats(5, 4, 3))
    assert_lowers(scoring.expected_loss_reduction, *documents, rule=rule, chunk_size=4)
    assert_lowers(scoring.total_loss_reduction, *documents, rule=rule, chunk_size=4)


def test_correlations():
    assert_lowers(scoring.label_correlation, flags(9, 3))
    correlation = jax.eval_shape(scoring.label_correlation, flags(9, 3))
    assert_lowers(scoring.update, correlation, flags(9, 3))
    assert_lowers(scoring.correlation_attention, floats(3, 3))
    assert_lowers(scoring.attention_label_weights, floats(3, 3))
    assert_lowers(scoring.pseudo_labels, floats(9, 3))
    assert_lowers(scoring.drop_implied_labels, flags(9, 3), floats(3, 3), sigma=0.6827)
    assert_lowers(scoring.has_exclusive_pair, flags(9, 3), floats(3, 3), threshold=0.9545)
    assert_lowers(scoring.has_no_label, flags(9, 3))
