"""Makes data sets in the common format, and describes them."""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from crabjax.cli.common import (
    add_command,
    command_parser,
    new_folder,
    ratio,
    run_command,
    seed_number,
    whole_number,
)
from crabjax.config import SyntheticConfig, from_dict
from crabjax.data.corpus import Corpus, read_corpus, write_corpus
from crabjax.data.records import CsvFormat
from crabjax.data.sources import SOURCES, About, Asked, Prepared
from crabjax.files import DataError

INTRODUCTION = """\
Makes data sets in the common format: a folder with train.jsonl and test.jsonl, one document a line,
  {"text": "...", "labels": ["..."]}   or   {"doc_token": ["..."], "doc_label": ["..."]}

Documents of your own need no preparation if they are in a file like that, or in a CSV file
with a text and a label column: name the files in a configuration (data.train, data.test).
"""
EXAMPLE = """\
  %(prog)s synthetic --output data/synthetic
  %(prog)s stats data/synthetic/train.jsonl
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Runs one subcommand; errors in the input are one line on stderr and exit status 1."""
    options = _parser(prog).parse_args(argv)
    return run_command(lambda: options.run(options), "files that were begun were not kept")


def run_source(options: argparse.Namespace) -> None:
    """Converts the raw files of a data set."""
    _check_free(options)
    _print_prepared(SOURCES[options.command].prepare(_asked(options, options.raw)), options.output)


def run_hub(options: argparse.Namespace) -> None:
    """Converts a data set of the Hugging Face hub, or files that came from there."""
    from crabjax.data.sources import hub

    options.output = options.output or new_folder(f"data/{Path(options.name).stem}")
    _check_free(options)
    folder = Path(options.name).expanduser()
    folder = folder if folder.exists() else hub.download(options.name)
    columns = hub.Columns(options.texts_column, options.labels_column, options.label_separator)
    prepared = hub.prepare(_asked(options, folder), columns, options.within)
    _print_prepared(prepared, options.output)


def _asked(options: argparse.Namespace, raw: Path) -> Asked:
    sizes = {"train": options.train_size, "test": options.test_size}
    return Asked(raw, options.output, sizes, options.seed)


def _print_prepared(prepared: Prepared, output: Path) -> None:
    for sentence in prepared.omitted:
        print(sentence)
    for split, count in prepared.written.items():
        print(f"{output / split}.jsonl: {count} documents")


def run_synthetic(options: argparse.Namespace) -> None:
    """Generates the built-in corpus."""
    from crabjax.data.synthetic import make_synthetic

    _check_free(options)
    settings = {one.name: getattr(options, one.name) for one in fields(SyntheticConfig)}
    config = from_dict({"data": {"synthetic": settings}}, "settings").data.synthetic
    for corpus in make_synthetic(config):
        _write(corpus, options.output)


def run_resample(options: argparse.Namespace) -> None:
    """Reduces a data set to its most frequent labels, a size and a MeanIR."""
    from crabjax.data.resample import frequent_labels, resample

    if options.output.resolve() == options.input.resolve():
        raise DataError(f"{options.output}: expected another folder than --input")
    _check_free(options)
    train = read_corpus(_split_file(options.input, "train"))
    test = read_corpus(_split_file(options.input, "test"))
    names = frequent_labels(train, options.labels)
    wanted = (
        (train, options.train_size, options.mean_ir),
        (test, options.test_size, options.test_mean_ir),
    )
    parts = [
        resample(corpus, names, size, imbalance, options.seed, options.measure)
        for corpus, size, imbalance in wanted
    ]
    for part in parts:
        _write(part, options.output)


def run_stats(options: argparse.Namespace) -> None:
    """Prints the statistics of files."""
    from crabjax.data.statistics import describe

    csv_format = CsvFormat(
        options.text_column, options.label_column, options.label_separator, options.csv_delimiter
    )
    for path in options.files:
        statistics = describe(read_corpus(path, csv_format=csv_format))
        print(statistics.to_json() if options.json else f"{path}\n{statistics.table()}\n")


def _check_free(options: argparse.Namespace) -> None:
    """Raises where files would be overwritten that nobody said may be."""
    for split in ("train", "test", "validation"):
        path = options.output / f"{split}.jsonl"
        if path.exists() and not options.force:
            raise DataError(f"{path}: is there already; --force overwrites it")


def _write(corpus: Corpus, folder: Path) -> None:
    from crabjax.data.statistics import describe

    path = folder / f"{corpus.split}.jsonl"
    write_corpus(corpus, path)
    found = describe(corpus)
    print(
        f"{path}: {found.documents} documents, {found.labels} labels, "
        f"MeanIR {found.mean_ir:.2f}, mean / smallest {found.mean_to_smallest:.2f}, "
        f"CorrAvg {found.corr_avg:.3f}"
    )


def _split_file(folder: Path, split: str) -> Path:
    plain = folder / f"{split}.jsonl"
    packed = folder / f"{split}.jsonl.gz"
    return packed if packed.is_file() and not plain.is_file() else plain


def _parser(prog: str | None) -> argparse.ArgumentParser:
    parser = command_parser(prog, INTRODUCTION, EXAMPLE)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, source in SOURCES.items():
        _add_source(commands, name, source.about)
    _add_hub(commands)
    _add_synthetic(commands)
    _add_resample(commands)
    _add_stats(commands)
    return parser


def _add_source(commands, name: str, about: About) -> None:
    command = add_command(
        commands,
        name,
        f"convert {about.title}",
        f"Converts {about.title}.\nIt needs {about.files},\nfrom {about.where}.",
        "  %(prog)s --raw FOLDER     (the folder with these files)",
    )
    command.add_argument("--raw", type=Path, required=True, help="folder with the raw files")
    _add_output(command, Path("data") / name)
    _add_sizes(command, about.train_size, about.test_size)
    command.set_defaults(run=run_source)


def _add_hub(commands) -> None:
    command = add_command(
        commands,
        "hub",
        "convert a data set of the Hugging Face hub",
        "Converts a data set of the Hugging Face hub that has a column of texts and one of labels\n"
        "(lists, or one string with a separator), or files of that kind in a folder.",
        "  %(prog)s google-research-datasets/go_emotions --within simplified "
        "--output data/goemotions",
    )
    command.add_argument("name", help="of the data set on the hub, or a folder, or a file")
    command.add_argument("--texts-column", default="text", help="default: %(default)s")
    command.add_argument("--labels-column", default="labels", help="default: %(default)s")
    command.add_argument(
        "--label-separator", default=";", help="of labels in one string (default: %(default)s)"
    )
    command.add_argument(
        "--within", default="", metavar="WORD", help="only files with this word in their path"
    )
    _add_output(command, optional=True)
    _add_sizes(command, None, None)
    command.set_defaults(run=run_hub)


def _add_synthetic(commands) -> None:
    command = add_command(
        commands,
        "synthetic",
        "generate the built-in corpus",
        "Generates labelled documents of made-up words.",
        "  %(prog)s --output data/small --documents 1000",
    )
    _add_output(command, Path("data/synthetic"))
    defaults = SyntheticConfig()
    for one in fields(SyntheticConfig):
        default = getattr(defaults, one.name)
        command.add_argument(
            f"--{one.name.replace('_', '-')}",
            type=type(default),
            default=default,
            help=f"{one.metadata['meaning']} (default: %(default)s)",
        )
    command.set_defaults(run=run_synthetic)


def _add_resample(commands) -> None:
    command = add_command(
        commands,
        "resample",
        "reduce a data set to fewer labels, a size and an imbalance",
        "Reduces a data set to its most frequent labels, a size and a MeanIR, as the paper's\n"
        "RCV1-T10-5, -10, -20 and -50.",
        "  crabjax prepare synthetic --output data/synthetic\n"
        "  %(prog)s --input data/synthetic --output data/fewer --labels 6 --mean-ir 5 \\\n"
        "      --test-mean-ir 4 --train-size 600 --test-size 200",
    )
    command.add_argument(
        "--input", type=Path, required=True, help="folder with train.jsonl and test.jsonl"
    )
    _add_output(command)
    command.add_argument(
        "--labels", type=whole_number, default=10, help="labels kept (default: 10)"
    )
    command.add_argument("--mean-ir", type=ratio, required=True, help="imbalance to train on")
    command.add_argument(
        "--test-mean-ir", type=ratio, default=10.0, help="imbalance to test on (default: 10)"
    )
    command.add_argument(
        "--measure",
        choices=("mean_to_smallest", "mean_ir"),
        default="mean_to_smallest",
        help="what these are: mean count / smallest count, as in the paper (default), or MeanIR",
    )
    _add_sizes(command, 1200, 600)
    command.set_defaults(run=run_resample)


def _add_stats(commands) -> None:
    command = add_command(
        commands,
        "stats",
        "describe files: labels, imbalance, correlation",
        "Prints documents, labels, cardinality, MeanIR (mean over labels of the largest label's\n"
        "count divided by this label's), CorrAvg (how far one label implies others) and the count\n"
        "of each label.",
        "  crabjax prepare synthetic --output data/synthetic\n"
        "  %(prog)s data/synthetic/train.jsonl",
    )
    command.add_argument("files", type=Path, nargs="+", help=".jsonl, .csv or .tsv, also .gz")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    for one in fields(CsvFormat):
        command.add_argument(
            f"--{one.name.replace('_', '-')}",
            default=one.default,
            help=f'CSV only (default: "{one.default}")',
        )
    command.set_defaults(run=run_stats)


def _add_output(
    command: argparse.ArgumentParser, default: Path | None = None, optional: bool = False
) -> None:
    needed = default is None and not optional
    text = "folder to write to" + ("" if needed else f" (default: {default or 'data/NAME'})")
    command.add_argument("--output", type=new_folder, default=default, required=needed, help=text)
    command.add_argument("--force", action="store_true", help="overwrite files that are there")


def _add_sizes(command: argparse.ArgumentParser, train: int | None, test: int | None) -> None:
    sizes = (("--train-size", train), ("--test-size", test))
    for option, size in sizes:
        text = "all there are" if size is None else "%(default)s, the paper's"
        command.add_argument(
            option, type=whole_number, default=size, help=f"documents (default: {text})"
        )
    command.add_argument(
        "--seed", type=seed_number, default=0, help="of the random draw (default: 0)"
    )
