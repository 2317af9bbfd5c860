"""Nested frozen dataclasses from plain trees, with errors that name the key.

Knows types and ranges, nothing of the experiment: ``schema.py`` holds the settings themselves.
"""

import dataclasses
import operator
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import yaml

from crabjax.files import did_you_mean


class ConfigError(ValueError):
    """A setting that is unknown, ill-typed or impossible."""


def _check_keys(node: yaml.Node | None, above: set[int], done: set[int]) -> None:
    """Every key once, and a plain word: YAML itself would quietly take the last.

    Args:
      node: of a composed text.
      above: the nodes it stands in, by identity.
      done: nodes that were looked at; an alias brings them again.
    """
    if not isinstance(node, yaml.CollectionNode) or id(node) in done:
        return
    if id(node) in above:
        raise _problem("found a value that holds itself", node)
    inner, seen = list(node.value), set()
    if isinstance(node, yaml.MappingNode):
        inner = [value for _, value in node.value]
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _problem("expected a plain word as a key", key)
            if not key.tag.endswith(":merge") and (key.tag, key.value) in seen:
                raise _problem(f"the key {key.value!r} is given twice", key)
            seen.add((key.tag, key.value))
    for one in inner:
        _check_keys(one, above | {id(node)}, done)
    done.add(id(node))


def _problem(text: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=text, problem_mark=node.start_mark)


def read_yaml(text: str, source: str) -> Any:
    """The value of a YAML text.

    Raises:
      ConfigError: naming source, line and column of what is wrong, in one line.
    """
    try:
        _check_keys(yaml.compose(text, Loader=yaml.SafeLoader), set(), set())
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ConfigError(f"{source}{where}: not valid YAML: {problem}") from error


def setting(default: Any, meaning: str, *, above=None, at_least=None, at_most=None) -> Any:
    """A dataclass field with its meaning, and a range that holds for each item of a list."""
    bounds = {"above": above, "at_least": at_least, "at_most": at_most}
    limits = {name: bound for name, bound in bounds.items() if bound is not None}
    return dataclasses.field(default=default, metadata={"meaning": meaning, "limits": limits})


def build(kind: type, tree: Any, source: str) -> Any:
    """Builds the nested dataclass ``kind`` from dicts; ``source`` opens every error message."""
    return _section(kind, tree, source, "", keys_of(kind))


def merge(base: Mapping[str, Any], changes: Mapping[str, Any], top: bool = True) -> dict[str, Any]:
    """``base`` with the leaves of ``changes`` put over it; an empty section changes nothing.

    Args:
      base: a tree of settings, or a part of one.
      changes: put over it.
      top: whether the keys are sections; a mapping inside of one may be a setting, taken back by
        None.
    """
    merged = dict(base)
    for key, value in changes.items():
        if isinstance(merged.get(key), Mapping) and (
            isinstance(value, Mapping) or (value is None and top)
        ):
            merged[key] = merge(merged[key], value or {}, top=False)
        else:
            merged[key] = value
    return merged


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"loop.rounds": 3} -> {"loop": {"rounds": 3}}."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        nested = value
        for part in reversed(str(key).split(".")):
            nested = {part: nested}
        tree = merge(tree, nested)
    return tree


def flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    """{"loop": {"rounds": 3}} -> {"loop.rounds": 3}."""
    keys: dict[str, Any] = {}
    for name, value in tree.items():
        inner = flat(value) if isinstance(value, Mapping) else {"": value}
        keys |= {f"{name}.{key}" if key else str(name): one for key, one in inner.items()}
    return keys


def parse_override(kind: type, text: str, source: str) -> tuple[str, Any]:
    """Reads ``section.key=value``; the key's type decides how the value is read."""
    key, sign, value = text.partition("=")
    key = key.strip()
    if not sign:
        raise ConfigError(f"{source}: expected section.key=value, found {text!r}")
    keys = keys_of(kind)
    if key not in keys:
        raise ConfigError(f"{source}: {key}: unknown key{_nearest(key, keys)}")
    hint = keys[key]
    if hint is str or (hint == (str | None) and value != "null"):
        return key, value
    try:
        if typing.get_origin(hint) is tuple:
            return key, [read_yaml(part, key) for part in value.split(",") if part]
        return key, read_yaml(value, key)
    except ConfigError:
        raise ConfigError(
            f"{source}: {key}: expected {describe(hint, {})}, found {value!r}"
        ) from None


def keys_of(kind: Any, prefix: str = "") -> dict[str, Any]:
    """Every dotted key of a nested dataclass, with its type."""
    keys: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            keys |= keys_of(hint, f"{prefix}{name}.")
        else:
            keys[prefix + name] = hint
    return keys


def _section(kind: type, tree: Any, source: str, prefix: str, known: Iterable[str]) -> Any:
    if not isinstance(tree, Mapping):
        where = prefix.rstrip(".") or "the file"
        raise ConfigError(f"{source}: {where}: expected a section, found {tree!r}")
    hints = typing.get_type_hints(kind)
    limits = {f.name: f.metadata.get("limits", {}) for f in dataclasses.fields(kind)}
    values = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if name not in hints:
            raise ConfigError(f"{source}: {key}: unknown key{_nearest(key, known)}")
        if dataclasses.is_dataclass(hints[name]):
            inner = typing.cast(type, hints[name])
            values[name] = _section(inner, {} if value is None else value, source, f"{key}.", known)
        else:
            values[name] = _checked(value, hints[name], limits[name], f"{source}: {key}")
    return kind(**values)


def _nearest(key: str, known: Iterable[str]) -> str:
    known = list(known)
    last = key.rpartition(".")[2]
    same_name = [one for one in known if one.rpartition(".")[2] == last]
    if same_name:
        return f"; did you mean {same_name[0]}?"
    sections = ", ".join(dict.fromkeys(one.split(".")[0] for one in known))
    return did_you_mean(key, known, f"sections are {sections}", cutoff=0.5)


_WRONG = object()


def _checked(value: Any, hint: Any, limits: Mapping[str, Any], where: str) -> Any:
    converted = _convert(value, hint)
    items = converted if isinstance(converted, tuple) else (converted,)
    if converted is _WRONG or not all(_within(item, limits) for item in items):
        numbers = isinstance(value, Mapping) and "mapping" in describe(hint, limits)
        numbers = numbers and any(isinstance(one, int | float) for one in (*value, *value.values()))
        quotes = "; numbers are text in quotes" if numbers else ""
        raise ConfigError(f"{where}: expected {describe(hint, limits)}, found {value!r}{quotes}")
    return converted


def _convert(value: Any, hint: Any) -> Any:
    """The value as the type asks for it, or _WRONG. YAML reads 5e-3 as text: that is a number."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        found = (_convert(value, option) for option in options)
        return next((one for one in found if one is not _WRONG), _WRONG)
    if origin is Literal:
        return value if value in options else _WRONG
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        converted = tuple(_convert(item, options[0]) for item in items)
        return _WRONG if _WRONG in converted or not converted else converted
    if origin is Mapping:
        known = isinstance(value, Mapping) and all(
            type(one) is kind for item in value.items() for one, kind in zip(item, options)
        )
        return dict(value) if known else _WRONG
    if hint is float and not isinstance(value, bool):
        try:
            number = float(value)
        except (TypeError, ValueError):
            return _WRONG
        return number if abs(number) < float("inf") else _WRONG
    if hint is type(None):
        return None if value is None else _WRONG
    return value if type(value) is hint else _WRONG


_RANGES = {"above": operator.gt, "at_least": operator.ge, "at_most": operator.le}


def _within(value: Any, limits: Mapping[str, Any]) -> bool:
    return value is None or all(_RANGES[name](value, bound) for name, bound in limits.items())


def describe(hint: Any, limits: Mapping[str, Any]) -> str:
    """A type and its range, in words."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        words = " or ".join(describe(option, {}) for option in options)
    elif origin is Literal:
        words = "one of " + ", ".join(map(str, options))
    elif origin is tuple:
        words = f"a list, each {describe(options[0], {})}"
    elif origin is Mapping:
        words = f"a mapping from {' to '.join(describe(option, {}) for option in options)}"
    else:
        names = {int: "an integer", float: "a number", str: "text", bool: "true or false"}
        words = "nothing" if hint is type(None) else names[hint]
    ranges = (f" {name.replace('_', ' ')} {bound}" for name, bound in limits.items())
    return words + "".join(ranges)
