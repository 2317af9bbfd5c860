"""The settings of an experiment, and the presets that differ from their defaults."""

from dataclasses import dataclass, field
from typing import Any, Literal

from crabjax.config.build import ConfigError, setting


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
    synthetic: SyntheticConfig = field(default_factory=SyntheticConfig)


@dataclass(frozen=True)
class ModelConfig:
    """The classifier of one ensemble member."""

    name: str = "text_cnn"
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
    batch_size: int = setting(50, at_least=1)
    epochs: int = setting(80, at_least=1)
    patience: int = setting(30, at_least=1)
    learning_rate: float = setting(5e-3, above=0.0)
    weight_decay: float = setting(0.01, at_least=0.0)
    schedule: Literal["constant", "warmup_linear"] = "constant"
    warmup_fraction: float = setting(0.1, at_least=0.0, at_most=1.0)


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
    """How the work is laid out; ``devices: auto`` in a file leaves the choice to the run.

    Nothing here changes a record beyond rounding, so a run may be continued with other values.
    """

    ensemble: int | None = setting(None, at_least=1)  # devices that members are shared out over
    pool: int | None = setting(None, at_least=1)  # devices that documents are shared out over
    coordinator: str | None = None  # host:port of process 0; "auto" on a cluster JAX knows
    processes: int | None = setting(None, at_least=1)  # with a coordinator: how many there are
    process: int | None = setting(None, at_least=0)  # and which of them this is
    members_at_once: int | None = setting(None, at_least=1)  # a device; None: what fits
    predict_batch: int | None = setting(256, at_least=1)  # a device; None: what fits
    cache: bool = True  # keep encoded documents on disk, for the next start with the same files


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


# Settings that stood elsewhere once; files that name them so are still read.
RENAMED = {
    "ensemble.members_at_once": "devices.members_at_once",
    "ensemble.predict_batch": "devices.predict_batch",
    "data.cache": "devices.cache",
}

# What a run did before a setting existed, where that is not the setting's default.
BEFORE_IT_EXISTED: dict[str, Any] = {}

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
