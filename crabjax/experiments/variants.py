"""Several runs as one experiment: one folder each, one comparison."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from crabjax.config import Config, ConfigError
from crabjax.data.splits import find_files
from crabjax.devices.processes import is_first
from crabjax.experiments.loop import run
from crabjax.files import write_text
from crabjax.models import get_builder
from crabjax.progress import tell
from crabjax.report.figures import draw_curves, draw_data_sets
from crabjax.report.records import MEASURES, Record, summarise
from crabjax.report.tables import comparison_table
from crabjax.strategies import get_strategy


def run_experiment(
    experiments: Mapping[str, Mapping[str, Config]],
    folder: Path | None = None,
    *,
    only: Sequence[str] | None = None,
    fresh: bool = False,
) -> None:
    """Runs every variant of every experiment and draws the comparison of each.

    Args:
      experiments: variants by config name, as :func:`crabjax.config.load.load_variants` gives them.
      folder: where to write; None for a folder of the config's name in its output folder. With
        several experiments each gets a sub-folder, and so does each of several variants.
      only: names of the variants to run; None for all.
      fresh: begin again where an earlier run is found.
    """
    for experiment, variants in experiments.items():
        for config in variants.values():
            # All of this before any run, not hours later.
            get_strategy(config.strategy.name).check_members(config.ensemble.members)
            _check_devices(config)
            get_builder(config.model.name)
            find_files(config.data)
        if missing := [name for name in only or () if name not in variants]:
            raise ConfigError(f"--only {missing[0]}: {experiment} has {', '.join(variants)}")
    names = [Path(name).stem for name in experiments]
    if len(set(names)) < len(names):
        raise ConfigError(f"--config: expected files of different names, found {', '.join(names)}")
    first = next(iter(next(iter(experiments.values())).values()))
    root = Path(first.output.folder) if folder is None else folder
    alone = len(names) == 1 and folder is not None
    runs = {
        name: compare(variants, root if alone else root / name, only=only, fresh=fresh)
        for name, variants in zip(names, experiments.values())
    }
    if len(runs) > 1 and is_first():
        draw_data_sets(runs, root / "comparison.png")
        path = root / "comparison.png"
        tell(f"picture of all: {path}", event="picture", path=str(path))


def _check_devices(config: Config) -> None:
    """Raises ConfigError for a place among processes without the means to find the others."""
    devices = config.devices
    if devices.coordinator is None and "JAX_COORDINATOR_ADDRESS" not in os.environ:
        for name in ("processes", "process"):
            if (value := getattr(devices, name)) is not None:
                raise ConfigError(
                    f"devices.{name}: expected devices.coordinator beside it, as host:port of the "
                    f"first process, found {value} alone"
                )


def compare(
    variants: Mapping[str, Config], folder: Path, *, only: Sequence[str] | None, fresh: bool
) -> dict[str, list[Record]]:
    """Runs variants one after another; draws ``curve.png`` of each, and of all together."""
    runs: dict[str, list[Record]] = {}
    picture = folder
    for name in only or variants:
        place = folder / name.replace(" ", "_") if len(variants) > 1 else folder
        picture = place / "curve.png"
        runs[name] = run(variants[name], place, name=name, fresh=fresh)
        if is_first():
            draw_curves({name: runs[name]}, picture)
    summaries = {name: summarise(records) for name, records in runs.items()}
    if len(runs) > 1 and is_first():
        picture = folder / "curve.png"
        draw_curves(runs, picture)
        write_text(folder / "summary.json", json.dumps(summaries, indent=1))
    areas = {name: one[MEASURES[0]]["area"]["mean"] for name, one in summaries.items()}
    tell(comparison_table(runs), event="done", micro_f1_area=areas, picture=str(picture))
    tell(f"picture: {picture}")
    return runs
