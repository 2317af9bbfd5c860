"""One self-contained HTML page of an experiment: pictures, and tables with their uncertainty."""

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from crabjax.comparison import labels_needed, paired_difference
from crabjax.data.files import write_text
from crabjax.records import Record, area_under_curve, curves, mean_and_error
from crabjax.report import TITLES, Runs, draw_curves, draw_data_sets

SCORES = ("micro_f1", "macro_f1", "mean_average_precision")
POOL = ("mean_ir_selected", "hard_left", "negative_left", "query_seconds")
REFERENCES = ("random", "besra")

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c1c1c; background: #fff; }
img { max-width: 100%; } h2 { margin-top: 3rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
"""


def write_report(experiments: Mapping[str, Runs], folder: Path) -> Path:
    """Draws the figures of every experiment and writes ``report.html`` around them.

    Args:
      experiments: runs by name, by the name of the data set.
      folder: where pictures and page go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sections = [_overview(experiments, folder)] if len(experiments) > 1 else []
    sections += [_section(name, runs, folder) for name, runs in experiments.items()]
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Active learning report</title><style>{_STYLE}</style>"
        "<h1>Active learning report</h1>"
        "<p>Means over seeds; ± is the standard error. Differences are paired by seed, with the "
        "95% confidence interval of their mean.</p>" + "".join(sections)
    )
    write_text(folder / "report.html", page)
    return folder / "report.html"


def _overview(experiments: Mapping[str, Runs], folder: Path) -> str:
    """All data sets at a glance: a picture and a table of areas for each measure."""
    names = list(dict.fromkeys(name for runs in experiments.values() for name in runs))
    parts = ["<h2>All data sets</h2>"]
    for measure in SCORES[:2]:
        picture = folder / f"all_{measure}.png"
        draw_data_sets(experiments, picture, measure)
        rows = [[n, *(_area(runs, n, measure) for runs in experiments.values())] for n in names]
        caption = f"Area, {TITLES[measure]}, and difference to random (* 95% interval without 0)"
        parts += [_image(picture), _table(caption, ["strategy", *experiments], rows)]
    return "".join(parts)


def _area(runs: Runs, name: str, measure: str) -> str:
    if name not in runs:
        return ""
    area = f"{area_under_curve(*curves(runs[name], measure)).mean():.4f}"
    found = None
    if "random" in runs and name != "random":
        found = paired_difference(runs[name], runs["random"], measure)
    if found is None:
        return area
    return f"{area} ({found.mean:+.4f}{'*' if found.low * found.high > 0 else ''})"


def _section(name: str, runs: Runs, folder: Path) -> str:
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    scores, pool = folder / f"{safe}_curves.png", folder / f"{safe}_pool.png"
    draw_curves(runs, scores, SCORES)
    draw_curves({one: _with_queries(records) for one, records in runs.items()}, pool, POOL)
    parts = [f"<h2>{html.escape(name)}</h2>", _image(scores), _area_table(runs)]
    parts += [_budget_table(runs, measure) for measure in ("micro_f1", "macro_f1")]
    return "".join([*parts, _image(pool)])


def _with_queries(records: Sequence[Record]) -> list[Record]:
    """Only the rounds that queried, with the query's time as a measure of its own."""
    asked = [record for record in records if record["selected"]]
    return [record | {"query_seconds": record["seconds"]["query"]} for record in asked]


def _area_table(runs: Runs) -> str:
    references = [one for one in REFERENCES if one in runs]
    head = ["strategy", *(f"area, {TITLES[m]}" for m in SCORES)]
    head += [f"{TITLES[m]}: difference to {one}" for one in references for m in SCORES[:2]]
    if "random" in runs:
        head.append("labels to reach random's final micro-F1")
    rows = []
    for name, records in runs.items():
        cells = [name]
        cells += [mean_and_error(area_under_curve(*curves(records, m))) for m in SCORES]
        cells += [
            "" if one == name else _difference(records, runs[one], measure)
            for one in references
            for measure in SCORES[:2]
        ]
        if "random" in runs:
            needed = labels_needed(records, runs["random"])
            cells.append("not reached" if needed is None else f"{needed:.0f}")
        rows.append(cells)
    return _table("Area under the learning curve", head, rows)


def _difference(records: Sequence[Record], reference: Sequence[Record], measure: str) -> str:
    found = paired_difference(records, reference, measure)
    if found is None:
        return "too few seeds"
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}], p = {found.p_value:.3f}"


def _budget_table(runs: Runs, measure: str) -> str:
    labelled = max((curves(records, measure)[0] for records in runs.values()), key=len)
    rows = []
    for name, records in runs.items():
        values = curves(records, measure)[1]
        rows.append([name, *(mean_and_error(column, digits=3) for column in values.T)])
    return _table(f"{TITLES[measure]} by labelled documents", ["", *map(str, labelled)], rows)


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    line = lambda tag, cells: "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return (
        f"<table><caption>{html.escape(caption)}</caption><tr>{line('th', head)}</tr>{body}</table>"
    )


def _image(path: Path) -> str:
    text = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{html.escape(path.stem)}" src="data:image/png;base64,{text}"></p>'
