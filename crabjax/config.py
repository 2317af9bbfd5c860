"""Experiment settings: frozen dataclasses, read from YAML with errors that name the key.

A file states only what differs from the defaults below. ``extends: other.yaml`` starts from
another file; ``variants`` names several runs of one experiment, each by its own overrides.
"""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

CONFIG_FOLDER = Path(__file__).resolve().parent.parent / "configs"


class ConfigError(ValueError):
    """A setting that is unknown, ill-typed or impossible."""


def setting(default: Any, *, above=None, at_least=None, at_most=None) -> Any:
    """A dataclass field with a range that :func:`load_config` enforces."""
    limits = {"above": above, "at_least": at_least, "at_most": at_most}
    return field(default=default, metadata={k: v for k, v in limits.items() if v is not None})


@dataclass(frozen=True)
class SyntheticConfig:
    """The built-in corpus; see ``crabjax.data.synthetic``."""

    documents: int = setting(3000, at_least=10)
    test_documents: int = setting(1000, at_least=1)
    roots: int = setting(4, at_least=1)
    leaves_per_root: int = setting(2, at_least=0)
    mean_ir: float = setting(8.0, at_least=1.0)
    corr_avg: float = setting(0.12, at_least=0.0, at_most=1.0)
    vocabulary: int = setting(2000, at_least=50)
    length: int = setting(40, at_least=2)
    noise_words: float = setting(0.7, at_least=0.0, at_most=1.0)
    label_noise: float = setting(0.02, at_least=0.0, at_most=0.5)
    seed: int = setting(0, at_least=0)


@dataclass(frozen=True)
class DataConfig:
    """Where documents come from and how they become arrays."""

    name: str = "synthetic"
    train: str | None = None  # None: the built-in corpus described by ``synthetic``
    test: str | None = None
    validation: str | None = None  # None: validation_size documents drawn from train, by seed
    validation_size: int = setting(1000, at_least=1)
    tokenizer: str = "words"  # "words", or the folder or hub name of a Hugging Face tokenizer
    min_count: int = setting(2, at_least=1)
    max_tokens: int = setting(256, at_least=1)
    cache: bool = True
    synthetic: SyntheticConfig = field(default_factory=SyntheticConfig)


@dataclass(frozen=True)
class ModelConfig:
    """The classifier of one ensemble member."""

    name: Literal["text_cnn", "text_rnn", "distilbert", "frozen"] = "text_cnn"
    embedding: int = setting(64, at_least=1)
    widths: tuple[int, ...] = (2, 3, 4)
    kernels: int = setting(100, at_least=1)
    hidden: int = setting(64, at_least=1)
    attention: int = setting(16, at_least=1)
    dropout: float = setting(0.5, at_least=0.0, at_most=0.95)
    pretrained: str = "distilbert-base-uncased"  # for distilbert and frozen
    precision: Literal["float32", "bfloat16"] = "float32"
    rematerialise: bool = False


@dataclass(frozen=True)
class EnsembleConfig:
    """How members are trained (METHOD section 8)."""

    members: int = setting(5, at_least=1)
    member_init: Literal["same", "independent"] = "same"
    members_at_once: int | None = setting(None, at_least=1)  # None: all
    batch_size: int = setting(50, at_least=1)
    epochs: int = setting(80, at_least=1)
    patience: int = setting(30, at_least=1)
    learning_rate: float = setting(5e-3, above=0.0)
    weight_decay: float = setting(0.01, at_least=0.0)
    schedule: Literal["constant", "warmup_linear"] = "constant"
    warmup_fraction: float = setting(0.1, at_least=0.0, at_most=1.0)
    predict_batch: int = setting(256, at_least=1)


@dataclass(frozen=True)
class StrategyConfig:
    """Which documents are queried (METHOD sections 2 to 7 and 12)."""

    name: str = "crab"
    alpha: float = setting(0.1, at_least=0.0)
    beta: float = setting(3.0, at_least=0.0)
    anchor_fraction: float = setting(0.0939, above=0.0, at_most=1.0)
    attention: bool = True
    attention_norm: Literal["column_max", "row_sum"] = "column_max"
    gamma: float = setting(2.0, above=0.0)
    asymmetric_removal: bool = True
    negative_sampling: bool = True
    hard_sampling: bool = True
    sigma: float = setting(0.6827, at_least=0.0, at_most=1.0)
    two_sigma: float = setting(0.9545, at_least=0.0, at_most=1.0)
    per_label: int = setting(100, at_least=0)
    hard_size: int = setting(300, at_least=0)
    decay: Literal["polynomial", "linear", "cosine", "constant"] = "polynomial"
    decay_power: float = setting(0.5, at_least=0.0)
    draw: Literal["random", "kmeans"] = "random"
    keep_fraction: float = setting(0.5, above=0.0, at_most=1.0)


@dataclass(frozen=True)
class LoopConfig:
    """The active-learning schedule."""

    rounds: int = setting(10, at_least=1)
    initial_size: int = setting(100, at_least=1)
    query_size: int = setting(100, at_least=1)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class OutputConfig:
    """Where a run writes."""

    folder: str = "runs"
    keep_checkpoints: int = setting(2, at_least=1)


@dataclass(frozen=True)
class Config:
    """One experiment, whole."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    ensemble: EnsembleConfig = field(default_factory=EnsembleConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    output: OutputConfig = field(default_factory=OutputConfig)


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
    tree = _read_tree(path, ())
    variants = tree.pop("variants", None)
    pairs = [_split_override(text) for text in overrides]
    names = [value.split(",") for key, value in pairs if key == "strategy.name" and "," in value]
    if names:
        variants = {one: {"strategy.name": one} for one in names[-1]}
        pairs = [(key, value) for key, value in pairs if key != "strategy.name"]
    if variants is None:
        config = _apply(_from_tree(Config, tree, str(path), ""), pairs, "--set")
        return {config.strategy.name: config}
    if not isinstance(variants, Mapping) or not variants:
        raise ConfigError(f"{path}: variants: expected a mapping from name to overrides")
    return {
        str(one): _apply(
            _from_tree(Config, _merge(tree, _expand(changes, path, one)), str(path), ""),
            pairs,
            "--set",
        )
        for one, changes in variants.items()
    }


def find_config(name: str | Path) -> Path:
    """The file a configuration name stands for: as given, then in ``configs/``."""
    tried = [Path(name), Path("configs") / name, CONFIG_FOLDER / name]
    for path in tried:
        if path.is_file():
            return path
    known = sorted(p.relative_to(CONFIG_FOLDER).as_posix() for p in CONFIG_FOLDER.rglob("*.yaml"))
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; configs/ holds {', '.join(known)}"
    raise ConfigError(f"{name}: no such configuration file, here or in configs/{hint}")


def to_dict(config: Any) -> dict[str, Any]:
    """Plain lists and dicts, ready for YAML or JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return list(value) if isinstance(value, tuple) else value

    return plain(dataclasses.asdict(config))


def to_yaml(config: Config) -> str:
    """YAML text that :func:`load_config` reads back to an equal configuration."""
    return yaml.safe_dump(to_dict(config), sort_keys=False)


def from_dict(tree: Mapping[str, Any], source: str = "config") -> Config:
    """Builds a configuration from nested dicts, with the checks of :func:`load_config`."""
    return _from_tree(Config, tree, source, "")


def _read_tree(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in seen:
        raise ConfigError(f"{path}: extends itself")
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    tree = {} if tree is None else tree
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected sections, found {type(tree).__name__}")
    if (parent := tree.pop("extends", None)) is None:
        return tree
    beside = path.parent / str(parent)
    base = beside if beside.is_file() else find_config(str(parent))
    return _merge(_read_tree(base, (*seen, path.resolve())), tree)


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both and key != "variants" else value
    return merged


def _expand(changes: Any, path: Path, variant: str) -> dict[str, Any]:
    """{"strategy.name": "crab"} -> {"strategy": {"name": "crab"}}."""
    if changes is None:
        return {}
    if not isinstance(changes, Mapping):
        raise ConfigError(f"{path}: variants.{variant}: expected a mapping, found {changes!r}")
    tree: dict[str, Any] = {}
    for key, value in changes.items():
        *sections, last = str(key).split(".")
        nested: dict[str, Any] = {last: value}
        for section in reversed(sections):
            nested = {section: nested}
        tree = _merge(tree, nested)
    return tree


def _split_override(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or "." not in key:
        raise ConfigError(f"--set: expected section.key=value, found {text!r}")
    return key.strip(), value.strip()


def _apply(config: Config, pairs: Sequence[tuple[str, str]], source: str) -> Config:
    tree = to_dict(config)
    for key, text in pairs:
        node, kind = tree, Config
        *sections, last = key.split(".")
        for section in sections:
            kind = _field_types(kind, source, key).get(section)
            if not dataclasses.is_dataclass(kind):
                raise ConfigError(f"{source}: {key}: unknown key{_nearest(key)}")
            node = node[section]
        hint = _field_types(typing.cast(type, kind), source, key).get(last)
        if hint is None or dataclasses.is_dataclass(hint):
            raise ConfigError(f"{source}: {key}: unknown key{_nearest(key)}")
        node[last] = _parse(text, hint)
    return _from_tree(Config, tree, source, "")


def _parse(text: str, hint: Any) -> Any:
    if typing.get_origin(hint) is tuple:
        return [yaml.safe_load(part) for part in text.split(",") if part]
    if hint is str:
        return text
    return yaml.safe_load(text)


def _field_types(kind: Any, source: str, key: str) -> dict[str, Any]:
    if not dataclasses.is_dataclass(kind):
        raise ConfigError(f"{source}: {key}: unknown key{_nearest(key)}")
    return typing.get_type_hints(kind)


def _from_tree(kind: type, tree: Any, source: str, prefix: str) -> Any:
    if not isinstance(tree, Mapping):
        where = prefix.rstrip(".") or "the file"
        raise ConfigError(f"{source}: {where}: expected a section, found {tree!r}")
    hints = typing.get_type_hints(kind)
    metadata = {f.name: f.metadata for f in dataclasses.fields(kind)}
    values = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if name not in hints:
            raise ConfigError(f"{source}: {key}: unknown key{_nearest(key)}")
        if dataclasses.is_dataclass(hints[name]):
            values[name] = _from_tree(
                hints[name], {} if value is None else value, source, f"{key}."
            )
        else:
            values[name] = _checked(value, hints[name], metadata[name], f"{source}: {key}")
    return kind(**values)


def _checked(value: Any, hint: Any, limits: Mapping[str, Any], where: str) -> Any:
    converted = _convert(value, hint)
    if converted is _WRONG or not _within(converted, limits):
        raise ConfigError(f"{where}: expected {_describe(hint, limits)}, found {value!r}")
    return converted


_WRONG = object()


def _convert(value: Any, hint: Any) -> Any:
    """The value as the type asks for it, or _WRONG. YAML reads 5e-3 as text: that is a number."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        found = [_convert(value, option) for option in options]
        return next((one for one in found if one is not _WRONG), _WRONG)
    if origin is Literal:
        return value if value in options else _WRONG
    if origin is tuple:
        items = list(value) if isinstance(value, list | tuple) else [value]
        converted = tuple(_convert(item, options[0]) for item in items)
        return _WRONG if _WRONG in converted or not converted else converted
    if hint is float and not isinstance(value, bool):
        try:
            number = float(value)
        except (TypeError, ValueError):
            return _WRONG
        return number if number == number and abs(number) != float("inf") else _WRONG
    if hint is type(None):
        return None if value is None else _WRONG
    return value if type(value) is hint else _WRONG


def _within(value: Any, limits: Mapping[str, Any]) -> bool:
    if value is None:
        return True
    return (
        ("above" not in limits or value > limits["above"])
        and ("at_least" not in limits or value >= limits["at_least"])
        and ("at_most" not in limits or value <= limits["at_most"])
    )


def _describe(hint: Any, limits: Mapping[str, Any]) -> str:
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        words = " or ".join(_describe(option, {}) for option in options)
    elif origin is Literal:
        words = "one of " + ", ".join(map(str, options))
    elif origin is tuple:
        words = f"a list of {_describe(options[0], {})}"
    else:
        names = {int: "an integer", float: "a number", str: "text", bool: "true or false"}
        words = "nothing" if hint is type(None) else names[hint]
    ranges = {"above": "above", "at_least": "at least", "at_most": "at most"}
    return words + "".join(f" {ranges[name]} {bound}" for name, bound in limits.items())


def _nearest(key: str) -> str:
    known = _all_keys(Config, "")
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if not near:
        last = key.rpartition(".")[2]
        near = [one for one in known if one.rpartition(".")[2] == last][:1]
    return f"; did you mean {near[0]}?" if near else f"; sections are {', '.join(_sections())}"


def _sections() -> list[str]:
    return [f.name for f in dataclasses.fields(Config)]


def _all_keys(kind: Any, prefix: str) -> list[str]:
    keys = []
    for name, hint in typing.get_type_hints(kind).items():
        inside = dataclasses.is_dataclass(hint)
        keys += _all_keys(hint, f"{prefix}{name}.") if inside else [prefix + name]
    return keys
