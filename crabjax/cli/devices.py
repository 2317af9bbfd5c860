"""What JAX finds here, and how a run would use it: crabjax devices --config demo.yaml"""

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crabjax.cli.common import add_overrides, command_parser, run_command

DESCRIPTION = """\
Says what JAX finds on this machine: devices, memory, whether compiled programs are kept. With a
configuration also how its members and documents would be shared out, which programs would be
compiled and about how much memory they take. Nothing is trained."""

EXAMPLE = """\
  %(prog)s
  %(prog)s --config demo.yaml
  %(prog)s --config demo.yaml --set loop.seeds=0 --set ensemble.members=10"""

# What an accelerator leaves in the file system, and the extra that makes JAX use it.
TRACES = {"/dev/nvidia0": ("an NVIDIA GPU", "cuda"), "/dev/accel0": ("a TPU", "tpu")}


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Prints what is here."""
    parser = command_parser(prog, DESCRIPTION, EXAMPLE)
    parser.add_argument("--config", help="a file, or the name of one that comes with crabjax")
    add_overrides(parser)
    arguments = parser.parse_args(argv)
    return run_command(lambda: describe(arguments), "nothing was changed")


def describe(arguments: argparse.Namespace) -> None:
    """Prints the machine and, where one is named, a configuration on it."""
    from crabjax.config import load_variants
    from crabjax.files.cache import keep_compiled_programs

    variants = load_variants(arguments.config, arguments.overrides) if arguments.config else {}
    keep_compiled_programs()
    for line in machine():
        print(line)
    alike: dict[Any, list[str]] = {}  # variants of one file that are laid out alike are said once
    for name, config in variants.items():
        ensemble = config.ensemble
        sizes = ensemble.members, ensemble.batch_size, ensemble.keep, config.loop
        alike.setdefault((config.data, config.model, config.devices, sizes), []).append(name)
    for names in alike.values():
        print(f"\n{arguments.config}: {'; '.join(names)}")
        for line in configuration(variants[names[0]]):
            print(f"  {line}")


def machine() -> Iterator[str]:
    """Versions, devices, memory, cache."""
    import jax
    import psutil

    from crabjax.benchmarks.common import device_description
    from crabjax.devices.batches import usable_cores
    from crabjax.devices.memory import memory_limit

    device = device_description()
    yield f"jax {jax.__version__} on {device['count']} {device['platform']} device(s)"
    yield f"  kind       {device['kind']}"
    yield f"  cores      {usable_cores()} that this process may use"
    yield f"  memory     {_size(memory_limit())} to be had on each device"
    if device["platform"] != "cpu":
        yield f"  host       {_size(psutil.virtual_memory().available)} to be had"
    yield f"  programs   {_kept(jax.config.jax_compilation_cache_dir)}"  # type: ignore[attr-defined]
    for trace, (what, extra) in TRACES.items():
        if device["platform"] == "cpu" and Path(trace).exists():
            yield f"{what} is here, but JAX does not use it: pip install 'crabjax[{extra}]'"


def configuration(config: Any) -> Iterator[str]:
    """What a run of a configuration would do here."""
    from crabjax.data.splits import find_files
    from crabjax.experiments.layout import layout
    from crabjax.files import DataError

    seeds, members = len(config.loop.seeds), config.ensemble.members
    yield f"members    {seeds * members}: {seeds} seeds of {members}"
    try:
        find_files(config.data)
    except DataError as error:
        yield f"programs   not known without its data: {error}"
        return
    found = layout(config)
    documents, width = found.sizes.inputs.shape
    unit = "features" if config.model.name == "frozen" else "tokens"
    yield (
        f"data       {documents:,} documents of {width} {unit}, "
        f"{found.sizes.labels} labels; {found.sizes.test_documents:,} to test on"
    )
    used = found.ensemble * found.pool
    yield (
        f"devices    {used} of {found.devices}: members over {found.ensemble}, documents over "
        f"{found.pool}"
    )
    train, predict = found.train, found.predict
    at_once = f"{train.calls} members at once, one a core"
    if train.calls == 1:
        at_once = f"{train.at_once} members at once ({found.reason})"
    yield (
        f"training   {at_once}, in all {found.sizes.rounds + 1} rounds; about {_size(train.bytes)}"
    )
    if found.sizes.grows:
        yield "           compiled anew when the labelled documents' words outgrow a power of two"
    members = "all members of a seed" if found.sizes.sampled else "all members"
    yield (
        f"prediction {predict.at_once} documents at once, {members}; about "
        f"{_size(predict.bytes)} a call, {predict.calls} calls side by side"
    )
    yield "           memory is estimated from the traced programs, before they are compiled"


def _kept(folder: str | None) -> str:
    if not folder:
        return "not kept: every start compiles again"
    sizes = [entry.stat().st_size for entry in os.scandir(folder)] if os.path.isdir(folder) else []
    return (
        f"kept in {folder} ({len(sizes)} files, {_size(sum(sizes))}); a second start compiles none"
    )


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
