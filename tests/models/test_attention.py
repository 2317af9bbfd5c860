"""Attention against its definition in float64, in each formulation."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.models import attention
from crabjax.models.on_gpu import attention as on_gpu

FLOOR = np.finfo(np.float32).min / 2
HEADS = 2


def given(tokens=64, width=32, scale=1.0, seed=0, documents=3, common=0.0):
    """Queries, keys, values [B, T, D] as bfloat16 has them, floors; the last document is padded.

    What keys have in common moves the scores of a query, however large, and not its weights.
    """
    drawn = np.random.default_rng(seed).normal(size=(3, documents, tokens, width))
    drawn[0] *= scale
    drawn[1] += common
    query, key, value = (np.asarray(jnp.bfloat16(one), np.float64) for one in drawn)
    floor = np.zeros((documents, tokens), np.float32)
    floor[-1, tokens // 3 :] = FLOOR
    return query, key, value, floor


def oracle(query, key, value, floor, rounded=False):
    """Document by document, head by head, token by token; with products rounded to bfloat16."""
    mixed = np.zeros(query.shape)
    own = query.shape[2] // HEADS
    for document, head in np.ndindex(len(query), HEADS):
        columns, seen = slice(head * own, (head + 1) * own), floor[document] == 0
        for token in range(query.shape[1]):
            products = key[document, seen, columns] @ query[document, token, columns]
            if rounded:
                products = np.asarray(jnp.bfloat16(products), np.float64)
            weights = np.exp((products - products.max()) / np.sqrt(own))
            mixed[document, token, columns] = weights @ value[document, seen, columns]
            mixed[document, token, columns] /= weights.sum()
    return mixed


def in_bfloat16(function, arrays):
    halves = [jnp.asarray(one, jnp.bfloat16) for one in arrays[:3]]
    return np.asarray(function(*halves, jnp.asarray(arrays[3])), np.float64)


def test_float32_is_the_definition():
    arrays = given()
    found = attention.attend(*(jnp.asarray(one, jnp.float32) for one in arrays), heads=HEADS)
    np.testing.assert_allclose(found, oracle(*arrays), atol=2e-6)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("common", [0.0, 8.0])
def test_bfloat16_is_the_definition_with_large_scores_too(scale, common):
    arrays = given(scale=scale, common=common)
    found = in_bfloat16(functools.partial(attention.attend, heads=HEADS), arrays)
    error = np.abs(found - oracle(*arrays, rounded=True))
    assert error.max() < 0.1
    assert error.mean() < 0.004


@pytest.mark.parametrize(("tokens", "width"), [(64, 32), (128, 64), (192, 128)])
@pytest.mark.parametrize(("scale", "common"), [(1.0, 0.0), (30.0, 0.0), (30.0, 8.0)])
def test_the_kernel_of_gpus_is_the_definition(tokens, width, scale, common):
    arrays = given(tokens, width, scale, documents=2, common=common)
    kernel = functools.partial(on_gpu.attend, HEADS, interpret=True)
    found = in_bfloat16(kernel, arrays)
    error = np.abs(found - oracle(*arrays))
    assert error.max() < (0.03 if scale == 1 else 0.2)
    assert error.mean() < 0.004


def test_the_kernel_of_gpus_takes_members():
    arrays = [given(documents=2, seed=seed) for seed in (0, 1)]
    halves = [jnp.stack([jnp.bfloat16(one[i]) for one in arrays]) for i in range(3)]
    kernel = functools.partial(on_gpu.attend, HEADS, interpret=True)
    floor = jnp.asarray(arrays[0][3])
    found = jax.vmap(kernel, in_axes=(0, 0, 0, None))(halves[0], halves[1], halves[2], floor)
    for member, own in zip(found, arrays):
        np.testing.assert_allclose(np.asarray(member, float), oracle(*own), atol=0.03)


@pytest.mark.parametrize("formulation", [attention._plain, on_gpu.attend])
def test_a_document_of_nothing_but_padding_gives_numbers(formulation):
    *arrays, floor = given(documents=1)
    options = {"interpret": True} if formulation is on_gpu.attend else {}
    function = functools.partial(formulation, HEADS, **options)
    assert np.isfinite(in_bfloat16(function, (*arrays, np.full_like(floor, FLOOR)))).all()


def test_gradients_in_bfloat16_are_those_of_the_definition():
    *arrays, floor = given()
    halves = [jnp.asarray(one, jnp.bfloat16) for one in arrays]

    def loss(formulation, *arrays):
        return jnp.sum(jnp.square(formulation(*arrays, floor).astype(jnp.float32)))

    attend = functools.partial(attention.attend, heads=HEADS)
    found = jax.grad(functools.partial(loss, attend), (0, 1, 2))(*halves)
    plain = functools.partial(attention._plain, HEADS)
    wide = [jnp.asarray(one, jnp.float32) for one in arrays]
    wanted = jax.grad(functools.partial(loss, plain), (0, 1, 2))(*wide)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(np.asarray(one, float), other, atol=0.03 * np.abs(other).max())


@pytest.mark.parametrize(("platform", "calls"), [("cuda", 1), ("tpu", 0), ("cpu", 0)])
def test_only_gpus_get_the_kernel(platform, calls):
    assert lowered(platform, (4, 128, 768)).count("custom_call @") == calls


@pytest.mark.parametrize(
    "shape", [(4, 100, 768), (4, 128, 132 * 12)], ids=["odd length", "odd width"]
)
def test_gpus_do_without_the_kernel_where_it_does_not_fit(shape):
    assert "custom_call @" not in lowered("cuda", shape)


@pytest.mark.parametrize(
    ("gpus", "fit"),
    [
        (["9.0"], True),
        (["8.6", "12.0"], True),
        (["7.5"], False),
        (["8.0", "7.0"], False),
        (["gfx942"], False),
    ],
)
def test_old_gpus_do_without_the_kernel(monkeypatch, gpus, fit):
    half = jnp.zeros((4, 128, 768), jnp.bfloat16)
    found = [SimpleNamespace(compute_capability=one) for one in gpus]
    monkeypatch.setattr(on_gpu.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(on_gpu.jax, "local_devices", lambda: found)
    assert on_gpu.suits(half, half, 12) == fit


def test_the_kernel_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("CRABJAX_KERNELS", "off")
    assert "custom_call @" not in lowered("cuda", (4, 128, 768))


def lowered(platform, shape):
    """The text of attention of 12 heads for a platform, before its compiler sees it."""
    half = jax.ShapeDtypeStruct(shape, jnp.bfloat16)
    floor = jax.ShapeDtypeStruct(shape[:2], jnp.float32)
    traced = jax.jit(lambda *arrays: attention.attend(*arrays, heads=12)).trace(*[half] * 3, floor)
    return traced.lower(lowering_platforms=(platform,)).as_text()
