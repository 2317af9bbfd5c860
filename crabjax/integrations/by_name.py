"""Strategies of other packages by name: ``strategy.name: small_text.BreakingTies`` in a config."""

import inspect
from collections.abc import Callable
from typing import Any

from crabjax.config import ConfigError
from crabjax.integrations import skactiveml, small_text
from crabjax.integrations.common import require
from crabjax.strategies import strategy_names

# What cannot be left at the package's own default.
_OPTIONS: dict[str, dict[str, Any]] = {
    "CategoryVectorInconsistencyAndRanking": {"pbar": None}  # a progress bar
}


def register_by_name(name: str) -> None:
    """Registers the strategy ``PACKAGE.CLASS`` names, if there is such a package and it is new.

    Args:
      name: of any strategy; ``small_text.CLASS`` and ``skactiveml.CLASS`` are of other packages.

    Raises:
      MissingExtraError: if the package is not installed.
      ConfigError: if it has no query strategy of that name, or one that must be told something.
    """
    package, _, kind = name.partition(".")
    if package in _PACKAGES and kind and name not in strategy_names():
        _PACKAGES[package](name, kind)


def _register_small_text(name: str, kind: str) -> None:
    package = require("small_text", small_text.EXTRA)
    found = _strategy_class(package, package.QueryStrategy, name, kind)
    embeds = issubclass(found, package.EmbeddingBasedQueryStrategy)
    strategy = found(**_OPTIONS.get(kind, {}))
    small_text.register_small_text(name, strategy, needs_features=embeds)


def _register_skactiveml(name: str, kind: str) -> None:
    package = require("skactiveml.pool", skactiveml.EXTRA)
    base = require("skactiveml.base", skactiveml.EXTRA).PoolQueryStrategy
    skactiveml.register_skactiveml(name, _strategy_class(package, base, name, kind)())


_PACKAGES: dict[str, Callable[[str, str], None]] = {
    "small_text": _register_small_text,
    "skactiveml": _register_skactiveml,
}


def _strategy_class(package: Any, base: type, name: str, kind: str) -> type:
    classes = inspect.getmembers(package, inspect.isclass)
    missing = {
        key: _missing(one)
        for key, one in classes
        if issubclass(one, base) and not inspect.isabstract(one) and one is not base
    }
    if missing.get(kind) == []:
        return getattr(package, kind)
    known = [f"{name.partition('.')[0]}.{key}" for key, needed in missing.items() if not needed]
    also = f", which needs {', '.join(missing[kind])}" if kind in missing else ""
    raise ConfigError(f"strategy.name: expected one of {', '.join(known)}, found {name!r}{also}")


def _missing(kind: type) -> list[str]:
    """Arguments that a class of strategies cannot be made without."""
    given = _OPTIONS.get(kind.__name__, {})
    passed_on = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        one.name
        for one in inspect.signature(kind).parameters.values()
        if one.default is one.empty and one.kind not in passed_on and one.name not in given
    ]
