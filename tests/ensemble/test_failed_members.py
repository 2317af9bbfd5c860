"""Members whose loss becomes infinite: what is kept of them, and what is said."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.config import EnsembleConfig
from crabjax.ensemble import EnsembleError, fit_ensemble, member_keys, predict_proba
from crabjax.models import Model

CONFIG = EnsembleConfig(batch_size=10, epochs=6, patience=6, learning_rate=0.1, weight_decay=0.0)


def slope_model(limit: float) -> Model:
    """Logits are inputs times a slope that training raises; past the limit they are infinite."""

    def init(key):
        return {"slope": jax.random.uniform(key, (), minval=0.0, maxval=0.01)}

    def apply(params, inputs, key=None):
        slope = params["slope"]
        return inputs * jnp.where(slope > limit, jnp.inf, slope)

    return Model(init, apply, lambda params, inputs: inputs)


def arguments(limit: float) -> dict:
    """Two members that learn alike; every epoch is one step of 0.1."""
    inputs = np.where(np.arange(20) % 2, 1.0, -1.0).astype(np.float32)[:, None]
    rows = np.tile(np.arange(10), (2, 1))
    return {
        "model": slope_model(limit),
        "keys": member_keys(jax.vmap(jax.random.key)(jnp.arange(1)), 2, "independent"),
        "inputs": inputs,
        "labels": inputs > 0,
        "train_rows": rows,
        "train_counts": np.array([10, 10]),
        "validation_rows": rows + 10,
    }


def test_a_member_that_fails_keeps_its_best_epoch(caplog):
    given = arguments(limit=0.35)
    given["inputs"] = np.concatenate([given["inputs"], -given["inputs"]])
    given["labels"] = np.concatenate([given["labels"], given["labels"]])
    given["train_rows"][1] += 20  # the second goes down
    params, info = fit_ensemble(config=CONFIG, **given)
    np.testing.assert_array_equal(info.failed_epoch, [3, -1])
    assert "member 0: the loss was not finite in epoch 3; its epoch 0 is kept" in caplog.text
    np.testing.assert_array_equal(info.best_epoch, [0, 0])
    np.testing.assert_array_equal(info.epochs_run, [4, 6])
    assert np.isfinite(predict_proba(given["model"], params, given["inputs"], 8)).all()


def test_all_members_failing_is_an_error():
    with pytest.raises(EnsembleError, match=r"member 0 in epoch 3.*learning_rate \(now 0.1\)"):
        fit_ensemble(config=CONFIG, **arguments(limit=0.35))


def test_failures_name_the_seed():
    given = arguments(limit=0.35)
    given["keys"] = jax.tree.map(lambda keys: jnp.concatenate([keys, keys]), given["keys"])
    for name in ("train_rows", "train_counts", "validation_rows"):
        given[name] = np.concatenate([given[name]] * 2)
    with pytest.raises(EnsembleError, match=r"member 3 \(member 1 of seeds\[1\]\) in epoch 3"):
        fit_ensemble(config=dataclasses.replace(CONFIG, members=2), **given)


def test_a_member_without_a_finite_epoch_is_an_error():
    given = arguments(limit=100.0)
    given["inputs"] = np.concatenate([given["inputs"], np.full((1, 1), np.inf, np.float32)])
    given["labels"] = np.concatenate([given["labels"], [[True]]])
    given["train_rows"][1, 4] = 20
    with pytest.raises(EnsembleError, match="non-finite: member 1 in epoch 0"):
        fit_ensemble(config=CONFIG, **given)
