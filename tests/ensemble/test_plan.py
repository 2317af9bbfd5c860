"""How training is laid out: plans for chips that are not here; members do not depend on them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.config import DevicesConfig, EnsembleConfig, ModelConfig
from crabjax.ensemble import fit, fit_ensemble, member_keys
from crabjax.ensemble.plan import Device, FitShapes, plan_fit
from crabjax.ensemble.step import Recipe
from crabjax.models import build_model
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier

BASE = Architecture("distilbert", 30522, positions=512, width=768, inner=3072, heads=12, layers=6)
V5E, RTX_3090 = Device("tpu", 16e9), Device("gpu", 24e9)
NOTHING_SET = DevicesConfig()


@pytest.fixture(scope="module")
def distilbert():
    return Recipe(transformer_classifier(BASE, 19, precision="bfloat16"), EnsembleConfig(), 64)


def shapes(inputs, members=5):
    """Of the paper's runs on MIMIC: 19 labels, up to 1,100 training documents."""
    shape: Any = jax.ShapeDtypeStruct
    rows = tuple(shape((members, *own), jnp.int32) for own in ((1100,), (), (1000,)))
    return FitShapes(inputs, shape((20000, 19), jnp.float32), KEY, rows)


KEY = jax.random.key(0).dtype
TOKENS: Any = jax.ShapeDtypeStruct((20000, 256), jnp.int32)


def test_distilbert_on_a_v5e_is_trained_one_member_after_another(distilbert):
    plan = plan_fit(distilbert, NOTHING_SET, 5, shapes(TOKENS), V5E)
    assert (plan.at_once, plan.recomputed, plan.fits) == (1, "nothing", True)
    assert "one after another" in plan.reason
    assert plan.bytes == pytest.approx(2.9e9, rel=0.25)  # the compiler says 2.9 GB


def test_more_members_one_after_another_need_no_more_memory(distilbert):
    few, many = (plan_fit(distilbert, NOTHING_SET, n, shapes(TOKENS, n), V5E) for n in (5, 25))
    assert (many.at_once, many.recomputed, many.fits) == (1, "nothing", True)
    assert many.bytes == pytest.approx(few.bytes, rel=0.01)


def test_distilbert_fits_the_card_of_the_paper(distilbert):
    plan = plan_fit(distilbert, NOTHING_SET, 5, shapes(TOKENS), RTX_3090)
    assert (plan.at_once, plan.recomputed, plan.fits) == (1, "nothing", True)
    assert plan.reason == "memory"
    roomy = plan_fit(distilbert, NOTHING_SET, 5, shapes(TOKENS), Device("gpu", 80e9))
    assert (roomy.at_once, roomy.recomputed, roomy.fits, roomy.reason) == (
        5,
        "nothing",
        True,
        "all",
    )


def test_all_at_once_computes_again_what_it_takes_to_fit(distilbert):
    all_at_once = DevicesConfig(members_at_once=5)
    plan = plan_fit(distilbert, all_at_once, 5, shapes(TOKENS), RTX_3090)
    assert (plan.at_once, plan.recomputed, plan.fits) == (5, "cheap", True)
    roomy = plan_fit(distilbert, all_at_once, 5, shapes(TOKENS), Device("gpu", 80e9))
    assert (roomy.at_once, roomy.recomputed, roomy.fits) == (5, "nothing", True)
    assert roomy.bytes > plan.bytes


def test_what_is_set_is_left_so(distilbert):
    small = Device("gpu", 1e9)
    settings = DevicesConfig(members_at_once=2, rematerialise=False)
    plan = plan_fit(distilbert, settings, 5, shapes(TOKENS), small)
    assert (plan.at_once, plan.recomputed, plan.reason) == (2, "nothing", "as set")
    assert not plan.fits


@pytest.mark.parametrize("device", [V5E, RTX_3090])
def test_small_models_are_trained_all_at_once(device):
    model = build_model(ModelConfig(name="frozen"), 384, 19)
    inputs: Any = jax.ShapeDtypeStruct((20000, 384), jnp.float32)
    plan = plan_fit(
        Recipe(model, EnsembleConfig(), 64), NOTHING_SET, 25, shapes(inputs, 25), device
    )
    assert (plan.at_once, plan.recomputed, plan.fits, plan.reason) == (25, None, True, "all")


@pytest.mark.slow
@pytest.mark.parametrize("rematerialise", [None, True])
def test_members_do_not_depend_on_how_they_are_grouped(rematerialise, monkeypatch):
    small = Architecture("distilbert", 50, positions=8, width=8, inner=12, heads=2, layers=2)
    model = transformer_classifier(small, 2)
    generator = np.random.default_rng(0)
    tokens = generator.integers(1, 50, (40, 8)).astype(np.int32)
    rows = np.stack([generator.permutation(20)[:16] for _ in range(3)])
    keys = member_keys(jax.random.key(0)[None], 3, "independent")
    counts, validation = np.array([16, 12, 16]), np.tile(np.arange(20, 40), (3, 1))
    config = EnsembleConfig(batch_size=8, epochs=3, learning_rate=0.01)
    monkeypatch.setattr(fit, "on_cores", lambda mesh: False)
    found = []
    for at_once in (1, 3):
        devices = DevicesConfig(members_at_once=at_once, rematerialise=rematerialise)
        arguments = keys, tokens, tokens[:, :2] > 25, rows, counts, validation
        found.append(fit_ensemble(model, config, *arguments, devices))
    # What a device has trained in groups waits on the host: a plan counts one group only.
    kinds = [{type(leaf) for leaf in jax.tree.leaves(params)} for params, _ in found]
    assert kinds[0] == {np.ndarray}
    assert np.ndarray not in kinds[1]
    for one, other in zip(*map(jax.tree.leaves, found)):
        np.testing.assert_allclose(one, other, atol=2e-5)
