"""What each benchmark can be told; without JAX, so that help and mistakes come at once."""

import argparse
from collections.abc import Callable
from typing import Any

from crabjax.devices.chips import CHIPS

FIT_SIZES = {"labelled": [100, 600], "validation": 600, "epochs": 10, "tokens": 256}
# A transformer takes ten times as long, and PyTorch longer still.
FIT_SMALLER = {"labelled": [100], "validation": 100, "epochs": 2, "tokens": 128}
PAPER = {
    "text_cnn": "rcv1_textcnn.yaml",
    "text_rnn": "rcv1_textrnn.yaml",
    "distilbert": "mimic.yaml",
}
PARTS = {"fit": ("step", "validation"), "predict": ("predict",), "score": ("score",)}
CHIP_SIZES = {
    "documents": "to train on and choose from",
    "words": "of the vocabulary",
    "labels": "of the data",
    "members": "of the ensemble; of text classifiers those of all seeds",
    "layers": "of DistilBERT to compile; else it is reckoned from one and two",
}


def _scoring(parser: argparse.ArgumentParser) -> None:
    sizes = {"candidates": 2048, "anchors": 188, "labels": 20, "members": 5}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--beta", type=float, default=3.0)
    parser.add_argument("--chunk-size", type=int, default=512)
    parser.add_argument("--against", choices=["dense"], help="also time the dense evaluation")
    parser.add_argument("--dense-candidates", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)


def _fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", choices=["text_cnn", "text_rnn", "distilbert"], default="text_cnn"
    )
    parser.add_argument("--against", choices=["torch"], help="also time a plain PyTorch loop")
    for name, default in FIT_SIZES.items():
        smaller = f"default: {default}, for distilbert {FIT_SMALLER[name]}"
        many: dict[str, Any] = {"nargs": "+"} if name == "labelled" else {}
        parser.add_argument(f"--{name}", type=int, help=smaller, **many)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--vocabulary", type=int, default=22_000)
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=1)


def _prepare(parser: argparse.ArgumentParser) -> None:
    sizes = {"documents": 100_000, "words": 20, "vocabulary": 50_000, "labels": 20}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)


def _round(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", default="demo.yaml", help="the experiment (default: demo.yaml)")
    parser.add_argument("--strategy", default="crab", help="default: crab")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--against", choices=["dense", "torch"])
    parser.add_argument("--dense-candidates", type=int, default=16)
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="SECTION.KEY=VALUE"
    )


def _scaling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--documents",
        nargs="+",
        type=int,
        default=[10_000, 100_000, 1_000_000],
        help="of a round (default: 10000 100000 1000000)",
    )


def _peers(parser: argparse.ArgumentParser) -> None:
    sizes = {"documents": 7000, "labels": 10, "members": 5, "query": 100, "labelled": 500}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--features", type=int, default=128, help="length of a document vector")
    parser.add_argument("--repeats", type=int, default=5)


def _compile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chip", required=True, help=", ".join(CHIPS))
    parser.add_argument("--config", help="default: the paper's, of every --model")
    parser.add_argument("--model", nargs="+", choices=list(PAPER), default=list(PAPER))
    parser.add_argument("--program", nargs="+", choices=list(PARTS), default=list(PARTS))
    for name, what in CHIP_SIZES.items():
        parser.add_argument(f"--{name}", type=int, help=what)
    parser.add_argument(
        "--at-once", type=int, help="members trained and predicted at once, not as the plan has it"
    )
    parser.add_argument(
        "--keep", help="folder of what was compiled: done once, and read the next time"
    )
    parser.add_argument(
        "--slowest",
        type=int,
        help="say where the time of a program goes, in so many lines",
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="SECTION.KEY=VALUE"
    )


ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "scoring": _scoring,
    "fit": _fit,
    "prepare": _prepare,
    "round": _round,
    "scaling": _scaling,
    "peers": _peers,
    "compile": _compile,
}
