"""Every public kernel under jit, vmap, grad, scan, shard_map, export, donation and sharding."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from crabjax import (
    BetaRule,
    attention_label_weights,
    beta_entropy,
    beta_losses,
    correlation_attention,
    drop_implied_labels,
    evaluate,
    expected_loss_reduction,
    has_exclusive_pair,
    has_no_label,
    label_correlation,
    pseudo_labels,
    total_loss_reduction,
    update,
)

SLOW = pytest.mark.slow

RANDOM = np.random.default_rng(0)
PROBS = RANDOM.random((3, 8, 4), np.float32)  # [E, X, K]
OTHERS = RANDOM.random((3, 8, 4), np.float32)
MEMBERS = RANDOM.random((8, 8, 4), np.float32)  # one a device
LABELS = RANDOM.random((8, 4)) < 0.5
SQUARE = RANDOM.random((4, 4), np.float32)
RULE = BetaRule()

# Each as a function of arrays alone; the first axis named is the one shards are cut over.
KERNELS = {
    "beta_entropy": (lambda q: beta_entropy(q, RULE), (PROBS[0],), (0,), 0),
    "beta_losses": (lambda q: beta_losses(q, RULE), (PROBS[0],), (0,), 0),
    "gains": (lambda c, a: expected_loss_reduction(c, a, RULE), (PROBS, OTHERS), (1, None), 0),
    "gains, anchors cut": (expected_loss_reduction, (PROBS, OTHERS), (None, 1), 1),
    "totals": (lambda c, a: total_loss_reduction(c, a, RULE), (PROBS, OTHERS), (1, None), 0),
    "gains, any rule": (
        lambda c, a: expected_loss_reduction(c, a, BetaRule(0.5, 1.7)),
        (PROBS, OTHERS),
        (1, None),
        0,
    ),
    "pseudo_labels": (pseudo_labels, (PROBS[0],), (0,), 0),
    "drop_implied": (
        lambda y, a: drop_implied_labels(y, a, 0.6),
        (LABELS, SQUARE),
        (0, None),
        0,
    ),
    "exclusive": (lambda y, a: has_exclusive_pair(y, a, 0.6), (LABELS, SQUARE), (0, None), 0),
    "has_no_label": (has_no_label, (LABELS,), (0,), 0),
    "correlation": (label_correlation, (LABELS,), (None,), None),
    "update": (lambda y: update(label_correlation(y), y), (LABELS,), (None,), None),
    "attention": (correlation_attention, (SQUARE,), (None,), None),
    "label_weights": (attention_label_weights, (SQUARE,), (None,), None),
    "evaluate": (evaluate, (MEMBERS, LABELS), (0, None), 0),
}
DIFFERENTIABLE = ["beta_entropy", "beta_losses", "gains", "totals", "gains, any rule"]
DIFFERENTIABLE += ["attention", "label_weights"]
each_kernel = pytest.mark.parametrize("name", KERNELS)


def same(found, expected):
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    jax.tree.map(close, found, expected)


@each_kernel
def test_jit(name):
    kernel, arrays, _, _ = KERNELS[name]
    same(jax.jit(kernel)(*arrays), kernel(*arrays))


@each_kernel
def test_vmap(name):
    kernel, arrays, _, _ = KERNELS[name]
    stacked = [jnp.stack([array, array]) for array in arrays]
    found = jax.vmap(kernel)(*stacked)
    same(jax.tree.map(lambda leaf: leaf[1], found), kernel(*arrays))


@each_kernel
def test_scan(name):
    kernel, arrays, _, _ = KERNELS[name]
    stacked = tuple(jnp.stack([array, array]) for array in arrays)
    found = jax.lax.scan(lambda carry, one: (carry, kernel(*one)), 0, stacked)[1]
    same(jax.tree.map(lambda leaf: leaf[0], found), kernel(*arrays))


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=SLOW if one == "gains, any rule" else ()) for one in DIFFERENTIABLE],
)
def test_grad_is_the_slope(name):
    kernel, (first, *rest), _, _ = KERNELS[name]
    total = lambda x: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(kernel(x, *rest)))
    direction = RANDOM.normal(size=first.shape).astype(np.float32)
    step = 1e-2 * direction / np.linalg.norm(direction)
    inside = np.clip(first, 0.05, 0.95)
    gradient = jax.grad(total)(jnp.asarray(inside))
    slope = (total(inside + step) - total(inside - step)) / 2
    np.testing.assert_allclose(np.sum(gradient * step), slope, rtol=2e-2, atol=1e-5)


def all_devices():
    return jax.make_mesh((jax.device_count(),), ("shard",), axis_types=(AxisType.Auto,))


def cut(axis):
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, "shard")


@each_kernel
def test_shard_map_with_its_defaults(name):
    kernel, arrays, axes, result_axis = KERNELS[name]
    specs = {"in_specs": tuple(map(cut, axes)), "out_specs": cut(result_axis)}
    found = jax.shard_map(kernel, mesh=all_devices(), **specs)(*arrays)
    same(found, kernel(*arrays))


@each_kernel
def test_sharded_in_gives_sharded_out(name):
    kernel, arrays, axes, result_axis = KERNELS[name]
    mesh = all_devices()
    placed = [
        jax.device_put(one, NamedSharding(mesh, cut(axis))) for one, axis in zip(arrays, axes)
    ]
    for found in (kernel(*placed), jax.jit(kernel)(*placed)):
        same(found, kernel(*arrays))
        for leaf in jax.tree.leaves(found) if result_axis is not None else []:
            assert len(leaf.sharding.device_set) == jax.device_count()
            share = leaf.addressable_shards[0].data.shape[result_axis]
            assert share == leaf.shape[result_axis] // jax.device_count()


@pytest.mark.slow
def test_shards_on_eight_devices():
    """In a process apart, as the number of devices is fixed when JAX starts."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-k", "shard"]
    done = subprocess.run(
        [*command, "-m", "not slow", __file__],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{2 * len(KERNELS)} passed" in done.stdout


@each_kernel
def test_export_round_trip(name):
    """So that other runtimes can load a kernel."""
    kernel, arrays, _, _ = KERNELS[name]
    flat = jax.jit(lambda *given: jax.tree.leaves(kernel(*given)))
    stored = export.export(flat)(*map(jnp.asarray, arrays)).serialize()
    found = export.deserialize(bytearray(stored)).call(*map(jnp.asarray, arrays))
    same(found, jax.tree.leaves(kernel(*arrays)))


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@each_kernel
def test_donated_inputs(name):
    kernel, arrays, _, _ = KERNELS[name]
    expected = kernel(*arrays)
    donating = jax.jit(kernel, donate_argnums=tuple(range(len(arrays))))
    same(donating(*map(jnp.array, arrays)), expected)


def test_a_rule_may_be_an_argument_of_a_jitted_function():
    gains = jax.jit(lambda rule, c, a: expected_loss_reduction(c, a, rule))
    for rule in (RULE, BetaRule(1, 1)):
        expected = expected_loss_reduction(PROBS, OTHERS, rule)
        same(gains(rule, PROBS, OTHERS), expected)
        same(jax.jit(expected_loss_reduction, static_argnums=2)(PROBS, OTHERS, rule), expected)
    assert jax.tree.leaves(RULE) == []


@pytest.mark.parametrize("call", [beta_entropy, beta_losses])
def test_a_pair_of_numbers_is_no_rule(call):
    with pytest.raises(TypeError, match=r"rule: expected a BetaRule\(alpha, beta\).*\(0.1, 3\)"):
        call(PROBS, (0.1, 3))
    with pytest.raises(TypeError, match="expected a BetaRule"):
        expected_loss_reduction(PROBS, OTHERS, (0.1, 3))  # type: ignore[arg-type]


def test_arrays_on_a_device_stay_there(monkeypatch):
    """No trip to the host and back: nothing asks for the values of the candidates."""
    on_device = jnp.asarray(PROBS), jnp.asarray(OTHERS)
    expected_loss_reduction(*on_device)
    with jax.transfer_guard_device_to_host("disallow"):
        found = expected_loss_reduction(*on_device)
    same(found, expected_loss_reduction(PROBS, OTHERS))
    fetched = []
    as_numpy = np.asarray
    monkeypatch.setattr(np, "asarray", lambda a, *r, **k: fetched.append(a) or as_numpy(a, *r, **k))
    expected_loss_reduction(*on_device)
    assert not [one for one in fetched if getattr(one, "shape", ()) == PROBS.shape]


@pytest.mark.parametrize(("count", "padded"), [(1, 8), (8, 8), (9, 64), (65, 512), (513, 512)])
def test_few_candidates_cost_little(count, padded):
    from crabjax.scoring import elr

    sizes = []
    original = elr._score_chunk

    def noting(candidates, *rest):
        sizes.append(candidates.shape[1])
        return original(candidates, *rest)

    probs = RANDOM.random((2, count, 2), np.float32)
    expected = expected_loss_reduction(jnp.asarray(probs), probs[:, :3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elr, "_score_chunk", noting)
        found = expected_loss_reduction(probs, probs[:, :3])
    assert sizes[0] == padded
    assert len(sizes) == -(-count // 512)
    same(found, expected)


@pytest.mark.parametrize(("chunk_size", "scored"), [(4, 4), (512, 11)])
def test_arrays_on_a_device_go_in_chunks(chunk_size, scored, monkeypatch):
    """No more pairs are held than of a chunk, and none are of padding where one chunk is enough."""
    from crabjax.scoring import elr

    sizes, original = [], elr._score_chunk

    def noting(candidates, *rest):
        sizes.append(candidates.shape[1])
        return original(candidates, *rest)

    monkeypatch.setattr(elr, "_score_chunk", noting)
    probs = jax.ShapeDtypeStruct((2, 11, 1), jnp.float32)  # of this test alone: traced anew
    score = functools.partial(expected_loss_reduction, chunk_size=chunk_size)
    assert jax.eval_shape(score, probs, probs).shape == (11, 11)
    assert sizes == [scored]


def test_traced_anchors_or_weights_beside_candidates_on_the_host():
    weights = jnp.ones(4)
    by_weight = jax.grad(lambda w: expected_loss_reduction(PROBS, OTHERS, RULE, w).sum())(weights)
    gains = [expected_loss_reduction(PROBS[..., [k]], OTHERS[..., [k]]).sum() for k in range(4)]
    np.testing.assert_allclose(by_weight, gains, rtol=1e-5)
    found = jax.vmap(lambda a: expected_loss_reduction(PROBS, a))(jnp.stack([OTHERS, OTHERS]))
    same(found[0], expected_loss_reduction(PROBS, OTHERS))


CERTAIN = np.array([0.0, 1e-45, 1e-30, 1e-7, 0.3, 0.99999994, 1.0], np.float32)


@pytest.mark.parametrize(
    "rule",
    [
        *((0.5, 0), (0, 0), (0.1, 3)),
        *(pytest.param(one, marks=SLOW) for one in ((0, 0.5), (0.5, 0.5), (0.1, 2.5), (3, 0.1))),
    ],
)
def test_forecasts_at_and_next_to_certainty(rule):
    """Members that are sure, on either side: finite gains, never negative, finite slopes."""
    members = np.stack(np.meshgrid(CERTAIN, CERTAIN), axis=-1).reshape(-1, 2).T[:, :, None]
    score = lambda c, a: expected_loss_reduction(c, a, BetaRule(*rule))
    gains = np.asarray(score(members, members))
    assert np.isfinite(gains).all()
    assert gains.min() >= 0
    by_candidate = jax.grad(lambda c: score(c, jnp.asarray(members)).sum())(jnp.asarray(members))
    assert np.isfinite(by_candidate).all()


def test_a_single_doubt_among_the_sure_counts():
    anchors = np.array([1, 1, 1, 1, 0.99999994], np.float32).reshape(5, 1, 1)
    candidates = np.array([0.001] * 4 + [0.999], np.float32).reshape(5, 1, 1)
    for rule in ((0.5, 0), (0.1, 0), (2.5, 0), (0.5, 0.5)):
        assert expected_loss_reduction(candidates, anchors, BetaRule(*rule))[0, 0] > 0
