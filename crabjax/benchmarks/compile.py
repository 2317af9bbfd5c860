"""Compiles fit, predict and score for a chip that is not there, and says what became of them.

  python scripts/benchmark.py compile --chip v5e
  python scripts/benchmark.py compile --chip rtx3090 --config mimic.yaml

Nothing runs, and no data or weights are needed: sizes are those of the paper, of the data set that
a configuration names, or stated. Seconds are estimates, never measurements: the compiler's cycles
(TPU), or a roofline and 3 microseconds a kernel (GPU); docs/devices.md has the assumptions. The
share of peak is that of arithmetic counted by hand, of the plain padded computation, at the chip's
bfloat16 rate. A fit is compiled by its parts, a training step and a validation batch; the row "fit"
adds them up. DistilBERT is reckoned from programs of one and of two layers. Members go through the
chip as the plan of a run would have them. The exit status is 1 if something does not fit.
"""

import argparse
import dataclasses
import functools
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from crabjax.benchmarks.arguments import CHIP_SIZES, PAPER, PARTS
from crabjax.benchmarks.common import Row
from crabjax.benchmarks.programs import (
    Layout,
    Program,
    bytes_between_steps,
    lay_out,
    parameter_bytes,
    planned_bytes,
    programs,
    steps_of,
    with_layers,
)
from crabjax.benchmarks.shapes import Sizes, encoder_of, sizes_of
from crabjax.config import Config, load_config
from crabjax.devices.batches import LARGEST_BATCH
from crabjax.devices.chips import Chip, find_chip
from crabjax.devices.compile_for import Report, chip_devices, compile_for


class DoesNotFitError(RuntimeError):
    """A program needs more memory than the chip has."""


class Target(NamedTuple):
    """What is compiled for, where what was compiled lies, and how much is said of it."""

    chip: Chip
    keep: Path | None = None
    slowest: int = 0


def absent_device(arguments: argparse.Namespace) -> Row:
    """The chip that is compiled for, in place of the device at hand."""
    chip = find_chip(arguments.chip)
    kind = f"{chip.name}, which need not be here: all seconds are estimates"
    return {"platform": chip.platform, "kind": kind, "count": 1}


def run(arguments: argparse.Namespace) -> list[Row]:
    """A row for every program of every classifier asked for, and one for a whole fit."""
    keep = Path(arguments.keep) if arguments.keep else None
    target = Target(find_chip(arguments.chip), keep, arguments.slowest or 0)
    # Else JAX would look for TPUs and GPUs, and wait for those that its plug-ins promise.
    jax.config.update("jax_platforms", "cpu")
    # A program that was compiled before leaves no machine code to look at.
    jax.config.update("jax_enable_compilation_cache", False)
    chip_devices(arguments.chip)
    names = [arguments.config] if arguments.config else [PAPER[name] for name in arguments.model]
    overrides, rows = list(arguments.overrides), []
    if arguments.at_once is not None:
        overrides.append(f"devices.members_at_once={arguments.at_once}")
    for name in names:
        config = load_config(name, overrides)
        sizes = sizes_of(config, **{one: getattr(arguments, one) for one in CHIP_SIZES})
        rows += _rows(target, config, sizes, arguments.program)
    return rows


def check(rows: list[Row]) -> None:
    """Raises for the first row that does not fit, with what would make it fit.

    Raises:
      DoesNotFitError: in one line.
    """
    for row in rows:
        if row["fits"] != "yes":
            raise DoesNotFitError(
                f"{row['what']} {row['program']}: needs {row['GB']:.1f} GB, "
                f"{row['GB'] - row['GB of chip']:.1f} GB more than the chip has; {row['fits'][4:]}"
            )


def compiled(
    target: Target, config: Config, sizes: Sizes, layout: Layout, name: str
) -> tuple[Program, Report]:
    """A program and what the compiler made of it.

    Layers of an encoder are alike but the last: unless their number is stated, programs of one and
    of two are compiled, and what the second adds is counted for all others. Where something is
    computed again they are a loop, which takes a compiler as long for six.
    """
    program = programs(config, sizes, layout)[name]
    if layout.recomputed != "nothing" or sizes.layers is not None or name == "score":
        return program, _compile(target, config, program)
    one, two = (
        compiled(target, config, *with_layers(config, sizes, layout, layers), name)[1]
        for layers in (1, 2)
    )
    return program, at_depth(encoder_of(config, sizes).layers, one, two, keeps=name == "step")


def at_depth(layers: int, one: Report, two: Report, keeps: bool) -> Report:
    """The report of a deeper program from those with one layer and with two.

    Args:
      layers: it has.
      one: of one layer, which is the last.
      two: of two layers.
      keeps: whether what a layer computes is kept; else the next takes its place.
    """
    deep = lambda first, second: first + (layers - 1) * (second - first)
    seconds = None
    if one.seconds is not None and two.seconds is not None:
        seconds = deep(one.seconds, two.seconds)
    return two._replace(
        bytes=deep(one.bytes, two.bytes)
        if keeps
        else two.bytes + (layers - 2) * (two.arguments - one.arguments),
        arguments=deep(one.arguments, two.arguments),
        seconds=seconds,
        kernels=deep(one.kernels, two.kernels),
        opaque=deep(one.opaque, two.opaque),
        compile_seconds=one.compile_seconds + two.compile_seconds,
    )


def _rows(target: Target, config: Config, sizes: Sizes, wanted: list[str]) -> list[Row]:
    layout, made, reports = lay_out(target.chip, config, sizes), {}, {}
    known = programs(config, sizes, layout)
    for one in (name for part in wanted for name in PARTS[part] if name in known):
        made[one], reports[one] = compiled(target, config, sizes, layout, one)
    rows = [_row(config, sizes, layout, made[one], report) for one, report in reports.items()]
    if "fit" in wanted:
        parts = sum(name in reports for name in PARTS["fit"])
        rows.insert(parts, _fit_row(config, sizes, layout, made, reports))
    for row in rows:
        if row["GB"] > row["GB of chip"]:
            row["fits"] = "no: " + _remedy(target, config, sizes, row)
    return rows


def _compile(target: Target, config: Config, program: Program) -> Report:
    what, chip = f"{config.model.name} {program.name}", target.chip.name
    print(f"compiling for {chip}: {what}", file=sys.stderr, flush=True)
    found = compile_for(
        chip, program.function, *program.arguments, axes=program.axes, keep=target.keep
    )
    for seconds, where in found.slowest[: target.slowest]:
        print(f"{seconds / (found.seconds or 1):6.1%} {where}", file=sys.stderr)
    return found


def _row(config: Config, sizes: Sizes, layout: Layout, program: Program, report: Report) -> Row:
    seconds, whole = report.seconds, [one.whole_vocabulary for one in report.scatters]
    return {
        "what": config.model.name,
        "program": program.name,
        "members": program.members,
        "computed again": (program.name in ("step", "fit") and layout.recomputed) or "-",
        "GB": report.bytes / 1e9,
        "planned GB": planned_bytes(program, report.chip) / 1e9,
        "GB of chip": report.chip.memory / 1e9,
        "fits": "yes",
        "estimated s": seconds,
        "of peak": (seconds and program.flops / seconds / report.chip.bfloat16) or None,
        "x roofline": seconds and seconds / (report.roofline_seconds or seconds),
        "rate": seconds and _rate(sizes, program, seconds),
        "kernels": report.kernels,
        "opaque": report.opaque,
        "loops": _counted(str(loop) for loop in report.loops),
        "scatters": f"{len(whole)}" + (f", {sum(whole)} over all words" if any(whole) else ""),
        "collectives": len(report.collectives),
        "grouped convolutions": report.grouped_convolutions,
        "compare-and-swap": report.compare_and_swaps,
        "compile s": report.compile_seconds,
    }


def _fit_row(
    config: Config, sizes: Sizes, layout: Layout, made: Any, reports: dict[str, Report]
) -> Row:
    """A fit of the members at once: at most so many epochs, each of steps and validation batches.

    What the plan of a run takes it to need stands beside what the compiler says.
    """
    epochs, steps, batches = steps_of(config, layout)
    runs = {"step": epochs * steps} | ({"validation": epochs * batches} if batches else {})
    parts = [(count, made[name], reports[name]) for name, count in runs.items()]
    own = [report for _, _, report in parts]
    seconds = None
    if all(report.seconds is not None for report in own):
        seconds = sum(count * (report.seconds or 0) for count, _, report in parts)
    total = reports["step"]._replace(
        bytes=fit_bytes(config, sizes, layout, reports),
        seconds=seconds,
        kernels=sum(count * report.kernels for count, _, report in parts),
        opaque=sum(report.opaque for report in own),
        loops=(),
        scatters=tuple(one for report in own for one in report.scatters),
        collectives=tuple(one for report in own for one in report.collectives),
        grouped_convolutions=sum(report.grouped_convolutions for report in own),
        compare_and_swaps=sum(report.compare_and_swaps for report in own),
        compile_seconds=sum(report.compile_seconds for report in own),
    )
    flops = sum(count * program.flops for count, program, _ in parts)
    fit = made["step"]._replace(name="fit", flops=flops, items=runs["step"] * made["step"].items)
    inside = f"({steps} steps + {batches} validations)" if batches else f"{steps} steps"
    loops = f"at most {epochs} epochs x {inside}"
    planned = {"planned GB": layout.bytes / 1e9, "loops": loops}
    return _row(config, sizes, layout, fit, total) | planned


def fit_bytes(config: Config, sizes: Sizes, layout: Layout, reports: dict[str, Report]) -> float:
    """The larger part of a fit, and what lies in memory meanwhile.

    Beside a step, its best parameters and documents; beside a validation, what steps train, too.
    Without a word table, of which steps train a part, that is what is validated.
    """
    needed, step = bytes_between_steps(config, sizes, layout), reports["step"]
    if "validation" not in reports:
        return needed + step.bytes
    both_hold = parameter_bytes(layout) if layout.recipe.model.table is None else 0
    validation = step.arguments - both_hold + reports["validation"].bytes
    return needed + max(step.bytes, validation)


def _rate(sizes: Sizes, program: Program, seconds: float) -> str:
    if program.name == "score":
        return f"{1e12 * seconds / program.items:.3g} ps an evaluation"
    groups = -(-sizes.members // program.members)
    return f"{program.items / (groups * seconds):.4g} documents/s"


def _counted(words: Iterator[str]) -> str:
    """Equal ones together: "2 times 25 members"."""
    found = Counter(words).items()
    return "; ".join(f"{count} times {word}" if count > 1 else word for word, count in found) or "0"


def _remedy(target: Target, config: Config, sizes: Sizes, row: Row) -> str:
    """The first setting with which the program of a row, compiled again, fits."""
    if row["program"] == "score":
        return "a run scores fewer candidates at once by itself"
    wanted = PARTS["fit"] if row["program"] == "fit" else [row["program"]]
    for setting, changed in _smaller(config, row):
        layout = lay_out(target.chip, changed, sizes)
        names = [one for one in wanted if one in programs(changed, sizes, layout)]
        reports = {one: compiled(target, changed, sizes, layout, one)[1] for one in names}
        needed = reports[names[0]].bytes
        if row["program"] == "fit":
            needed = fit_bytes(changed, sizes, layout, reports)
        if needed <= target.chip.memory:
            return f"{setting} would make it fit ({needed / 1e9:.1f} GB)"
    return "no setting of members_at_once, predict_batch or rematerialise makes it fit"


def _smaller(config: Config, row: Row) -> Iterator[tuple[str, Config]]:
    """What could be tried, in this order; what a program needs is about proportional to sizes."""
    share, trial = 0.95 * row["GB of chip"] / row["GB"], functools.partial(_with_setting, config)
    if row["program"] == "predict":
        batch = config.devices.predict_batch or LARGEST_BATCH
        for size in sorted({max(int(share * batch / cut), 1) for cut in (1, 2, 8)}, reverse=True):
            yield trial("predict_batch", size)
    counts = {max(int(share * row["members"] / cut), 1) for cut in (1, 2)} - {row["members"]}
    for count in sorted(counts, reverse=True):
        yield trial("members_at_once", count)
    if config.model.name == "distilbert" and not config.devices.rematerialise:
        yield trial("rematerialise", True)


def _with_setting(config: Config, name: str, value: Any) -> tuple[str, Config]:
    devices = dataclasses.replace(config.devices, **{name: value})
    said = f"devices.{name}={str(value).lower()}"
    return said, dataclasses.replace(config, devices=devices)
