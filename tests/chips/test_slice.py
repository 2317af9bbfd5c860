"""Programs shared out over the four chips of a v5e slice: devices need nothing from each other."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.devices.compile_for import chip_devices, compile_for
from crabjax.devices.mesh import ENSEMBLE, POOL
from crabjax.ensemble import on_mesh
from crabjax.ensemble.step import Recipe
from crabjax.ensemble.train import TrainingData
from crabjax.models import build_model
from crabjax.pool.score import _score_on_mesh
from crabjax.scoring import BetaRule, expected_loss_reduction, total_loss_reduction

MEMBERS, DOCUMENTS, TOKENS, WORDS, LABELS = 14, 640, 64, 5000, 10
MODEL = build_model(ModelConfig(name="text_cnn"), WORDS, LABELS)


@pytest.fixture(scope="module")
def mesh():
    return Mesh(np.array(chip_devices("v5e")).reshape(2, 2), (ENSEMBLE, POOL))


def shape(mesh, dtype, sizes, *axes) -> Any:
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=NamedSharding(mesh, PartitionSpec(*axes)))


def members_of(mesh) -> Any:
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), MEMBERS))
    params = jax.eval_shape(jax.vmap(MODEL.init), keys)
    return jax.tree.map(lambda leaf: shape(mesh, leaf.dtype, leaf.shape, ENSEMBLE), params)


def compiled(function, *arguments):
    return compile_for("v5e", function, *arguments, axes={"members": MEMBERS // 2})


def test_training_exchanges_nothing(mesh):
    data = TrainingData(
        shape(mesh, jnp.int32, (DOCUMENTS, TOKENS)),
        shape(mesh, jnp.float32, (DOCUMENTS, LABELS)),
        shape(mesh, jnp.uint32, (MEMBERS, 2), ENSEMBLE),
        shape(mesh, jnp.int32, (MEMBERS, 100), ENSEMBLE),
        shape(mesh, jnp.int32, (MEMBERS,), ENSEMBLE),
        shape(mesh, jnp.int32, (MEMBERS, 50), ENSEMBLE),
    )
    recipe = Recipe(MODEL, EnsembleConfig(batch_size=20, epochs=4), 50)
    params, epoch = members_of(mesh), shape(mesh, jnp.int32, ())
    begun = jax.eval_shape(functools.partial(on_mesh._start, mesh, recipe), params, data)
    fixed, training = jax.tree.map(
        lambda leaf: shape(mesh, leaf.dtype, leaf.shape, ENSEMBLE), begun
    )
    report = compiled(on_mesh._train, mesh, recipe, fixed, training, data, epoch, epoch)
    assert report.collectives == ()
    assert [loop for loop in report.loops if "members" in loop.over] == []


def test_prediction_exchanges_nothing(mesh):
    inputs = shape(mesh, jnp.int32, (DOCUMENTS, TOKENS), POOL)
    report = compiled(on_mesh.member_logits, mesh, MODEL, members_of(mesh), inputs)
    assert report.collectives == ()
    # Half of the members lie on a device, and half of the documents.
    table = 4 * MEMBERS // 2 * WORDS * 64
    assert table < report.arguments < 2 * table


@pytest.mark.parametrize("kernel", [expected_loss_reduction, total_loss_reduction])
def test_scores_exchange_nothing(mesh, kernel):
    candidates = shape(mesh, jnp.float32, (512, 5, LABELS), (ENSEMBLE, POOL))
    anchors = shape(mesh, jnp.float32, (5, 96, LABELS))
    weights = shape(mesh, jnp.float32, (LABELS,))
    report = compiled(_score_on_mesh, mesh, kernel, BetaRule(), candidates, anchors, weights)
    assert report.collectives == ()


def test_a_collective_would_be_seen(mesh):
    summed = jax.jit(lambda values: jnp.sum(values, axis=0))
    report = compiled(summed, shape(mesh, jnp.float32, (64, 32), POOL))
    assert len(report.collectives) == 1
