"""Labels your own texts: which ones next, what is known so far, predictions for the rest."""

import argparse
import csv
import io
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crabjax.cli.common import (
    add_command,
    add_overrides,
    add_talk,
    command_parser,
    run_command,
    whole_number,
)
from crabjax.files import read_lines
from crabjax.progress import doing, tell

EXAMPLE = """\
  {prog} init --texts pool.csv --labels sports,politics,science
  {prog} suggest -n 100 --output to_label.csv
  {prog} add to_label.csv
  {prog} status
  {prog} predict --output predictions.csv

In between, fill in the column "labels" of to_label.csv: names separated by ";", "-" where no
label applies, "skipped" for a document you do not want to see again. An empty cell stays open.
`add --replace` takes corrections; "withdrawn" takes an earlier answer back.
"""
_HOW = 'names separated by ";", "-" for none, "skipped" to leave it out'
INIT_EXAMPLE = """\
  crabjax prepare synthetic --output data/play --documents 500 --length 20 --roots 3 \\
      --leaves-per-root 0 --mean-ir 2 --corr-avg 0
  %(prog)s --texts data/play/train.jsonl --labels root0,root1,root2

The first command makes texts to play with, if you have none at hand.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Runs one subcommand; errors in the input go to stderr, with exit status 1."""
    options = _parser(prog).parse_args(argv)

    def work() -> None:
        with doing("loading JAX"):
            from crabjax.files.cache import keep_compiled_programs
            from crabjax.labelling import Project  # noqa: F401
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        keep_compiled_programs()
        options.run(options)

    return run_command(work, "all labels that were added are kept", options)


def run_init(options: argparse.Namespace) -> None:
    """Makes a project from a file of texts, with or without ids."""
    from crabjax.config import from_overrides
    from crabjax.labelling import Project

    overrides = list(options.overrides)
    if options.vectors:
        overrides.insert(0, "model.name=frozen")
    if options.encoder:
        folder = Path(options.encoder).expanduser()
        name = str(folder.resolve()) if folder.is_dir() else options.encoder
        overrides += ["model.name=frozen", f"model.pretrained={name}"]
    config = from_overrides(overrides)
    if options.vectors:
        config = replace(config, data=replace(config.data, vectors=str(options.vectors)))
    names = read_label_names(options)
    project = Project.create(options.project, options.texts, names, config, options.text_column)
    documents, labels = len(project.ids), list(project.label_names)
    equal = documents - project.distinct()
    empty = sum(not text.strip() for text in project.texts)
    facts = {"documents": documents, "labels": labels, "equal": equal, "empty": empty}
    tell(f"{project.folder}: {documents} documents, {len(labels)} labels", event="project", **facts)
    tell(f"labels: {'; '.join(labels)}")
    if equal or empty:
        tell(f"{equal} texts equal an earlier one and share its answers; {empty} are empty")
    tell("next: suggest -n 100 --output to_label.csv", minor=True)


def run_suggest(options: argparse.Namespace) -> None:
    """Writes the documents to label next; about half a minute with 10,000 texts on two cores."""
    from crabjax.labelling.exchange import check_name, write_suggestion
    from crabjax.labelling.suggestion import DIVERSE

    check_name(options.output)
    project = _open(options)
    project.check_output(options.output)
    learner = project.learner()
    project.restore(learner)
    suggestion = learner.ask(project.texts, options.count)
    project.keep(learner)
    write_suggestion(
        options.output,
        suggestion,
        project.ids,
        project.texts,
        project.label_names,
        project.style,
    )
    count, cold = len(suggestion.indices), suggestion.sources[0] == DIVERSE
    fewer = f", all that are left of the {options.count} asked for" if count < options.count else ""
    facts = {"output": str(options.output), "documents": count, "cold_start": cold}
    tell(f"{options.output}: {count} documents to label{fewer}", event="suggestion", **facts)
    if cold:
        tell("few or no labels yet: half of these cover all documents, half are random")
    if options.output.suffix == ".json":
        tell(f"labelling interface for Label Studio: {project.folder / 'label_studio.xml'}")
    elif options.output.suffix == ".csv":
        tell(f'fill in "labels": {_HOW}', minor=True)


def run_add(options: argparse.Namespace) -> None:
    """Keeps the answers of a file, or nothing of it where it has a mistake."""
    from crabjax.labelling.exchange import read_answers

    added = _open(options).add(read_answers(options.file), options.replace, options.ignore_texts)
    text = f"added {added.labelled} labelled and {added.skipped} skipped documents"
    tell(text, event="added", **added._asdict())
    notes = {
        "withdrawn": added.withdrawn,
        "without an answer": added.blank - added.kept,
        'empty here, their earlier answers hold ("withdrawn" takes one back)': added.kept,
        "known already": added.known,
        "in place of earlier answers": added.replaced,
    }
    for note, count in notes.items():
        if count:
            tell(f"  {count} {note}")


def run_status(options: argparse.Namespace) -> None:
    """Prints where the project stands: counts, estimated F1, its curve, whether to go on."""
    from crabjax.labelling.status import estimate, status_facts, status_text

    project = _open(options)
    curve = estimate(project)
    tell(status_text(project, curve), event="status", **status_facts(project, curve))


def run_predict(options: argparse.Namespace) -> None:
    """Writes labels of all documents: the person's where there are any, else the ensemble's."""
    from crabjax.labelling.decisions import write_decisions
    from crabjax.labelling.exchange import check_name

    check_name(options.output, (".csv", ".jsonl"))
    project = _open(options)
    project.check_output(options.output)
    learner = project.learner()
    project.restore(learner)
    by_person = write_decisions(project, learner, options.output)
    documents = len(project.ids)
    facts = {"output": str(options.output), "documents": documents, "by_person": by_person}
    text = f"{options.output}: {documents} documents, {by_person} by a person"
    tell(text, event="predictions", **facts)
    _say_doubts(project)


def _say_doubts(project) -> None:
    """Warns of predictions that rest on next to nothing."""
    from crabjax.labelling.answers import FEWEST_LABELLED

    said = [one.labels for one in project.answers().values() if isinstance(one.labels, list)]
    given = {label for labels in said for label in labels}
    if len(said) < FEWEST_LABELLED:
        warnings.warn(
            f"these predictions were learnt from {len(said)} labelled documents; below "
            f"{FEWEST_LABELLED} they are little better than guesses",
            stacklevel=2,
        )
    if never := [name for name in project.label_names if name not in given]:
        names = f"{', '.join(never[:5])}{', ...' if len(never) > 5 else ''}"
        warnings.warn(f"never given so far, so never predicted well: {names}", stacklevel=2)


def read_label_names(options: argparse.Namespace) -> list[str]:
    """The names of ``--labels``, a line of CSV, or of ``--labels-file``, one a line.

    Raises:
      ValueError: if ``--labels`` has several lines, or the file is not text.
    """
    if options.labels_file is not None:
        names = [line.strip() for line in read_lines(options.labels_file) if line.strip()]
        if not names:
            raise ValueError(f"{options.labels_file}: expected a label a line, found none")
        return names
    given = io.StringIO(options.labels, newline="")
    rows = list(csv.reader(given, skipinitialspace=True))
    if len(rows) > 1:
        raise ValueError(
            f"--labels: expected one line, found {len(rows)}; --labels-file takes a name a line"
        )
    return [name.strip() for row in rows for name in row]


def _open(options: argparse.Namespace) -> Any:
    from crabjax.labelling import Project

    return Project.open(options.project)


def _parser(prog: str | None) -> argparse.ArgumentParser:
    parser = command_parser(prog, __doc__ or "", EXAMPLE.replace("{prog}", "%(prog)s"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_init(_command(commands, "init", "make a project from a file of texts", run_init))
    suggest = _command(commands, "suggest", "write the documents to label next", run_suggest)
    suggest.add_argument(
        "-n", type=whole_number, default=100, dest="count", help="documents (default: %(default)s)"
    )
    suggest.add_argument(
        "--output", type=Path, required=True, help=".csv, .jsonl, or .json for Label Studio"
    )
    add = _command(commands, "add", "keep the labels of a file, or nothing of it", run_add)
    add.add_argument("file", type=Path, help=".csv, .jsonl, or a Label Studio export .json")
    add.add_argument("--replace", action="store_true", help="let new answers replace earlier ones")
    add.add_argument(
        "--ignore-texts", action="store_true", help="go by id where the file shows another text"
    )
    _command(commands, "status", "counts, estimated F1, its curve, whether to go on", run_status)
    predict = _command(commands, "predict", "write labels of all documents", run_predict)
    predict.add_argument("--output", type=Path, required=True, help=".csv or .jsonl")
    return parser


_EXAMPLES = {
    "init": INIT_EXAMPLE,
    "suggest": "  %(prog)s -n 40 --output to_label.csv     (in the folder where you gave `init`)",
    "add": "  %(prog)s to_label.csv     (once its column `labels` is filled in)",
    "status": "  %(prog)s",
    "predict": "  %(prog)s --output predictions.csv     (needs a few labels)",
}


def _command(commands: Any, name: str, text: str, run: Callable) -> argparse.ArgumentParser:
    command = add_command(commands, name, text, run.__doc__ or "", _EXAMPLES[name])
    command.add_argument(
        "--project", type=Path, default=Path("labelling"), help="folder (default: %(default)s)"
    )
    add_talk(command)
    command.set_defaults(run=run)
    return command


def _add_init(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--texts", type=Path, required=True, help=".csv, .tsv or .jsonl, with ids or without"
    )
    labels = command.add_mutually_exclusive_group(required=True)
    labels.add_argument(
        "--labels", metavar="A,B,C", help='the labels to give; "a, b",c for a name with a comma'
    )
    labels.add_argument("--labels-file", type=Path, help="a file with one label a line")
    command.add_argument("--text-column", default="text", help="CSV only (default: %(default)s)")
    learnt_from = command.add_mutually_exclusive_group()
    learnt_from.add_argument(
        "--encoder",
        help="learn from the vectors of a pretrained encoder, a hub name or a folder; "
        "all-MiniLM-L6-v2 is a good one on a CPU",
    )
    learnt_from.add_argument(
        "--vectors",
        type=Path,
        help="learn from your own: .npy or .safetensors, float32, a row for each text in order; "
        "the file stays where it is",
    )
    add_overrides(command)
