"""The estimate of a program's memory against what XLA reports; what is chosen from it."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.config import DevicesConfig, EnsembleConfig, ModelConfig
from crabjax.devices import batches, memory
from crabjax.devices.program_memory import compiled_bytes, program_bytes
from crabjax.ensemble import fit, fit_ensemble, member_keys, plan, predict, predict_logits
from crabjax.ensemble.step import Recipe
from crabjax.ensemble.train import TrainingData, trace_training
from crabjax.models import build_model
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier
from crabjax.scoring import expected_loss_reduction

LABELS, DOCUMENTS, MEMBERS = 5, 200, 3
TINY = Architecture("distilbert", 300, positions=32, width=32, inner=64, heads=2, layers=2)


def make_model(name, kernels=20, words=300):
    if name == "distilbert":
        return transformer_classifier(TINY, LABELS)
    config = ModelConfig(name=name, embedding=16, kernels=kernels, hidden=16)
    return build_model(config, words, LABELS)


def traced_fit(name, members=MEMBERS, **sizes):
    model = make_model(name, **sizes)
    shape: Any = jax.ShapeDtypeStruct
    keys = shape((members,), jax.random.key(0).dtype)
    params = jax.eval_shape(jax.vmap(model.init), keys)
    inputs = shape((DOCUMENTS, 300), jnp.float32)
    if name != "frozen":
        inputs = shape((DOCUMENTS, 32), jnp.int32)
    rows = [shape((members, *own), jnp.int32) for own in ((100,), (), (80,))]
    data = TrainingData(inputs, shape((DOCUMENTS, LABELS), jnp.float32), keys, *rows)
    return trace_training(Recipe(model, EnsembleConfig(batch_size=16), 64), params, data)


def traced_prediction(name):
    model = make_model(name)
    keys: Any = jax.ShapeDtypeStruct((MEMBERS,), jax.random.key(0).dtype)
    params = jax.eval_shape(jax.vmap(model.init), keys)
    inputs: Any = jax.ShapeDtypeStruct((64, 32), jnp.int32)
    return predict.ensemble_logits.trace(model, params, inputs)


@pytest.mark.parametrize(
    ("function", "megabytes"),
    [
        # The product, in whose place its exponentials come, and the result.
        (lambda x, ws: jnp.exp(x @ x) @ x, 2),
        # Columns are read after they have been written over, if in place.
        (lambda x, ws: (lambda h: (jnp.exp(h).T + h) @ x)(x @ x), 3),
        # A result is no temporary, and takes no place of one.
        (lambda x, ws: (lambda h: (h, h @ x))(jnp.exp(x @ x)), 3),
        # Three parts of an argument, and four of what is computed from it.
        (lambda x, ws: jax.lax.scan(lambda x, w: (x @ w, None), x, ws[1:], unroll=3)[0], 1),
        (lambda x, ws: jax.lax.scan(lambda x, w: (x @ w, None), x, ws + 1, unroll=4)[0], 5),
    ],
)
def test_places_on_a_gpu_counted_by_hand(function, megabytes):
    shape: Any = jax.ShapeDtypeStruct
    arguments = shape((500, 500), jnp.float32), shape((4, 500, 500), jnp.float32)
    needed = program_bytes(jax.jit(function).trace(*arguments), "gpu")
    assert needed == (5 + megabytes) * 10**6


@pytest.mark.parametrize(("platform", "megabytes"), [("tpu", 1), ("gpu", 2)])
def test_a_tpu_writes_a_product_in_the_order_in_which_it_is_read(platform, megabytes):
    shape: Any = jax.ShapeDtypeStruct
    rows = lambda x: jax.lax.scan(lambda total, row: (total + row, None), x[0], (x @ x).T)[0]
    needed = program_bytes(jax.jit(rows).trace(shape((500, 500), jnp.float32)), platform)
    assert needed == pytest.approx((1 + megabytes) * 10**6, rel=0.02)


def stacked(x):
    return jnp.stack([x + 1, x - 1])


def multiplied(x, y):
    return jnp.sum(x @ y, axis=1)


@pytest.mark.parametrize(
    ("function", "tpu", "gpu"),
    [
        # A product is reduced as it is made, unless something else reads it, or is the result.
        (lambda x: jnp.max(jnp.where(x > 0, x @ x, 0), axis=0), 0, 1),
        (lambda x: (lambda h: (jnp.max(h, axis=0), jnp.sort(h)[0]))(x @ x), 2, 2),
        (lambda x: (lambda h: (jnp.max(h, axis=0), h))(x @ x), 1, 1),
        # What is multiplied is computed on the way, but put together beforehand, in bfloat16.
        (lambda x: jnp.sum((x + 1) @ x, axis=0), 0, 2),
        (lambda x: multiplied(stacked(x), x), 1, 4),
        # As it is where it is in bfloat16 already, or something else reads it too.
        (lambda x: (lambda h: multiplied(stacked(h), h))(x.astype(jnp.bfloat16)), 1, 2.5),
        (lambda x: (lambda s: (multiplied(s, x), jnp.sort(s)[0, 0]))(stacked(x)), 4, 4),
        # The second reduction of a product needs the first.
        (lambda x: jax.nn.logsumexp(x @ x, axis=0), 1, 1),
        (lambda x: jnp.var(x @ x, axis=0), 1, 1),
        (lambda x: (lambda h: jnp.sum(h - jnp.sort(jnp.max(h, 0))[None], 0))(x @ x), 1, 1),
        # What is put together again is put together once.
        (lambda x: jnp.sum(jnp.stack([stacked(x), stacked(-x)]) @ x, axis=2), 2, 8),
        # Arguments lie as they lie.
        (lambda x: jnp.sort(x.T, axis=0)[0], 2, 2),
    ],
)
def test_products_on_a_tpu_counted_by_hand(function, tpu, gpu):
    shape: Any = jax.ShapeDtypeStruct((500, 500), jnp.float32)
    for platform, megabytes in (("tpu", tpu), ("gpu", gpu)):
        needed = program_bytes(jax.jit(function).trace(shape), platform)
        assert needed == pytest.approx((1 + megabytes) * 10**6, rel=0.01), platform


def traced_scores():
    shape: Any = jax.ShapeDtypeStruct
    probs, anchors = shape((5, 256, LABELS), jnp.float32), shape((5, 64, LABELS), jnp.float32)
    score = jax.jit(expected_loss_reduction)
    return score.trace(probs, anchors)


PROGRAMS = {
    "fit text_cnn": lambda: traced_fit("text_cnn"),
    "fit text_rnn": lambda: traced_fit("text_rnn"),
    "fit distilbert": lambda: traced_fit("distilbert"),
    "fit frozen": lambda: traced_fit("frozen"),
    "fit wide text_cnn": lambda: traced_fit("text_cnn", 1, kernels=100, words=5000),
    "predict distilbert": lambda: traced_prediction("distilbert"),
    "scores": traced_scores,
}
SLOW = {"fit text_rnn", "fit distilbert", "fit wide text_cnn"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in PROGRAMS],
)
def test_the_estimate_is_near_what_the_compiler_says(name):
    program = PROGRAMS[name]()
    compiled = program.lower().compile({"xla_cpu_use_fusion_emitters": True})  # as outside tests
    ratio = program_bytes(program) / compiled_bytes(compiled)
    assert 0.75 < ratio < 1.25, ratio


def test_what_a_call_needs_is_what_its_inside_needs():
    """Arguments are let go of inside a call where they are last read, results made at its end."""
    shape: Any = jax.ShapeDtypeStruct((1000, 1000), jnp.float32)
    inside = lambda a: jnp.sort(jnp.sort(a @ a, axis=0) @ a, axis=1)
    in_calls = lambda a: jnp.sum(jax.jit(inside)(jax.jit(inside)(a @ a)))
    by_platform = jax.lax.platform_dependent
    chosen = lambda a: jnp.sum(by_platform(inside(a @ a), cpu=inside, default=lambda a: a @ a @ a))
    plain = lambda a: jnp.sum(inside(inside(a @ a)))
    found = {program_bytes(jax.jit(one).trace(shape)) for one in (plain, in_calls, chosen)}
    assert len(found) == 1
    assert program_bytes(jax.jit(in_calls).trace(shape)) < 4 * 4e6 + 1e4


def test_a_long_chain_of_fused_operations_is_walked_once():
    """Each doubles what the one before was read for: 2**1500 ways lead back to the beginning."""

    def program(operations):
        def turn(carry, x):
            for _ in range(operations):
                x = x + x
            return carry + 1, x

        # Written out, so that what its turns leave is traced back to what is stored of it.
        return lambda xs: jnp.sum(jnp.sort(jax.lax.scan(turn, 0, xs, unroll=3)[1]))

    shape: Any = jax.ShapeDtypeStruct((3, 1000), jnp.float32)
    short, long = (program_bytes(jax.jit(program(length)).trace(shape)) for length in (1, 1500))
    assert long == short


def test_on_a_cpu_everything_begins_that_can():
    """Products that need nothing from each other are alive at once there."""
    shape: Any = jax.ShapeDtypeStruct((100, 1000), jnp.float32)
    made = lambda a: sum(jnp.sum(jnp.sort(jnp.sort(a + i), axis=0), axis=0) for i in range(5))
    program = jax.jit(made).trace(shape)
    one = 4 * 100 * 1000
    assert program_bytes(program, "cpu") > 6 * one > 4 * one > program_bytes(program, "gpu")
    assert program_bytes(program) == pytest.approx(compiled_bytes(program.lower().compile()), 0.25)


def test_sizes_are_halved_until_they_fit(monkeypatch, caplog):
    monkeypatch.setattr(memory, "device_bytes", lambda: 1e6)
    assert memory.halve_until_it_fits("rows", 100, lambda size: 1e4 * size) == 50
    assert "rows: 50 instead of 100, about 0.5 MB of the 1 MB there are" in caplog.text
    assert memory.halve_until_it_fits("rows", 100, lambda size: 1e9) == 1
    with caplog.at_level(logging.INFO, "crabjax"):
        assert memory.halve_until_it_fits("all", 7, lambda size: 10) == 7
    assert "all: 7, about" in caplog.text


def test_the_machine_has_memory():
    assert 1e8 < memory.device_bytes() < 1e14


@pytest.fixture(scope="module")
def arguments():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(40, 6)).astype(np.float32)
    keys = member_keys(jax.random.key(0)[None], 4, "independent")
    rows = np.tile(np.arange(20, dtype=np.int32), (4, 1))
    return keys, inputs, inputs[:, :2] > 0, rows, np.full(4, 20), rows + 20


MODEL = build_model(ModelConfig(name="frozen", hidden=3), 6, 2)
CONFIG = EnsembleConfig(batch_size=10, epochs=2)


def test_little_memory_trains_fewer_members_at_once(arguments, monkeypatch, caplog):
    expected, _ = fit_ensemble(MODEL, CONFIG, *arguments)
    plan.plan_here.cache_clear()
    monkeypatch.setattr(fit, "usable_cores", lambda: 4)
    monkeypatch.setattr(memory, "device_bytes", lambda: 1e3)
    found, _ = fit_ensemble(MODEL, CONFIG, *arguments)
    plan.plan_here.cache_clear()
    assert "members trained at once: 1 instead of 4" in caplog.text
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), found, expected)


def real_out_of_memory():
    try:
        jnp.zeros(2**55, jnp.int8).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        return error
    raise AssertionError("nobody has that much memory")


@pytest.mark.parametrize(("under_vmap", "sizes"), [(True, [2, 2]), (False, [1, 1, 1, 1])])
def test_out_of_memory_is_halved_once_and_said(arguments, under_vmap, sizes, monkeypatch, caplog):
    expected, _ = fit_ensemble(MODEL, CONFIG, *arguments)
    error, seen, meeting = real_out_of_memory(), [], threading.Barrier(3)

    def fit_group(recipe, inputs, labels, keys, *rows, say):
        seen.append(len(rows[0]))
        if under_vmap and len(rows[0]) == 3:
            raise error
        if not under_vmap and len(seen) <= 3:
            meeting.wait(timeout=30)  # three at once, and all of them fail
            raise error
        return fit_small_group(recipe, inputs, labels, keys, *rows, say=say)

    fit_small_group = fit._fit_group
    monkeypatch.setattr(fit, "_fit_group", fit_group)
    monkeypatch.setattr(fit, "on_cores", lambda mesh: not under_vmap)
    monkeypatch.setattr(fit, "usable_cores", lambda: 3)
    monkeypatch.setattr(fit, "members_a_core", lambda *_: 1)
    three = DevicesConfig(members_at_once=3)
    found, _ = fit_ensemble(MODEL, CONFIG, *arguments, devices=three)
    assert "devices.members_at_once: out of memory with 3; once more with 2" in caplog.text
    assert seen[-len(sizes) :] == sizes
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), found, expected)
    monkeypatch.setattr(fit, "_fit_group", lambda *arguments, say: (_ for _ in ()).throw(error))
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        fit_ensemble(MODEL, CONFIG, *arguments, devices=three)


@pytest.mark.parametrize(("at_once", "workers"), [(1, 1), (2, 1), (3, 1), (4, 2)])
def test_no_more_members_train_than_there_may(arguments, at_once, workers, monkeypatch):
    made = []
    threads = lambda count: made.append(count) or ThreadPoolExecutor(count)
    monkeypatch.setattr(fit, "ThreadPoolExecutor", threads)
    monkeypatch.setattr(fit, "members_a_core", lambda *_: 2)
    monkeypatch.setattr(fit, "usable_cores", lambda: 4)
    fit_ensemble(MODEL, CONFIG, *arguments, devices=DevicesConfig(members_at_once=at_once))
    assert made == [workers]


@pytest.mark.parametrize("cores", [1, 2, 7])
def test_the_number_of_cores_does_not_matter(arguments, cores, monkeypatch):
    expected, _ = fit_ensemble(MODEL, CONFIG, *arguments)
    monkeypatch.setattr(fit, "usable_cores", lambda: cores)
    found, _ = fit_ensemble(MODEL, CONFIG, *arguments)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_a_batch_too_large_for_the_machine_is_halved():
    sizes = []

    def call(size):
        sizes.append(size)
        jnp.zeros(2**55 if size > 8 else 1, jnp.int8).block_until_ready()
        return size

    assert memory.halve_once("rows", 16, call) == 8
    assert sizes == [16, 8]
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        memory.halve_once("rows", 32, call)


def test_other_errors_are_not_tried_again():
    with pytest.raises(ValueError, match="no"):
        memory.halve_once("rows", 4, lambda size: (_ for _ in ()).throw(ValueError("no")))


def test_prediction_without_a_batch_size(arguments):
    params, _ = fit_ensemble(MODEL, CONFIG, *arguments)
    inputs = arguments[1]
    expected = predict_logits(MODEL, params, inputs, 8)
    np.testing.assert_allclose(predict_logits(MODEL, params, inputs), expected, atol=1e-5)


def test_prediction_counts_a_batch_for_every_core(arguments, monkeypatch, caplog):
    keys, inputs, *_ = arguments
    params = jax.vmap(MODEL.init)(keys.init)
    sizes = {}
    monkeypatch.setattr(memory, "device_bytes", lambda: 60e3)
    for cores in (1, 4):
        monkeypatch.setattr(batches, "usable_cores", lambda: cores)  # noqa: B023
        sizes[cores] = predict._plan(predict.ensemble_logits, MODEL, params, inputs)
    assert sizes == {1: 256, 4: 64}


@pytest.mark.parametrize(
    ("limit", "used", "files", "left"),
    [
        ("8e9", "7.5e9", "inactive_file 5e9\nactive_file 1e9\n", 6.5e9),
        ("8e9", "8.1e9", "inactive_file 0\nactive_file 0\n", 0),
        ("8e9", "7e9", None, 1e9),
        ("max", "7.5e9", "inactive_file 6e9\n", 1e12),
    ],
)
def test_what_a_container_has_left(tmp_path, monkeypatch, limit, used, files, left):
    """Files that were read, once or more, give way; the machine has more."""
    (tmp_path / "memory.max").write_text(limit)
    (tmp_path / "memory.current").write_text(used)
    if files is not None:
        (tmp_path / "memory.stat").write_text(f"anon 1500000000\n{files}")
    machine = SimpleNamespace(available=1e12)
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: machine)
    assert memory._host_bytes(tmp_path) == left
