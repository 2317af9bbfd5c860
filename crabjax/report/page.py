"""One self-contained HTML page of an experiment: pictures, and tables with their uncertainty."""

import base64
import html
from collections.abc import Mapping
from pathlib import Path

from crabjax.files import write_text
from crabjax.report import tables
from crabjax.report.figures import draw_curves, draw_data_sets
from crabjax.report.records import MEASURES, Record, Runs

POOL = ("mean_ir_selected", "hard_left", "negative_left", "query_seconds")

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c1c1c; background: #fff; }
img { max-width: 100%; } h2 { margin-top: 3rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
"""


def write_report(
    experiments: Mapping[str, Runs], folder: Path, reference: str | None = None
) -> Path:
    """Draws the figures of every experiment and writes ``report.html`` around them.

    Args:
      experiments: runs by name, by the name of the data set.
      folder: where pictures and page go.
      reference: the run the others are compared with; None for random and BESRA.
    """
    for runs in experiments.values():
        tables.references(runs, reference)  # a name that no run has, before anything is written
    sections = []
    folder.mkdir(parents=True, exist_ok=True)
    if len(experiments) > 1:
        sections.append(_overview(experiments, folder, reference))
    sections += [_section(name, runs, folder, reference) for name, runs in experiments.items()]
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Active learning report</title><style>{_STYLE}</style>"
        "<h1>Active learning report</h1>"
        "<p>Means over seeds; ± is the standard error. Differences are paired by seed, with the "
        "95% confidence interval of their mean, not corrected for their number; intervals of "
        "labels are bootstrapped over seeds.</p>" + "".join(sections)
    )
    write_text(folder / "report.html", page)
    return folder / "report.html"


def _overview(experiments: Mapping[str, Runs], folder: Path, reference: str | None) -> str:
    """All data sets at a glance: a picture and a table of areas for each measure."""
    parts = ["<h2>All data sets</h2>"]
    for measure in MEASURES:
        picture = folder / f"all_{measure}.png"
        draw_data_sets(experiments, picture, measure)
        parts += [_image(picture), _table(tables.overview(experiments, measure, reference))]
    return "".join(parts)


def _section(name: str, runs: Runs, folder: Path, reference: str | None) -> str:
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    scores, pool = folder / f"{safe}_curves.png", folder / f"{safe}_pool.png"
    draw_curves(runs, scores, MEASURES)
    draw_curves({one: [*map(_with_time, records)] for one, records in runs.items()}, pool, POOL)
    found = [tables.areas(runs)]
    found += [tables.differences(runs, one) for one in tables.references(runs, reference)]
    found += [tables.budgets(runs, measure) for measure in MEASURES[:2]]
    parts = [f"<h2>{html.escape(name)}</h2>", _image(scores), *map(_table, found)]
    return "".join([*parts, _image(pool), _table(tables.costs(runs))])


def _with_time(record: Record) -> Record:
    """The query's time as a measure of its own, where there was a query."""
    return record | {"query_seconds": record["seconds"]["query"] if record["selected"] else None}


def _table(table: tables.Table) -> str:
    line = lambda tag, cells: "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
    rows = [line("th", table.head), *(line("td", row) for row in table.rows)]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><caption>{html.escape(table.caption)}</caption>{body}</table>"


def _image(path: Path) -> str:
    text = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{html.escape(path.stem)}" src="data:image/png;base64,{text}"></p>'
