"""Every program of every classifier at the paper's sizes, against the bounds it must keep.

Seconds and shares of peak are the compilers' and a roofline's estimates (``devices.estimate``).
DistilBERT is compiled with one and with two layers, and what a layer adds is counted six times.
"""

import functools
from typing import NamedTuple

import pytest

from crabjax.benchmarks import compile as benchmark
from crabjax.benchmarks.arguments import PAPER
from crabjax.benchmarks.compile import Target
from crabjax.benchmarks.programs import Program, lay_out, planned_bytes
from crabjax.benchmarks.shapes import sizes_of
from crabjax.config import load_config
from crabjax.devices.chips import CHIPS
from crabjax.devices.compile_for import Report


class Bound(NamedTuple):
    """The most a program may need; a share of peak is the least."""

    gigabytes: float
    seconds: float | None = None
    of_peak: float | None = None


# Of what the plan chooses (docs/devices.md).
BOUNDS = {
    ("v5e", "text_cnn", "step"): Bound(12, seconds=0.02),
    ("h100", "text_cnn", "step"): Bound(12, seconds=0.003),
    ("v5e", "text_rnn", "step"): Bound(12, seconds=0.06),
    ("h100", "text_rnn", "step"): Bound(12, seconds=0.012),
    ("v5e", "distilbert", "step"): Bound(12, of_peak=0.4),
    ("h100", "distilbert", "step"): Bound(24, of_peak=0.4),
    ("v5e", "distilbert", "predict"): Bound(12, of_peak=0.5),
    ("h100", "distilbert", "predict"): Bound(12, of_peak=0.5),
}
CASES = [
    (chip, model, program)
    for chip in ("h100", "v5e")
    for model in PAPER
    for program in ("step", "predict")
]


@functools.cache
def compiled(chip: str, model: str, name: str, *settings: str) -> tuple[Program, Report]:
    """A program of the paper's sizes, and what the compiler made of it."""
    config = load_config(PAPER[model], list(settings))
    sizes = sizes_of(config)
    layout = lay_out(CHIPS[chip], config, sizes)
    return benchmark.compiled(Target(CHIPS[chip]), config, sizes, layout, name)


def broken(program: Program, report: Report, bound: Bound) -> list[str]:
    """The gates that a program does not pass, in words."""
    of_members = [one for one in report.loops if "members" in one.over and "layers" not in one.over]
    found = [f"a loop over members: {one}" for one in of_members]
    # DistilBERT's gradients of its 30,522 word pieces are a scatter in any framework.
    if "heads" not in program.axes:
        found += [f"over all words: {one}" for one in report.scatters if one.whole_vocabulary]
    if report.compare_and_swaps:
        found.append(f"{report.compare_and_swaps} compare-and-swap atomics")
    if report.grouped_convolutions:
        found.append(f"{report.grouped_convolutions} grouped convolutions")
    found += [f"a collective: {one}" for one in report.collectives]
    if report.bytes > 1e9 * bound.gigabytes:
        found.append(f"{report.bytes / 1e9:.1f} GB, more than {bound.gigabytes}")
    if bound.seconds is not None and (report.seconds or 1e9) > bound.seconds:
        found.append(f"estimated {report.seconds} s, more than {bound.seconds}")
    share = program.flops / (report.seconds or 1e9) / report.chip.bfloat16
    if bound.of_peak is not None and share < bound.of_peak:
        found.append(f"{share:.0%} of peak, less than {bound.of_peak:.0%} (estimate)")
    return found


@pytest.mark.parametrize(("chip", "model", "name"), CASES)
def test_a_program_suits_the_chip(chip, model, name):
    bound = BOUNDS.get((chip, model, name), Bound(12))
    assert broken(*compiled(chip, model, name), bound) == []


@pytest.mark.parametrize("chip", ["v5e", "h100"])
def test_five_distilberts_at_once_need_little_memory(chip):
    settings = "devices.members_at_once=5", "devices.rematerialise=true"
    assert broken(*compiled(chip, "distilbert", "step", *settings), Bound(12)) == []


@pytest.mark.parametrize("chip", ["v5e", "h100"])
@pytest.mark.parametrize("model", list(PAPER))
def test_the_plan_of_a_fit_is_near_what_the_compiler_needs(chip, model):
    config = load_config(PAPER[model], [])
    sizes = sizes_of(config)
    layout = lay_out(CHIPS[chip], config, sizes)
    reports = {name: compiled(chip, model, name)[1] for name in ("step", "validation")}
    needed = benchmark.fit_bytes(config, sizes, layout, reports)
    assert layout.bytes == pytest.approx(needed, rel=0.25)


@pytest.mark.parametrize("chip", ["v5e", "h100"])
@pytest.mark.parametrize("model", list(PAPER))
def test_the_plan_of_a_prediction_is_near_what_the_compiler_needs(chip, model):
    program, report = compiled(chip, model, "predict")
    assert planned_bytes(program, report.chip) == pytest.approx(report.bytes, rel=0.25)


def test_scores_on_a_tpu():
    program, report = compiled("v5e", "text_cnn", "score")
    assert broken(program, report, Bound(1, seconds=20e-12 * program.items)) == []


def test_scores_on_a_gpu():
    program, report = compiled("h100", "text_cnn", "score")
    assert report.seconds is not None
    assert report.roofline_seconds is not None
    assert broken(program, report, Bound(1)) == []
    assert report.seconds <= 1.5 * report.roofline_seconds


@pytest.mark.parametrize("model", list(PAPER))
def test_a_step_fits_the_papers_card_without_compare_and_swap(model):
    _, report = compiled("rtx3090", model, "step")
    assert report.compare_and_swaps == 0
    assert report.fits
