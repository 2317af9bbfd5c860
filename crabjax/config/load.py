"""Settings from files and command lines, with errors that name the key.

A file states only what differs from the defaults of ``schema.py``. ``extends: other.yaml`` starts
from another file; ``variants`` names several runs of one experiment, each by its own overrides;
``preset`` takes a named set of defaults (``presets.py``) for what the file does not state.
"""

import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from crabjax.config.build import ConfigError, build, flat, merge, nest, parse_override, read_yaml
from crabjax.config.presets import with_preset
from crabjax.config.schema import Config
from crabjax.files import did_you_mean

# In a clone a link to configs/, in a wheel a folder.
CONFIG_FOLDER = Path(__file__).resolve().parents[1] / "configs"
_NO_EXPERIMENT = ("devices", "output", "preset")
_WEIGHTS, _GAINS = ("attention", "rarity"), ("attention", "rarity", "keep_least")
_UNREAD = {"besra": _WEIGHTS} | dict.fromkeys(
    ("random", "entropy", "bald", "epig", "coreset", "mmc", "cmal", "adaptive", "audi"), _GAINS
)

# Settings that stood elsewhere once; files that name them so are still read.
RENAMED = {
    "ensemble.members_at_once": "devices.members_at_once",
    "ensemble.predict_batch": "devices.predict_batch",
    "data.cache": "devices.cache",
    "model.rematerialise": "devices.rematerialise",
}

# What a run did before a setting existed, where that is not the setting's default.
BEFORE_IT_EXISTED: dict[str, Any] = {
    "ensemble.keep": "best",
    "ensemble.threshold": "half",
    "strategy.anchor_limit": None,
    "strategy.first_look": None,
    "model.label_names": False,
    "model.lsa": 0,
    "loop.first_batch": "random",
    "model.input_dropout": 0.0,  # of these four the default is not the preset's
    "strategy.attention": True,
    "strategy.keep_least": None,
    "strategy.rarity": 0.0,
}

# Settings that are gone, with the value that changed nothing: written configurations have them.
GONE: dict[str, Any] = {"strategy.representative_rounds": 0}


class ConfigWarning(UserWarning):
    """A setting that was read, but should be stated otherwise."""


def load_config(name: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Reads one configuration.

    Args:
      name: a path, or a name looked up in ``configs/``.
      overrides: ``section.key=value`` strings, applied last.

    Raises:
      ConfigError: naming the file, the key, what was found and what is allowed; also when the
        file or the overrides describe several variants (see :func:`load_variants`).
    """
    variants = load_variants(name, overrides)
    if len(variants) > 1:
        raise ConfigError(f"{name}: expected one run, found the variants {', '.join(variants)}")
    return next(iter(variants.values()))


def load_variants(name: str | Path, overrides: Iterable[str] = ()) -> dict[str, Config]:
    """Reads every variant of an experiment, by variant name.

    Overrides hold for all variants, and ``strategy.name=a,b`` makes one variant of each name.
    A file without variants gives one, named after its strategy.
    """
    path = find_config(name)
    tree = _read_tree(path)
    variants = _variants(tree.pop("variants", {"": {}}), path)
    changes = _changes(overrides)
    if "strategy.name" in changes:
        variants = _named_strategies(changes.pop("strategy.name"), variants)
    _build(tree, str(path))  # what is wrong in the file itself should be said of the file
    configs = {}
    for variant, own in variants.items():
        merged = merge(tree, _renamed(nest(own), f"{path}: variants.{variant}"))
        _build(merged, f"{path}: variants.{variant}")
        config = _build(merge(merged, nest(changes)), "--set")
        configs[variant or config.strategy.name] = config
    return configs


def _variants(tree: Any, path: Path) -> dict[str, dict[str, Any]]:
    if not isinstance(tree, Mapping) or not tree:
        raise ConfigError(f"{path}: variants: expected a mapping from name to overrides")
    for variant, own in tree.items():
        if not isinstance(own or {}, Mapping):
            raise ConfigError(f"{path}: variants.{variant}: expected a mapping, found {own!r}")
    return {str(variant): dict(own or {}) for variant, own in tree.items()}


def _named_strategies(text: str, variants: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Variants for ``strategy.name=a,b``: these strategies in place of the file's own.

    A file whose variants differ in more than the strategy keeps them; one name holds for all, if
    they have none of their own.
    """
    names = [one.strip() for one in text.split(",")]
    if not all(names):
        raise ConfigError(f"--set: strategy.name: expected names, found {text!r}")
    if len(set(names)) < len(names):
        raise ConfigError(f"--set: strategy.name: expected each name once, found {text!r}")
    stated = [flat(own).keys() for own in variants.values()]
    if all(keys <= {"strategy.name"} for keys in stated):
        return {one: {"strategy.name": one} for one in names}
    if any("strategy.name" in keys for keys in stated):
        raise ConfigError(
            "--set: strategy.name: the variants of the file have strategies of their own; "
            f"--only NAME chooses among {', '.join(variants)}"
        )
    if len(names) > 1:
        raise ConfigError(
            f"--set: strategy.name: expected one name, as the file has the variants "
            f"{', '.join(variants)}; found {text!r}"
        )
    own_name = {"strategy": {"name": names[0]}}
    return {variant: merge(nest(own), own_name) for variant, own in variants.items()}


def _build(tree: Mapping[str, Any], source: str) -> Config:
    if tree.get("devices") == "auto":
        tree = {**tree, "devices": {}}
    try:
        return build(Config, with_preset(tree), source)
    except ConfigError as error:
        # What a dataclass checks by itself does not know where the value came from.
        where = "" if str(error).startswith(source) else f"{source}: "
        raise ConfigError(f"{where}{error}") from None


def find_config(name: str | Path) -> Path:
    """The file a configuration name stands for: as given, then in ``configs/``."""
    for path in (Path(name), Path("configs") / name, CONFIG_FOLDER / name):
        if path.is_file():
            return path
    known = sorted(p.relative_to(CONFIG_FOLDER).as_posix() for p in CONFIG_FOLDER.rglob("*.yaml"))
    shown = ", ".join(one for one in known if "/" not in one)
    hint = did_you_mean(str(name), known, f"crabjax comes with {shown}")
    raise ConfigError(f"{name}: no such configuration file, here or among crabjax's own{hint}")


def to_dict(config: Any) -> dict[str, Any]:
    """Plain lists and dicts, ready for YAML or JSON."""
    listed = lambda value: list(value) if isinstance(value, tuple) else value
    plain = lambda pairs: {key: listed(value) for key, value in pairs}
    return dataclasses.asdict(config, dict_factory=plain)


def to_yaml(config: Config) -> str:
    """YAML text that :func:`load_config` reads back to an equal configuration."""
    return yaml.safe_dump(to_dict(config), sort_keys=False)


def from_overrides(overrides: Iterable[str]) -> Config:
    """The defaults, changed by ``section.key=value`` strings."""
    return _build(nest(_changes(overrides)), "--set")


def from_dict(tree: Mapping[str, Any], source: str = "config") -> Config:
    """Builds a configuration from nested dicts, with the checks of :func:`load_config`."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{source}: expected sections, found {tree!r}")
    return _build(_renamed(tree, source), source)


def from_stored(tree: Mapping[str, Any], source: str) -> Config:
    """Reads what :func:`to_dict` gave, perhaps in an earlier version.

    A setting that did not exist then has the value that does what was done then.
    """
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{source}: expected sections, found {tree!r}")
    return _build(merge(nest(BEFORE_IT_EXISTED), _renamed(tree)), source)


def load_stored(path: Path) -> Config:
    """Reads what :func:`to_yaml` wrote to a file, perhaps in an earlier version."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read ({reason}); put a copy of it back") from error
    return from_stored(read_yaml(text, str(path)), str(path))


def experiment_settings(config: Config) -> dict[str, Any]:
    """By dotted key, all that can change a record: not where files go, nor how work is laid out.

    The preset is not among them: what it decides is.
    """
    tree = to_dict(config)
    # What nothing reads decides nothing.
    if config.model.name != "frozen":
        tree["loop"]["first_batch"] = "random"
    if config.model.name != "frozen" or config.data.vectors is not None:
        tree["model"]["label_names"], tree["model"]["lsa"] = False, 0
    if not tree["model"]["label_names"]:
        tree["data"]["label_texts"] = None
    unread = _UNREAD.get(config.strategy.name, ())
    tree["strategy"] |= {key: BEFORE_IT_EXISTED[f"strategy.{key}"] for key in unread}
    return flat({name: tree[name] for name in tree if name not in _NO_EXPERIMENT})


def _changes(overrides: Iterable[str]) -> dict[str, Any]:
    """The values of ``section.key=value`` strings, by their present keys."""
    changes = {}
    for text in overrides:
        old, sign, value = text.partition("=")
        if (new := RENAMED.get(old.strip())) is not None:
            _say_renamed("--set", old.strip())
            text = f"{new}{sign}{value}"
        key, changes[key] = parse_override(Config, text, "--set")
    return changes


def _renamed(tree: Any, source: str | None = None) -> Any:
    """A tree with present names for its keys; says so, unless ``source`` is None.

    Settings that are gone are left out.
    """
    for old, new in RENAMED.items():
        section, _, name = old.partition(".")
        own = tree.get(section) if isinstance(tree, Mapping) else None
        if not isinstance(own, Mapping) or name not in own:
            continue
        if source is not None:
            _say_renamed(source, old)
        rest = {key: value for key, value in own.items() if key != name}
        devices = tree.get("devices")
        laid_out = {} if devices in (None, "auto") else devices
        tree = {**tree, section: rest, "devices": laid_out}
        tree = merge(nest({new: own[name]}), tree)
    return _without_gone(tree) if isinstance(tree, Mapping) else tree


def _without_gone(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tree without settings that are gone, where they did nothing; else they stay, and fail."""
    for key, idle in GONE.items():
        section, _, name = key.partition(".")
        own = tree.get(section)
        if isinstance(own, Mapping) and own.get(name) == idle:
            rest = {one: value for one, value in own.items() if one != name}
            tree = {**tree, section: rest}
    return tree


def _say_renamed(source: str, old: str) -> None:
    warnings.warn(f"{source}: {old} is now {RENAMED[old]}", ConfigWarning, stacklevel=3)


def _read_tree(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    if path.resolve() in seen:
        raise ConfigError(f"{path}: extends itself")
    try:
        tree = read_yaml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    tree = {} if tree is None else tree
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected sections, found {tree!r}")
    tree = _renamed(tree, str(path))
    if (parent := tree.pop("extends", None)) is None:
        return tree
    beside = path.parent / str(parent)
    try:
        found = beside if beside.is_file() else find_config(str(parent))
    except ConfigError as error:
        raise ConfigError(f"{path}: extends: {error}") from error
    base = _read_tree(found, (*seen, path.resolve()))
    if "variants" in tree:
        base.pop("variants", None)
    return merge(base, tree)
