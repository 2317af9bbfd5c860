"""Labels your own texts: which ones next, what is known so far, predictions for the rest."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

from crabjax.cache import keep_compiled_programs
from crabjax.cli.common import add_overrides, run_command, whole_number
from crabjax.config import from_overrides
from crabjax.labelling import Project
from crabjax.labelling.exchange import (
    check_name,
    read_answers,
    write_predictions,
    write_suggestion,
)
from crabjax.labelling.status import status_text
from crabjax.labelling.suggestion import DIVERSE

EXAMPLE = """\
example:
  python scripts/query.py init --texts pool.csv --labels sports,politics,science
  python scripts/query.py suggest -n 100 --output to_label.csv
  python scripts/query.py add to_label.csv
  python scripts/query.py status
  python scripts/query.py predict --output predictions.csv

In between, fill in the column "labels" of to_label.csv: names separated by ";", "-" where no
label applies, "skipped" for a document you do not want to see again. An empty cell stays open.
`add --replace` takes corrections; "withdrawn" takes an earlier answer back.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand; errors in the input go to stderr, with exit status 1."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    keep_compiled_programs()
    return run_command(lambda: options.run(options), "all labels that were added are kept")


def run_init(options: argparse.Namespace) -> None:
    """Makes a project."""
    overrides = list(options.overrides)
    if options.encoder:
        folder = Path(options.encoder).expanduser()
        name = str(folder.resolve()) if folder.is_dir() else options.encoder
        overrides += ["model.name=frozen", f"model.pretrained={name}"]
    config = from_overrides(overrides)
    labels = [label.strip() for label in options.labels.split(",")]
    project = Project.create(options.project, options.texts, labels, config, options.text_column)
    print(f"{project.folder}: {len(project.ids)} documents, {len(project.label_names)} labels")


def run_suggest(options: argparse.Namespace) -> None:
    """Writes the documents to label next."""
    check_name(options.output)
    project = Project.open(options.project)
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
    print(f"{options.output}: {len(suggestion.indices)} documents to label")
    if suggestion.sources[0] == DIVERSE:
        print("few or no labels yet: these documents were chosen to cover all of them")
    if options.output.suffix == ".json":
        print(f"labelling interface for Label Studio: {project.folder / 'label_studio.xml'}")
    elif options.output.suffix == ".csv":
        print('fill in "labels": names separated by ";", "-" for none, "skipped" to leave it out')


def run_add(options: argparse.Namespace) -> None:
    """Keeps the answers of a file."""
    project = Project.open(options.project)
    added = project.add(read_answers(options.file), options.replace, options.ignore_texts)
    print(f"added {added.labelled} labelled and {added.skipped} skipped documents")
    notes = {
        "withdrawn": added.withdrawn,
        "without an answer": added.blank - added.kept,
        'empty here, their earlier answers hold ("withdrawn" takes one back)': added.kept,
        "known already": added.known,
        "in place of earlier answers": added.replaced,
    }
    for note, count in notes.items():
        if count:
            print(f"  {count} {note}")


def run_status(options: argparse.Namespace) -> None:
    """Prints where the project stands."""
    print(status_text(Project.open(options.project)))


def run_predict(options: argparse.Namespace) -> None:
    """Writes labels of all documents: the person's where there are any, else the ensemble's."""
    check_name(options.output, (".csv", ".jsonl"))
    project = Project.open(options.project)
    project.check_output(options.output)
    learner = project.learner()
    project.restore(learner)
    probabilities = learner.predict_proba(project.texts)
    project.keep(learner)
    labels, sources = project.decide(probabilities)
    write_predictions(
        options.output,
        project.ids,
        labels,
        sources,
        probabilities,
        project.label_names,
        project.style,
    )
    print(f"{options.output}: {len(project.ids)} documents, {sources.count('person')} by a person")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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


def _command(commands, name: str, text: str, run) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=(run.__doc__ or text))
    command.add_argument(
        "--project", type=Path, default=Path("labelling"), help="folder (default: %(default)s)"
    )
    command.set_defaults(run=run)
    return command


def _add_init(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--texts", type=Path, required=True, help=".csv, .tsv or .jsonl, with ids or without"
    )
    command.add_argument("--labels", required=True, metavar="A,B,C", help="the labels to give")
    command.add_argument("--text-column", default="text", help="CSV only (default: %(default)s)")
    command.add_argument(
        "--encoder",
        help="learn from the vectors of a pretrained encoder, a hub name or a folder; "
        "all-MiniLM-L6-v2 is a good one on a CPU",
    )
    add_overrides(command)
