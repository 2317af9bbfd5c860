"""Several runs as one experiment: one folder each, one comparison."""

import json
from collections.abc import Mapping
from pathlib import Path

from crabjax.config import Config
from crabjax.data.files import write_text
from crabjax.distributed import is_first
from crabjax.loop import run
from crabjax.records import Record, summarise
from crabjax.report import comparison_table, draw_curves, draw_data_sets
from crabjax.settings import ConfigError
from crabjax.strategies import get_strategy


def run_experiment(
    experiments: Mapping[str, Mapping[str, Config]],
    folder: Path | None = None,
    *,
    fresh: bool = False,
) -> None:
    """Runs every variant of every experiment and draws the comparison of each.

    Args:
      experiments: variants by config name, as :func:`crabjax.config.load_variants` gives them.
      folder: where to write; None for a folder of the config's name in its output folder. With
        several experiments each gets a sub-folder, and so does each of several variants.
      fresh: begin again where an earlier run is found.
    """
    for variants in experiments.values():
        for config in variants.values():
            get_strategy(config.strategy.name)  # before any run, not hours later
    names = [Path(name).stem for name in experiments]
    if len(set(names)) < len(names):
        raise ConfigError(f"--config: expected files of different names, found {', '.join(names)}")
    first = next(iter(next(iter(experiments.values())).values()))
    root = Path(first.output.folder) if folder is None else folder
    alone = len(names) == 1 and folder is not None
    runs = {
        name: compare(variants, root if alone else root / name, fresh=fresh)
        for name, variants in zip(names, experiments.values())
    }
    if len(runs) > 1 and is_first():
        draw_data_sets(runs, root / "comparison.png")
        print(f"picture of all: {root / 'comparison.png'}")


def compare(
    variants: Mapping[str, Config], folder: Path, *, fresh: bool = False
) -> dict[str, list[Record]]:
    """Runs variants one after another; draws ``curve.png`` of each, and of all together."""
    runs: dict[str, list[Record]] = {}
    for name, config in variants.items():
        place = folder / name.replace(" ", "_") if len(variants) > 1 else folder
        runs[name] = run(config, place, name=name, fresh=fresh)
        if is_first():
            draw_curves({name: runs[name]}, place / "curve.png")
    if len(variants) > 1 and is_first():
        draw_curves(runs, folder / "curve.png")
        summaries = {name: summarise(records) for name, records in runs.items()}
        write_text(folder / "summary.json", json.dumps(summaries, indent=1))
    print(comparison_table(runs))
    print(f"picture: {folder / 'curve.png'}")
    return runs
