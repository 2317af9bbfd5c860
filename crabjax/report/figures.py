"""Records to pictures. The only file that draws."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crabjax.report.records import MEASURES, Runs, curves, is_estimated, run_names, value_of

TITLES = {
    "decided_micro_f1": "test micro-F1",
    "decided_macro_f1": "test macro-F1",
    "micro_f1": "test micro-F1 at 0.5",
    "macro_f1": "test macro-F1 at 0.5",
    "mean_average_precision": "test mean average precision",
    "mean_ir_selected": "MeanIR of the selected documents",
    "hard_left": "hard-to-learn documents left",
    "negative_left": "negatively correlated documents left",
    "query_seconds": "seconds a query, mean of seeds",
}
# Dash and marker tell curves apart where colour does not.
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
_MARKERS = "osD^vPX*<>h"
_MANY = 7  # curves whose bands can still be told apart
_LABELS_SHOWN = 25


def draw_curves(runs: Runs, path: Path, measures: Sequence[str] = MEASURES[:2]) -> Any:
    """Draws learning curves, mean and standard error over seeds, one panel a measure."""
    figure, axes = _panels(len(measures))
    for axis, measure in zip(axes, measures):
        _draw_panel(axis, runs, measure, list(runs))
    figure.suptitle(_title(runs), fontsize=11)
    _add_legend(figure, axes)
    figure.savefig(path, dpi=130)
    return figure


def draw_data_sets(experiments: Mapping[str, Runs], path: Path, measure: str = MEASURES[0]) -> None:
    """Draws the learning curves of several experiments side by side, one panel each."""
    figure, axes = _panels(len(experiments))
    names = run_names(experiments)
    for axis, runs in zip(axes, experiments.values()):
        _draw_panel(axis, runs, measure, names)
        axis.set_title(_title(runs), fontsize=9)
    _add_legend(figure, axes)
    figure.savefig(path, dpi=130)


def _draw_panel(axis: Any, runs: Runs, measure: str, names: Sequence[str]) -> None:
    """One curve a run; a run looks the same in all panels that are given the same ``names``."""
    from matplotlib import colormaps

    strong_and_pale = colormaps["tab20"](range(20))
    colours = [*strong_and_pale[::2], *strong_and_pale[1::2]]
    for name, records in runs.items():
        number = names.index(name)
        measured = [record for record in records if value_of(record, measure) is not None]
        labelled, values = curves(measured, measure)
        mean, colour = values.mean(axis=0), colours[number % len(colours)]
        style: dict[str, Any] = {
            "color": colour,
            "linestyle": _DASHES[number % len(_DASHES)],
            "marker": _MARKERS[number % len(_MARKERS)],
        }
        axis.plot(labelled, mean, label=name, markersize=4, linewidth=1.6, **style)
        if len(values) > 1:
            error = values.std(axis=0, ddof=1) / len(values) ** 0.5
            alpha = 0.15 if len(names) <= _MANY else 0.05
            axis.fill_between(labelled, mean - error, mean + error, color=colour, alpha=alpha, lw=0)
    axis.set_xlabel("labelled documents")
    estimated = any(is_estimated(one, measure) for run in runs.values() for one in run)
    axis.set_ylabel(TITLES[measure] + (" (estimated)" if estimated else ""))
    axis.set_yscale("log" if measure == "query_seconds" else "linear")
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def _add_legend(figure: Any, axes: Sequence[Any]) -> None:
    """Names the curves once for all panels; beside them, where it hides none."""
    named = {
        name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels())
    }
    if len(named) > 1:
        figure.legend(named.values(), named.keys(), loc="outside right center", frameon=False)


def _title(runs: Runs) -> str:
    records = [record for one in runs.values() for record in one]
    seeds = [len({record["seed"] for record in one}) for one in runs.values()]
    count = str(seeds[0]) if len(set(seeds)) == 1 else f"{min(seeds)} to {max(seeds)}"
    names = [", ".join(dict.fromkeys(r[key] for r in records)) for key in ("data", "model")]
    spread = f"mean ± standard error, {count} seeds" if max(seeds) > 1 else "one seed"
    return f"{', '.join(names)}: {spread}"


def draw_progress(curve: Any, counts: Mapping[str, int], path: Path) -> None:
    """Draws a labelling project: estimated F1 by labelled documents, and documents per label.

    Args:
      curve: a ``LearningCurve``.
      counts: labelled documents of each label.
      path: the picture.
    """
    figure, axes = _panels(2)
    axis = axes[0]
    style: dict[str, Any] = {"markersize": 5, "capsize": 3}
    axis.errorbar(
        curve.labelled, curve.micro_f1, curve.micro_error, marker="o", label="micro-F1", **style
    )
    axis.plot(curve.labelled, curve.macro_f1, "s--", markersize=5, label="macro-F1")
    axis.set_xlabel("labelled documents learnt from")
    axis.set_ylabel("estimated F1 (cross-validation)")
    axis.set_xlim(0, curve.labelled[-1] * 1.05)
    axis.set_ylim(0, 1)
    axis.legend(frameon=False, loc="best")
    axis.grid(alpha=0.3)
    shown = sorted(counts.items(), key=lambda item: -item[1])[:_LABELS_SHOWN][::-1]
    names = [name if len(name) <= 24 else name[:23] + "…" for name, _ in shown]
    bars = axes[1].barh(range(len(shown)), [count for _, count in shown], color="C0", alpha=0.8)
    axes[1].bar_label(bars, padding=2, fontsize=8)
    axes[1].set_yticks(range(len(shown)), names, fontsize=8)
    axes[1].set_xlabel("labelled documents with the label")
    if len(counts) > len(shown):
        axes[1].set_title(f"the {len(shown)} most frequent of {len(counts)} labels", fontsize=9)
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def _panels(count: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    columns = min(count, 3) if count != 4 else 2
    rows = -(-count // columns)
    figure = Figure(figsize=(4.8 * columns, 3.8 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for unused in axes[count:]:
        unused.set_axis_off()
    return figure, list(axes[:count])
