"""Several runs as one experiment: one folder each, one comparison."""

import json
from collections.abc import Mapping
from pathlib import Path

from crabjax.config import Config
from crabjax.loop import run
from crabjax.records import Record, summarise, write_text
from crabjax.report import comparison_table, draw_curves


def run_experiment(
    experiments: Mapping[str, Mapping[str, Config]],
    folder: Path | None = None,
    *,
    fresh: bool = False,
) -> None:
    """Runs every variant of every experiment and draws the comparison of each.

    Args:
      experiments: variants by config name, as :func:`crabjax.config.load_variants` gives them.
      folder: where to write; None for the config's own output folder and name. With several
        experiments each gets a sub-folder, and so does each of several variants.
      fresh: begin again where an earlier run is found.
    """
    for name, variants in experiments.items():
        first = next(iter(variants.values()))
        place = Path(first.output.folder) / Path(name).with_suffix("") if folder is None else folder
        if folder is not None and len(experiments) > 1:
            place = folder / Path(name).stem
        compare(variants, place, fresh=fresh)


def compare(variants: Mapping[str, Config], folder: Path, *, fresh: bool = False) -> None:
    """Runs variants one after another; draws ``curve.png`` of each, and of all together."""
    runs: dict[str, list[Record]] = {}
    for name, config in variants.items():
        place = folder / name.replace(" ", "_") if len(variants) > 1 else folder
        runs[name] = run(config, place, fresh=fresh)
        draw_curves({name: runs[name]}, place / "curve.png")
    if len(variants) > 1:
        draw_curves(runs, folder / "curve.png")
        summaries = {name: summarise(records) for name, records in runs.items()}
        write_text(folder / "summary.json", json.dumps(summaries, indent=1))
    print(comparison_table(runs))
    print(f"picture: {folder / 'curve.png'}")
