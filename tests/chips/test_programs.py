"""Every program of every classifier at the paper's sizes, against the bounds it must keep.

Seconds and shares of peak are the compilers' and a roofline's estimates (``devices.estimate``).
DistilBERT is compiled with one and with two layers, and what a layer adds is counted six times.
"""

import functools
from typing import NamedTuple

import pytest

from crabjax.benchmarks.compile import PAPER
from crabjax.benchmarks.programs import programs, sizes_of
from crabjax.config import load_config
from crabjax.devices.compile_for import Report, compile_for

LAYERS = 6


class Bound(NamedTuple):
    """The most a program may need; a share of peak is the least."""

    gigabytes: float
    seconds: float | None = None
    of_peak: float | None = None


BOUNDS = {
    ("v5e", "text_cnn", "step"): Bound(12, seconds=0.02),
    ("h100", "text_cnn", "step"): Bound(12, seconds=0.003),
    ("v5e", "text_rnn", "step"): Bound(12, seconds=0.06),
    ("h100", "text_rnn", "step"): Bound(12, seconds=0.012),
    ("v5e", "distilbert", "step"): Bound(12),
    ("h100", "distilbert", "step"): Bound(12),
    ("v5e", "distilbert", "predict"): Bound(12, of_peak=0.5),
    ("h100", "distilbert", "predict"): Bound(12, of_peak=0.5),
}
CASES = [
    (chip, model, program)
    for chip in ("h100", "v5e")
    for model in PAPER
    for program in ("step", "validation", "predict")
]


@functools.cache
def compiled(chip: str, model: str, name: str, layers: int | None = None) -> tuple[Report, float]:
    """What the compiler made of a program, and the arithmetic in it counted by hand."""
    config = load_config(PAPER[model])
    program = programs(config, sizes_of(config, layers=layers))[name]
    report = compile_for(chip, program.function, *program.arguments, axes=program.axes)
    return report, program.flops


def at_full_depth(chip: str, model: str, name: str) -> tuple[Report, float]:
    """As :func:`compiled`; DistilBERT with six layers, from one and two."""
    if model != "distilbert":
        return compiled(chip, model, name)
    (one, flops), (two, flops_of_two) = (compiled(chip, model, name, layers) for layers in (1, 2))
    if one.seconds is None or two.seconds is None:
        return two, flops_of_two
    deep = lambda first, second: first + (LAYERS - 1) * (second - first)
    report = two._replace(bytes=deep(one.bytes, two.bytes), seconds=deep(one.seconds, two.seconds))
    return report, deep(flops, flops_of_two)


def broken(report: Report, flops: float, bound: Bound, vocabulary: bool) -> list[str]:
    """The gates that a program does not pass, in words."""
    found = [f"a loop over members: {one}" for one in report.loops if "members" in one.over]
    if vocabulary:
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
    share = flops / (report.seconds or 1e9) / report.chip.bfloat16
    if bound.of_peak is not None and share < bound.of_peak:
        found.append(f"{share:.0%} of peak, less than {bound.of_peak:.0%} (estimate)")
    return found


@pytest.mark.parametrize(("chip", "model", "name"), CASES)
def test_a_program_suits_the_chip(chip, model, name):
    report, flops = at_full_depth(chip, model, name)
    bound = BOUNDS.get((chip, model, name), Bound(12))
    # DistilBERT's gradients of its 30,522 word pieces are a scatter in any framework.
    assert broken(report, flops, bound, vocabulary=model != "distilbert") == []


def test_scores_on_a_tpu():
    config = load_config(PAPER["text_cnn"])
    program = programs(config, sizes_of(config))["score"]
    report = compile_for("v5e", program.function, *program.arguments, axes=program.axes)
    assert broken(report, 0.0, Bound(1, seconds=20e-12 * program.items), vocabulary=True) == []


def test_scores_on_a_gpu():
    report, _ = compiled("h100", "text_cnn", "score")
    assert report.seconds is not None
    assert report.roofline_seconds is not None
    assert broken(report, 0.0, Bound(1), vocabulary=True) == []
    assert report.seconds <= 1.5 * report.roofline_seconds


@pytest.mark.parametrize("model", list(PAPER))
def test_a_step_fits_the_papers_card_without_compare_and_swap(model):
    report, _ = at_full_depth("rtx3090", model, "step")
    assert report.compare_and_swaps == 0
    assert report.fits
