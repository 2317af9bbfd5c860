"""Eight CPU devices give the results of one; what they run lowers for accelerators.

``test_sharding`` runs this file in a process apart, as the number of devices is fixed when JAX
starts. By hand: ``JAX_NUM_CPU_DEVICES=8 pytest -n 0 tests/devices/eight_devices.py``.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from scipy.special import expit

from crabjax.config import DevicesConfig, EnsembleConfig, ModelConfig
from crabjax.devices.mesh import use_devices
from crabjax.ensemble import fit_ensemble, member_keys, on_mesh, predict_features, predict_logits
from crabjax.ensemble.step import Recipe
from crabjax.ensemble.train import TrainingData
from crabjax.models import build_model
from crabjax.pool.score import Anchors, _score_on_mesh, pool_gains, pool_totals
from crabjax.scoring import BetaRule, expected_loss_reduction, total_loss_reduction

DOCUMENTS, FEATURES, LABELS = 60, 5, 3
MODELS = {
    "frozen": build_model(ModelConfig(name="frozen", hidden=4), FEATURES, LABELS),
    "text_cnn": build_model(ModelConfig(name="text_cnn", embedding=4, kernels=3), 16, LABELS),
}
MODEL = MODELS["frozen"]
CONFIG = EnsembleConfig(batch_size=8, epochs=6, patience=2, learning_rate=0.05)
GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.normal(size=(DOCUMENTS, FEATURES)).astype(np.float32)
TRUTH = INPUTS[:, :LABELS] > 0


def fit(members, at_once=None):
    """Training sets of different sizes, so that members stop in different epochs."""
    keys = member_keys(jax.random.key(3)[None], members, "independent")
    rows = np.tile(np.arange(30, dtype=np.int32), (members, 1))
    counts = 10 + np.arange(members) * 3 % 20
    validation = np.tile(np.arange(30, 45, dtype=np.int32), (members, 1))
    devices = DevicesConfig(members_at_once=at_once)
    return fit_ensemble(MODEL, CONFIG, keys, INPUTS, TRUTH, rows, counts, validation, devices)


@pytest.fixture(scope="module")
def alone():
    """Seven members without a mesh."""
    return fit(7)


def on(ensemble, pool, members=7):
    return use_devices(DevicesConfig(ensemble, pool), members)


def assert_same_fit(found, expected):
    (params, info), (expected_params, expected_info) = found, expected
    members = len(info.best_epoch)
    for field in ("best_epoch", "epochs_run", "failed_epoch"):
        own = getattr(expected_info, field)[:members]
        np.testing.assert_array_equal(getattr(info, field), own)
    np.testing.assert_allclose(info.loss, expected_info.loss[:members], rtol=1e-5)
    for one, other in zip(jax.tree.leaves(params), jax.tree.leaves(expected_params)):
        np.testing.assert_allclose(one, np.asarray(other)[:members], atol=1e-5)


def test_there_are_eight():
    assert jax.device_count() == 8


def test_members_that_fill_the_devices_stay_on_them(alone):
    with on(4, 2, 4):
        params, info = fit(4)
    assert len({info.epochs_run[m] for m in range(4)}) > 1  # devices stop by themselves
    assert_same_fit((params, info), alone)
    (leaf, *_) = jax.tree.leaves(params)
    assert len(leaf.sharding.device_set) == 8
    assert leaf.addressable_shards[0].data.shape[0] == 1


@pytest.mark.parametrize(("shape", "at_once"), [((8, 1), None), ((2, 3), 2)])
def test_members_that_do_not_fill_the_devices(alone, shape, at_once):
    with on(*shape):
        found = fit(7, at_once)
    assert_same_fit(found, alone)


@pytest.mark.parametrize("shape", [(2, 4), (3, 2)])
def test_prediction(alone, shape):
    params = alone[0]
    first = jax.tree.map(lambda leaf: leaf[0], params)
    expected = predict_logits(MODEL, params, INPUTS, 8), predict_features(MODEL, first, INPUTS, 8)
    with on(*shape):
        logits = predict_logits(MODEL, params, INPUTS, 8)
        features = predict_features(MODEL, first, INPUTS, 4)
        some = predict_logits(MODEL, params, INPUTS[:3], None)
    np.testing.assert_allclose(logits, expected[0], atol=1e-5)
    np.testing.assert_allclose(some, expected[0][:, :3], atol=1e-5)
    np.testing.assert_allclose(features, expected[1], atol=1e-5)


def test_prediction_with_parameters_that_lie_on_the_devices(alone):
    expected = predict_logits(MODEL, alone[0], INPUTS, 8)[:4]
    with on(4, 2, 4):
        params, _ = fit(4)
        np.testing.assert_allclose(predict_logits(MODEL, params, INPUTS, 8), expected, atol=1e-5)
        of_one_seed = jax.tree.map(lambda leaf: leaf[1:3], params)
        found = predict_logits(MODEL, of_one_seed, INPUTS, 8)
        np.testing.assert_allclose(found, expected[1:3], atol=1e-5)
    # The same parameters go on working where there is no mesh.
    np.testing.assert_allclose(predict_logits(MODEL, params, INPUTS, 8), expected, atol=1e-5)


@pytest.mark.parametrize("weights", [None, np.array([1, 0, 2.5], np.float32)])
def test_scores(weights, monkeypatch):
    logits = GENERATOR.normal(size=(5, 700, LABELS)).astype(np.float32)
    candidates = np.arange(3, 650)
    probabilities = expit(logits[:, 650:670])
    probabilities[:, 17:] = 0  # padding
    anchors = Anchors(probabilities, 17)
    expected = pool_gains(logits, candidates, anchors, BetaRule(), weights)
    devices = []

    def noted(*given):
        scores = _score_on_mesh(*given)
        devices.append(len(scores.sharding.device_set))
        return scores

    monkeypatch.setattr("crabjax.pool.score._score_on_mesh", noted)
    with on(4, 2):
        found = pool_gains(logits, candidates, anchors, BetaRule(), weights)
        totals = pool_totals(logits, candidates, anchors, BetaRule(), weights)
    assert found.shape == (647, 17)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(totals, expected.sum(axis=1), rtol=1e-5)
    assert devices == [8, 8]


def shape(*size, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(size, dtype)


def trace_sharded(name, mesh):
    """Every program that runs on a mesh, on abstract arrays."""
    model = MODELS[name]
    params = jax.eval_shape(jax.vmap(model.init), shape(4, dtype=jax.random.key(0).dtype))
    first = jax.tree.map(lambda leaf: shape(*leaf.shape[1:]), params)
    inputs = shape(16, FEATURES, dtype=jnp.float32 if name == "frozen" else jnp.int32)
    rows = (shape(4, *own, dtype=jnp.int32) for own in ((8,), (), (6,)))
    data = TrainingData(inputs, shape(16, LABELS), shape(4, 2, dtype=jnp.uint32), *rows)
    scored = shape(16, 4, LABELS), shape(4, 5, LABELS), shape(LABELS)
    recipe, epoch = Recipe(model, CONFIG, 8), jnp.int32(0)
    begun = jax.eval_shape(functools.partial(on_mesh._start, mesh, recipe), params, data)
    yield on_mesh._train.trace(mesh, recipe, *begun, data, epoch, epoch)
    yield on_mesh.member_logits.trace(mesh, model, params, inputs)
    yield on_mesh.member_features.trace(mesh, model, first, inputs)
    for kernel in (expected_loss_reduction, total_loss_reduction):
        yield _score_on_mesh.trace(mesh, kernel, BetaRule(), *scored)


@pytest.mark.parametrize("name", MODELS)
def test_sharded_programs_lower_for_accelerators(name):
    with on(4, 2) as mesh:
        programs = list(trace_sharded(name, mesh))
    for traced in programs:
        for platform in ("cuda", "tpu"):
            text = traced.lower(lowering_platforms=(platform,)).as_text()
            assert '"ensemble"=4, "pool"=2' in text
            assert "mhlo.num_partitions = 8" in text


def test_sharded_candidates_give_sharded_scores():
    mesh = jax.make_mesh((8,), ("documents",), axis_types=(AxisType.Auto,))
    cut = NamedSharding(mesh, PartitionSpec(None, "documents"))
    probs = np.random.default_rng(0).random((3, 32, LABELS), np.float32)
    candidates = jax.device_put(probs, cut)
    found = expected_loss_reduction(candidates, probs[:, :5])
    assert len(found.sharding.device_set) == 8
    assert found.addressable_shards[0].data.shape == (4, 5)
    np.testing.assert_allclose(found, expected_loss_reduction(probs, probs[:, :5]), rtol=1e-5)
    totals = total_loss_reduction(candidates, probs[:, :5])
    assert totals.addressable_shards[0].data.shape == (4,)
    np.testing.assert_allclose(totals, found.sum(axis=1), rtol=1e-5)
