"""Where a project stands: what is labelled, how good the labels make it, whether to go on."""

import json
import math
from collections import Counter
from contextlib import suppress
from typing import Any

from crabjax.files import write_text
from crabjax.labelling.learning_curve import LearningCurve
from crabjax.labelling.project import Project
from crabjax.labelling.trained import NotFittedError
from crabjax.report.figures import draw_progress

ESTIMATE, PICTURE = "estimate.json", "progress.png"
WORTHWHILE = 0.01  # micro-F1 that doubling the labels should bring
_CLEAR = 0.02  # a gain known less well than this decides nothing


def status_text(project: Project, curve: LearningCurve | None) -> str:
    """Counts, estimated scores, the curve and a hint; also draws ``progress.png``.

    Args:
      project: to be described.
      curve: its :func:`estimate`.
    """
    answers = project.answers()
    labelled = [one.labels for one in answers.values() if isinstance(one.labels, list)]
    counts = Counter(label for labels in labelled for label in labels)
    total, skipped = project.distinct(), len(answers) - len(labelled)
    same = len(project.texts) - total
    share = 100 * len(labelled) / total
    lines = [
        f"{project.folder}: {total} documents"
        f"{f' (and {same} with the same text as another)' if same else ''}, "
        f"{len(labelled)} labelled ({share:.0f}%), {skipped} skipped, "
        f"{total - len(answers)} without an answer"
    ]
    lines += ["", *_label_table(project, counts, curve)]
    if curve is None:
        return "\n".join([*lines, "", "too few labels to estimate a score; label some more"])
    picture = project.folder / PICTURE
    lines += ["", *_curve_table(curve), "", hint(curve), ""]
    try:
        draw_progress(curve, {name: counts[name] for name in project.label_names}, picture)
    except OSError as error:  # as of a project that may be read, but not written
        return "\n".join([*lines, f"no picture: {picture}: {error.strerror}"])
    return "\n".join([*lines, f"picture: {picture}"])


def status_facts(project: Project, curve: LearningCurve | None) -> dict[str, Any]:
    """The same as numbers: counts, and the estimated curve where there is one; JSON has no NaN."""
    answers = project.answers()
    labelled = [one.labels for one in answers.values() if isinstance(one.labels, list)]
    estimated = {} if curve is None else curve._asdict()
    for name in ("gain", "gain_error"):
        if name in estimated and math.isnan(estimated[name]):
            estimated[name] = None
    return {
        "documents": project.distinct(),
        "labelled": len(labelled),
        "skipped": len(answers) - len(labelled),
        "labels": dict(Counter(label for labels in labelled for label in labels)),
        "curve": estimated or None,
    }


def estimate(project: Project) -> LearningCurve | None:
    """Cross-validated scores, kept until labels change; None with too few labels."""
    learner = project.learner()
    path, fingerprint = project.folder / ESTIMATE, learner.fingerprint()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["answers"] == fingerprint:
            return LearningCurve(**kept["curve"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # made again below
    try:
        curve = learner.learning_curve()
    except NotFittedError:
        return None
    with suppress(OSError):  # it is only made again the next time
        write_text(path, json.dumps({"answers": fingerprint, "curve": curve._asdict()}))
    return curve


def hint(curve: LearningCurve) -> str:
    """Whether more labels still help, as far as the last doubling tells."""
    if math.isnan(curve.gain):
        return "hint: too few labels to tell whether more of them help; label some more"
    change = (
        f"{curve.labelled[-2]} to {curve.labelled[-1]} labelled documents changed micro-F1 by "
        f"{curve.gain:+.3f} ±{curve.gain_error:.3f}"
    )
    if curve.gain > max(WORTHWHILE, 2 * curve.gain_error):
        return f"hint: {change}; more labels still help"
    if curve.gain < WORTHWHILE and curve.gain_error < _CLEAR:
        return f"hint: {change}; more labels have stopped helping"
    return f"hint: {change}; not clear yet whether more labels help"


def _label_table(project: Project, counts: Counter, curve: LearningCurve | None) -> list[str]:
    width = max(len("label"), *(len(name) for name in project.label_names))
    lines = [f"{'label':{width}}  documents" + ("     F1" if curve else "")]
    for column, name in enumerate(project.label_names):
        f1 = f"  {curve.label_f1[column]:5.2f}" if curve else ""
        lines.append(f"{name:{width}}  {counts[name]:9}{f1}")
    return lines


def _curve_table(curve: LearningCurve) -> list[str]:
    lines = [
        "estimated by 5-fold cross-validation on the labelled documents, which are harder than",
        "the rest where the strategy picked them; learning from the first:",
        "labelled  micro-F1         macro-F1",
    ]
    points = zip(curve.labelled, curve.micro_f1, curve.micro_error, curve.macro_f1)
    lines += [
        f"{n:8}  {micro:.3f} ±{error:.3f}     {macro:.3f}" for n, micro, error, macro in points
    ]
    return lines
