"""Experiment settings: frozen dataclasses, read from YAML with errors that name the key.

A file states only what differs from the defaults below. ``extends: other.yaml`` starts from
another file; ``variants`` names several runs of one experiment, each by its own overrides;
``preset: paper`` takes the paper's own settings for what the file does not state.
"""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from crabjax.settings import ConfigError, build, merge, nest, parse_override, setting

CONFIG_FOLDER = Path(__file__).resolve().parent.parent / "configs"


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
    tokenizer: str | None = None  # None: what the model needs; "words", or a Hugging Face name
    min_count: int = setting(2, at_least=1)
    max_tokens: int = setting(256, at_least=1)
    text_column: str = "text"  # the columns and separators are for CSV files only
    label_column: str = "labels"
    label_separator: str = ";"
    csv_delimiter: str = ","
    cache: bool = True  # keep the arrays on disk, for the next start with the same files
    synthetic: SyntheticConfig = field(default_factory=SyntheticConfig)


@dataclass(frozen=True)
class ModelConfig:
    """The classifier of one ensemble member."""

    name: Literal["text_cnn", "text_rnn", "distilbert", "frozen"] = "text_cnn"
    embedding: int = setting(64, at_least=1)
    widths: tuple[int, ...] = setting((2, 3, 4), at_least=1)
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
    member_init: Literal["same", "independent"] = "independent"
    members_at_once: int | None = setting(None, at_least=1)  # a device; None: what fits
    batch_size: int = setting(50, at_least=1)
    epochs: int = setting(80, at_least=1)
    patience: int = setting(30, at_least=1)
    learning_rate: float = setting(5e-3, above=0.0)
    weight_decay: float = setting(0.01, at_least=0.0)
    schedule: Literal["constant", "warmup_linear"] = "constant"
    warmup_fraction: float = setting(0.1, at_least=0.0, at_most=1.0)
    predict_batch: int | None = setting(256, at_least=1)  # a device; None: what fits


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
    min_support: int = setting(1, at_least=1)  # documents of a label that A and NegA know
    # Without per_label, all that has a pseudo label is a candidate: the next two and the
    # thresholds then change nothing, nor does decay without hard_size.
    asymmetric_removal: bool = True
    negative_sampling: bool = True
    hard_sampling: bool = True
    sigma: float = setting(0.6827, at_least=0.0, at_most=1.0)
    two_sigma: float = setting(0.9545, at_least=0.0, at_most=1.0)
    per_label: int | None = setting(None, at_least=0)  # candidates per label; None: all
    hard_size: int | None = setting(None, at_least=0)  # hard-to-learn candidates; None: all
    decay: Literal["polynomial", "linear", "cosine", "constant"] = "polynomial"
    decay_power: float = setting(0.5, at_least=0.0)
    draw: Literal["random", "kmeans"] = "random"
    candidate_limit: int | None = setting(3000, at_least=1)  # of all of them; None: no limit
    score: Literal["expected", "released"] = "expected"  # "released" only shows why not
    cluster: Literal["features", "gains"] = "features"  # what k-means tells documents apart by
    keep_fraction: float = setting(0.5, above=0.0, at_most=1.0)  # the best, which it sees
    representative_rounds: int = setting(0, at_least=0)  # first queries: it sees every candidate


@dataclass(frozen=True)
class LoopConfig:
    """The active-learning schedule."""

    rounds: int = setting(10, at_least=1)
    initial_size: int = setting(100, at_least=1)
    query_size: int = setting(100, at_least=1)
    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), at_least=0, at_most=2**32 - 1)

    def __post_init__(self) -> None:
        for seed in self.seeds:
            if self.seeds.count(seed) > 1:
                raise ConfigError(f"loop.seeds: expected distinct seeds, found {seed} twice")


@dataclass(frozen=True)
class DevicesConfig:
    """Which devices share the work; ``devices: auto`` in a file leaves the choice to the run."""

    ensemble: int | None = setting(None, at_least=1)  # devices that members are shared out over
    pool: int | None = setting(None, at_least=1)  # devices that documents are shared out over
    coordinator: str | None = None  # host:port of process 0; "auto" on a cluster JAX knows
    processes: int | None = setting(None, at_least=1)  # with a coordinator: how many there are
    process: int | None = setting(None, at_least=0)  # and which of them this is


@dataclass(frozen=True)
class OutputConfig:
    """Where a run writes."""

    folder: str = "runs"
    keep_checkpoints: int = setting(2, at_least=1)


@dataclass(frozen=True)
class Config:
    """One experiment, whole. ``preset`` says which defaults hold where nothing else is stated."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    ensemble: EnsembleConfig = field(default_factory=EnsembleConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    devices: DevicesConfig = field(default_factory=DevicesConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    preset: Literal["recommended", "paper"] = "recommended"


# Where the defaults above differ from the paper, and what it has there. Not the learning rate:
# the paper's 5e-2 trains worse than the 5e-3 of its released settings (METHOD section 8).
PAPER: dict[str, Any] = {
    "ensemble": {"member_init": "same"},
    "strategy": {
        "per_label": 100,
        "hard_size": 300,
        "candidate_limit": None,
        "cluster": "gains",
    },
}


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
    changes = dict(parse_override(Config, text, "--set") for text in overrides)
    if "strategy.name" in changes:
        variants = _named_strategies(changes.pop("strategy.name"), variants)
    _build(tree, str(path))  # what is wrong in the file itself should be said of the file
    configs = {}
    for variant, own in variants.items():
        merged = merge(tree, nest(own))
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
    if all(own.keys() <= {"strategy.name"} for own in variants.values()):
        return {one: {"strategy.name": one} for one in names}
    if any("strategy.name" in own for own in variants.values()):
        raise ConfigError(
            "--set: strategy.name: the variants of the file have strategies of their own; "
            f"--only NAME chooses among {', '.join(variants)}"
        )
    if len(names) > 1:
        raise ConfigError(
            f"--set: strategy.name: expected one name, as the file has the variants "
            f"{', '.join(variants)}; found {text!r}"
        )
    return {variant: own | {"strategy.name": names[0]} for variant, own in variants.items()}


def _build(tree: Mapping[str, Any], source: str) -> Config:
    if tree.get("devices") == "auto":
        tree = {**tree, "devices": {}}
    preset = PAPER if tree.get("preset") == "paper" else {}
    try:
        return build(Config, merge(preset, tree), source)
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
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"configs/ holds {', '.join(known)}"
    raise ConfigError(f"{name}: no such configuration file, here or in configs/; {hint}")


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


def from_overrides(overrides: Iterable[str]) -> Config:
    """The defaults, changed by ``section.key=value`` strings."""
    changes = dict(parse_override(Config, text, "--set") for text in overrides)
    return _build(nest(changes), "--set")


def from_dict(tree: Mapping[str, Any], source: str = "config") -> Config:
    """Builds a configuration from nested dicts, with the checks of :func:`load_config`."""
    return _build(tree, source)


def _read_tree(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    if path.resolve() in seen:
        raise ConfigError(f"{path}: extends itself")
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    tree = {} if tree is None else tree
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected sections, found {tree!r}")
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
