"""The programs that are compiled for absent chips, and what the command says of bad input."""

import sys
from typing import Any

import jax
import numpy as np
import pytest

from crabjax.benchmarks import compile as benchmark
from crabjax.benchmarks import programs, shapes
from crabjax.benchmarks.programs import lay_out, steps_of
from crabjax.benchmarks.shapes import sizes_of
from crabjax.cli.benchmark import main
from crabjax.config import ConfigError, load_config
from crabjax.devices.chips import CHIPS
from crabjax.devices.compile_for import Report, chip_devices
from crabjax.devices.flat_program import inner_programs


def test_sizes_are_the_papers():
    text = sizes_of(load_config("rcv1_textcnn.yaml"))
    assert text == shapes.Sizes(documents=24_891, words=104_619, labels=102, members=25)
    mimic = load_config("mimic.yaml")
    assert sizes_of(mimic) == shapes.Sizes(29_999, 137_678, labels=19, members=5)
    assert sizes_of(mimic, members=3, labels=None).members == 3
    built_in = load_config("demo.yaml", ["strategy.name=crab"])
    assert sizes_of(built_in) == shapes.Sizes(2000, 2000, labels=12, members=25)


def test_how_a_fit_adds_up():
    config = load_config("mimic.yaml")  # 1,100 documents in batches of 50, 1,000 by 64
    layout = lay_out(CHIPS["v5e"], config, sizes_of(config, layers=1))
    assert steps_of(config, layout) == (config.ensemble.epochs, 22, 16)


def test_without_validation_documents_a_fit_has_only_steps():
    config = load_config("rcv1_textcnn.yaml", ["preset=recommended"])
    sizes = sizes_of(config)
    layout = lay_out(CHIPS["v5e"], config, sizes)
    assert steps_of(config, layout) == (config.ensemble.epochs, 22, 0)
    made = programs.programs(config, sizes, layout)
    assert list(made) == ["step", "predict", "score"]
    assert made["score"].axes["anchors"] == config.strategy.anchor_limit == 1000
    report = Report(CHIPS["v5e"], bytes=0, seconds=1.0)
    row = benchmark._fit_row(config, sizes, layout, made, {"step": report})
    assert row["estimated s"] == config.ensemble.epochs * 22
    assert row["loops"] == f"at most {config.ensemble.epochs} epochs x 22 steps"


def test_a_chip_holds_the_documents_that_are_fitted():
    one, many = (
        load_config("rcv1_textcnn.yaml", ["preset=recommended", f"loop.seeds={seeds}"])
        for seeds in ("0", "0,1,2,3,4")
    )
    sizes = sizes_of(one)
    layout = lay_out(CHIPS["v5e"], one, sizes)
    row = 4 * (one.data.max_tokens + sizes.labels)
    five, single = (programs.bytes_between_steps(each, sizes, layout) for each in (many, one))
    assert five - single == 4 * 1_100 * row
    paper = load_config("rcv1_textcnn.yaml", ["loop.seeds=0"])  # and 1,000 to compare epochs on
    assert programs.bytes_between_steps(paper, sizes, layout) - single == 1_000 * row


@pytest.mark.parametrize("name", ["mimic.yaml", "rcv1_textcnn.yaml"])
def test_parameters_are_counted_once_beside_a_large_validation(name):
    """Parameters that steps train are validated where they lie; of a word table, a copy is."""
    config = load_config(name)
    sizes = sizes_of(config)
    layout = lay_out(CHIPS["h100"], config, sizes)
    made = programs.programs(config, sizes, layout)
    params = made["validation"].arguments[1]
    whole = sum(one.size * one.dtype.itemsize for one in jax.tree.leaves(params))
    trained = sum(
        one.size * one.dtype.itemsize for one in jax.tree.leaves(made["step"].arguments[1])
    )
    chip, gigabyte = CHIPS["h100"], 10**9
    reports = {
        "step": Report(chip, bytes=trained + gigabyte, arguments=trained),
        "validation": Report(chip, bytes=whole + 9 * gigabyte, arguments=whole),
    }
    copied = 0 if name == "mimic.yaml" else whole
    between = programs.bytes_between_steps(config, sizes, layout)
    expected = between + trained + copied + 9 * gigabyte
    assert benchmark.fit_bytes(config, sizes, layout, reports) == expected


def test_members_go_through_a_chip_as_the_plan_has_it():
    config = load_config("mimic.yaml")
    sizes = sizes_of(config)
    tpu, card = (lay_out(CHIPS[name], config, sizes) for name in ("v5e", "h100"))
    assert (tpu.trained, tpu.predicted, tpu.recomputed) == (1, 1, "nothing")
    assert (card.trained, card.predicted, card.recomputed) == (5, 5, "nothing")
    stated = lay_out(CHIPS["v5e"], load_config("mimic.yaml", ["devices.members_at_once=5"]), sizes)
    assert (stated.trained, stated.predicted, stated.recomputed) == (5, 5, "cheap")
    small = load_config("rcv1_textcnn.yaml")
    layout = lay_out(CHIPS["v5e"], small, sizes_of(small))
    assert (layout.trained, layout.predicted, layout.recomputed) == (25, 25, None)


@pytest.mark.parametrize(
    ("overrides", "given", "message"),
    [
        (["data.name=mine"], {}, "found 'mine'; say --documents, --words, --labels"),
        (["data.name=mine"], {"words": 9, "labels": 2}, "say --documents$"),
        (["model.name=frozen"], {}, "expected text_cnn, text_rnn or distilbert"),
        ([], {"members": 0}, "--members: expected a number above 0, found 0"),
    ],
)
def test_sizes_that_are_not_known(overrides, given, message):
    with pytest.raises(ConfigError, match=message):
        sizes_of(load_config("mimic.yaml", overrides), **given)


def test_an_encoder_that_is_not_known():
    config = load_config("mimic.yaml", ["model.pretrained=bert-mine"])
    with pytest.raises(ConfigError, match="expected distilbert-base-uncased, found 'bert-mine'"):
        lay_out(CHIPS["v5e"], config, sizes_of(config))


def matmul_flops(jaxpr) -> int:
    """Multiplications and additions of every matrix product in a traced program."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            sizes = equation.invars[0].aval.shape
            inner = int(np.prod([sizes[axis] for axis in contracted]))
            total += 2 * inner * int(np.prod(equation.outvars[0].aval.shape))
        repeats = equation.params.get("length", 1)
        total += sum(repeats * matmul_flops(one) for one in inner_programs(equation, "tpu"))
    return total


@pytest.mark.parametrize("name", ["step", "predict"])
def test_arithmetic_counted_by_hand_is_that_of_the_program(name):
    config = load_config("mimic.yaml", ["devices.predict_batch=3", "ensemble.batch_size=3"])
    sizes = sizes_of(config, members=2, layers=2)
    program = programs.programs(config, sizes, lay_out(CHIPS["h100"], config, sizes))[name]
    function: Any = program.function
    found = matmul_flops(function.trace(*program.arguments).jaxpr.jaxpr)
    # Of the second of two layers only the first token is read: keys and values remain.
    encoder = shapes.PRETRAINED["distilbert-base-uncased"]
    width, tokens = encoder.width, config.data.max_tokens
    layer = 4 * width**2 + 2 * width * encoder.inner + 2 * tokens * width
    remains = (1 + 2 * width**2 / layer) / 2
    assert found == pytest.approx(remains * program.flops, rel=0.03)


def error_of(capsys, *arguments):
    assert main(["compile", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_bad_input_is_one_line_and_status_1(capsys, monkeypatch):
    assert "known ones" not in error_of(capsys, "--chip", "v5")
    assert "expected one of v5e, v6e, a100, h100, rtx3090" in error_of(capsys, "--chip", "tpu")
    for name in ("libtpu", "jax_cuda12_plugin", "jax_cuda13_plugin"):
        monkeypatch.setitem(sys.modules, name, None)
    chip_devices.cache_clear()
    assert "pip install 'crabjax[chips]'" in error_of(capsys, "--chip", "v6e")


def test_what_does_not_fit_says_by_how_much_and_what_would():
    row = {"what": "distilbert", "program": "fit", "GB": 41.9, "GB of chip": 24.0}
    benchmark.check([row | {"fits": "yes"}])
    with pytest.raises(benchmark.DoesNotFitError) as error:
        benchmark.check([row | {"fits": "no: devices.members_at_once=2 would make it fit (17 GB)"}])
    assert str(error.value) == (
        "distilbert fit: needs 41.9 GB, 17.9 GB more than the chip has; "
        "devices.members_at_once=2 would make it fit (17 GB)"
    )
