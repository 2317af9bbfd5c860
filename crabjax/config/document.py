"""Every setting as a page: ``python -m crabjax.config.document docs/settings.md`` writes it."""

import dataclasses
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from crabjax.config.build import describe
from crabjax.config.schema import Config

_INTRODUCTION = """# Settings

A configuration file states what differs from the defaults below, section by section:

    model: {name: text_cnn, kernels: 50}
    loop: {rounds: 5, seeds: [0, 1]}

`--set model.kernels=50` on the command line does the same. `extends: other.yaml` starts from
another file, and `variants` names several runs of one experiment, each by its own settings
(`random: {strategy.name: random}`). A setting that is misspelt, of the wrong type or out of range
is an error that says what is expected.

This page is written by `make settings` from `crabjax/config/schema.py`.
"""


def settings_page() -> str:
    """The page, Markdown."""
    top = [one for one in dataclasses.fields(Config) if not dataclasses.is_dataclass(one.type)]
    sections = [("", Config, top), *_sections(Config, "")]
    return "\n".join([_INTRODUCTION, *(_table(*section) for section in sections)])


def _sections(kind: Any, prefix: str) -> Iterator[tuple[str, Any, list[dataclasses.Field]]]:
    for name, hint in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            own = [one for one in dataclasses.fields(hint) if one.metadata]
            yield f"{prefix}{name}", hint, own
            yield from _sections(hint, f"{prefix}{name}.")


def _table(name: str, kind: Any, settings: list[dataclasses.Field]) -> str:
    hints = typing.get_type_hints(kind)
    lines = [f"## {name}\n" if name else "## At the top\n", f"{kind.__doc__.strip()}\n"]
    lines = ["\n".join(line.strip() for line in text.splitlines()) + "\n" for text in lines]
    lines += ["| setting | expected | default | meaning |", "|---|---|---|---|"]
    for one in settings:
        expected = describe(hints[one.name], one.metadata["limits"])
        cells = [f"`{one.name}`", expected, f"`{_shown(one.default)}`", one.metadata["meaning"]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _shown(default: Any) -> str:
    """As a file would state it."""
    plain = list(default) if isinstance(default, tuple) else default
    return yaml.safe_dump(plain, default_flow_style=True).removesuffix("...\n").strip()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(settings_page(), encoding="utf-8")
