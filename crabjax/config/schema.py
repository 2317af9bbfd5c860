"""The settings of an experiment, each with its meaning and default."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from crabjax.config.build import ConfigError, setting


@dataclass(frozen=True)
class SyntheticConfig:
    """The built-in corpus."""

    documents: int = setting(3000, "documents to train on", at_least=10)
    test_documents: int = setting(1000, "documents to test on", at_least=1)
    roots: int = setting(4, "labels of the upper level; a document may have several", at_least=1)
    leaves_per_root: int = setting(
        2, "labels below each; a document has at most one of them, and then its root", at_least=0
    )
    mean_ir: float = setting(8.0, "MeanIR of the training labels: 1 is balanced", at_least=1.0)
    corr_avg: float = setting(0.12, "CorrAvg of the training labels", at_least=0.0, at_most=1.0)
    vocabulary: int = setting(2000, "distinct words", at_least=50)
    length: int = setting(40, "mean words in a document", at_least=2)
    noise_words: float = setting(
        0.7, "share of the words that say nothing about the labels", at_least=0.0, at_most=1.0
    )
    label_noise: float = setting(
        0.02,
        "share of the training documents with another document's labels",
        at_least=0.0,
        at_most=0.5,
    )
    seed: int = setting(0, "the same seed and settings give the same documents", at_least=0)


@dataclass(frozen=True)
class DataConfig:
    """Where documents come from and how they become arrays."""

    name: str = setting("synthetic", "what records and reports call the data")
    train: str | None = setting(None, "file to choose documents from; null: the built-in corpus")
    test: str | None = setting(None, "file to report on")
    validation: str | None = setting(
        None, "file that epochs are compared on; null: drawn from the training file, by seed"
    )
    validation_size: int = setting(
        1000,
        "documents that epochs are compared on, taken out of the pool (ensemble.keep: best)",
        at_least=1,
    )
    validation_from: Literal["random", "last"] = setting(
        "random",
        "which documents these are; the last ones of the training file stay in the pool, as in the "
        "released code",
    )
    vectors: str | None = setting(
        None,
        "own document vectors instead of an encoder's (frozen): .npy or .safetensors, float32, "
        "one row a document of the training file; mapped, not read",
    )
    test_vectors: str | None = setting(None, "the same of the test file")
    validation_vectors: str | None = setting(None, "the same of the validation file")
    tokenizer: str | None = setting(
        None, '"words", or a Hugging Face name or folder; null: what the classifier needs'
    )
    min_count: int = setting(2, "occurrences that make a word part of the vocabulary", at_least=1)
    max_tokens: int = setting(256, "tokens a document is cut to", at_least=1)
    text_column: str = setting("text", "CSV files: the column of the text")
    label_column: str = setting("labels", "CSV files: the column of the labels")
    label_separator: str = setting(";", "CSV files: what stands between labels")
    csv_delimiter: str = setting(",", "CSV files: what stands between columns")
    label_texts: Mapping[str, str] | None = setting(
        None, "what labels mean, in words, where their names do not say it (model.label_names)"
    )
    synthetic: SyntheticConfig = field(default_factory=SyntheticConfig)


@dataclass(frozen=True)
class ModelConfig:
    """The classifier of one ensemble member."""

    name: str = setting("text_cnn", "text_cnn, text_rnn, distilbert, frozen, or one's own")
    embedding: int = setting(64, "size of a word vector (text_cnn, text_rnn)", at_least=1)
    widths: tuple[int, ...] = setting((2, 3, 4), "words a kernel spans (text_cnn)", at_least=1)
    kernels: int = setting(100, "kernels of each width (text_cnn)", at_least=1)
    hidden: int = setting(64, "hidden units: each way (text_rnn), of the head (frozen)", at_least=1)
    attention: int = setting(16, "size of the attention that pools states (text_rnn)", at_least=1)
    dropout: float = setting(
        0.5, "share of the document vector left out in training", at_least=0.0, at_most=0.95
    )
    input_dropout: float = setting(
        0.0,
        "share of the vector, words included, left out in training (frozen)",
        at_least=0.0,
        at_most=0.95,
    )
    pretrained: str = setting(
        "distilbert-base-uncased", "hub name or folder of the encoder (distilbert, frozen)"
    )
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "of the encoder's arithmetic (distilbert, frozen); auto: float32 on CPU, else bfloat16 "
        "with parameters, norms, softmax and loss in float32",
    )
    lsa: int = setting(
        128,
        "numbers that say which words a document has, by latent semantic analysis of the pool, "
        "beside the encoder's vector (frozen; not with one's own vectors); 0: none",
        at_least=0,
        at_most=1024,
    )
    label_names: bool = setting(
        True,
        "begin from how alike documents and the names of labels are, by the encoder's vectors "
        "(heads on frozen vectors; not with one's own vectors)",
    )

    def on(self, platform: str) -> "ModelConfig":
        """The settings with what depends on a platform decided: "cpu", "gpu", "tpu"."""
        if self.precision != "auto":
            return self
        return replace(self, precision="float32" if platform == "cpu" else "bfloat16")


@dataclass(frozen=True)
class EnsembleConfig:
    """How members are trained (docs/method.md 8)."""

    members: int = setting(5, "members of an ensemble", at_least=1)
    member_init: Literal["same", "independent"] = setting(
        "independent", "whether the members of a seed start from the same parameters"
    )
    threshold: Literal["learnt", "half"] = setting(
        "learnt",
        "what a probability must exceed for its label: what maximises the F1 expected over the "
        "unlabelled documents and those queried from among them, corrected by how many labels "
        "documents have that no strategy chose, or 0.5",
    )
    batch_size: int = setting(50, "documents in a training step", at_least=1)
    keep: Literal["last", "best"] = setting(
        "last",
        "the epoch whose parameters are kept: the last, or the best on validation documents, whose "
        "labels no budget counts",
    )
    epochs: int = setting(80, "the most epochs", at_least=1)
    patience: int = setting(
        30, "epochs without a better validation F1 before a stop (keep: best)", at_least=1
    )
    learning_rate: float = setting(5e-3, "of AdamW", above=0.0)
    weight_decay: float = setting(0.01, "of AdamW", at_least=0.0)
    schedule: Literal["constant", "warmup_linear"] = setting(
        "constant", "of the learning rate; warmup_linear rises, then falls to 0"
    )
    warmup_fraction: float = setting(
        0.1, "share of the steps in which it rises", at_least=0.0, at_most=1.0
    )


@dataclass(frozen=True)
class StrategyConfig:
    """Which documents are queried (docs/method.md 2 to 7 and 12)."""

    name: str = setting("crab", "the strategy; `--set strategy.name=a,b` runs both")
    alpha: float = setting(0.1, "of the beta scoring rule: weight of small chances", at_least=0.0)
    beta: float = setting(3.0, "of the beta scoring rule: weight of large chances", at_least=0.0)
    anchor_fraction: float = setting(
        0.0939, "share of U on which gains are assessed", above=0.0, at_most=1.0
    )
    anchor_limit: int | None = setting(
        1000, "documents on which gains are assessed, at most; null: no limit", at_least=1
    )
    rarity: float = setting(
        0.0,
        "weight gains of a label by the number of documents expected to have it, to minus this "
        "power; 0: all labels alike",
        at_least=0.0,
        at_most=1.0,
    )
    attention: bool = setting(True, "weight gains by how labels correlate")
    attention_norm: Literal["column_max", "literal", "row_sum"] = setting(
        "column_max",
        "what correlations are divided by: the largest other entry of the column, the largest "
        "entry (Eq. 13 to the letter, always 1), or the largest row sum (the released code)",
    )
    gamma: float = setting(2.0, "correlations are divided by this as well", above=0.0)
    min_support: int = setting(
        1,
        "documents a label needs for its correlations to count; 0: Eq. 9 to the letter",
        at_least=0,
    )
    asymmetric_removal: bool = setting(
        True, "drop implied labels from pseudo labels; changes nothing without per_label"
    )
    negative_sampling: bool = setting(
        True, "look at documents whose labels exclude each other; changes nothing without per_label"
    )
    hard_sampling: bool = setting(True, "look at documents without any pseudo label")
    sigma: float = setting(0.6827, "A above it is an implication", at_least=0.0, at_most=1.0)
    two_sigma: float = setting(0.9545, "NegA above it is an exclusion", at_least=0.0, at_most=1.0)
    per_label: int | None = setting(None, "candidates a label; null: all", at_least=0)
    hard_size: int | None = setting(
        None, "hard-to-learn candidates in the first round; null: all, in every round", at_least=0
    )
    decay: Literal["polynomial", "linear", "cosine", "constant"] = setting(
        "polynomial", "how hard_size shrinks over the rounds"
    )
    decay_power: float = setting(0.5, "exponent of the polynomial decay", at_least=0.0)
    draw: Literal["random", "kmeans"] = setting("random", "how candidates are drawn")
    candidate_limit: int | None = setting(
        3000, "candidates in all, of every strategy, drawn at random; null: no limit", at_least=1
    )
    first_look: int | None = setting(
        None,
        "documents, of more than so many, from which crab chooses its candidates, half of them "
        "where members disagree; null: all are drawn at random",
        at_least=1,
    )
    score: Literal["expected", "released"] = setting(
        "expected", "the paper's; the released code's only shows why not"
    )
    cluster: Literal["features", "gains"] = setting(
        "features", "what k-means tells candidates apart by"
    )
    keep_fraction: float = setting(
        0.5, "share of the candidates, the best, that k-means sees", above=0.0, at_most=1.0
    )
    keep_least: float | None = setting(
        None,
        "what that share falls to as labelled documents grow beyond 100, in inverse proportion to "
        "their number; null, and with keep_fraction at or below it: it never falls",
        above=0.0,
        at_most=1.0,
    )


@dataclass(frozen=True)
class LoopConfig:
    """The active-learning schedule."""

    rounds: int = setting(10, "queries", at_least=1)
    initial_size: int = setting(100, "documents labelled before the first query", at_least=1)
    first_batch: Literal["random", "half_covering"] = setting(
        "half_covering",
        "which these are: drawn at random, or half of them drawn and half so that they cover the "
        "pool, by k-means (heads on frozen vectors or on one's own; others have none yet)",
    )
    query_size: int = setting(100, "documents a query", at_least=1)
    seeds: tuple[int, ...] = setting(
        (0, 1, 2, 3, 4), "repetitions, trained together", at_least=0, at_most=2**32 - 1
    )

    def __post_init__(self) -> None:
        for seed in self.seeds:
            if self.seeds.count(seed) > 1:
                raise ConfigError(f"loop.seeds: expected distinct seeds, found {seed} twice")


@dataclass(frozen=True)
class DevicesConfig:
    """How the work is laid out; ``devices: auto`` in a file leaves the choice to the run.

    Nothing here changes a record beyond rounding: a run may be continued with other values.
    """

    ensemble: int | None = setting(
        None, "devices that members are shared out over; null: chosen", at_least=1
    )
    pool: int | None = setting(
        None, "devices that documents are shared out over; null: chosen", at_least=1
    )
    coordinator: str | None = setting(
        None, 'host:port of process 0; "auto" on a cluster JAX knows; null: one process'
    )
    processes: int | None = setting(None, "how many there are, with a coordinator", at_least=1)
    process: int | None = setting(None, "which of them this is", at_least=0)
    members_at_once: int | None = setting(
        None, "members a device trains at once; null: chosen by work and memory", at_least=1
    )
    rematerialise: bool | None = setting(
        None,
        "compute layers again in the backward pass, to save memory (distilbert); null: no more "
        "than it takes to fit",
    )
    predict_batch: int | None = setting(
        256, "documents a device predicts at once; null: as many as fit", at_least=1
    )
    cache: bool = setting(True, "keep encoded documents on disk, for the next start")


@dataclass(frozen=True)
class OutputConfig:
    """Where a run writes; no record depends on it."""

    folder: str = setting("runs", "where folders of runs are made")
    keep_checkpoints: int = setting(2, "rounds kept to go on from", at_least=1)


@dataclass(frozen=True)
class Config:
    """One experiment, whole."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    ensemble: EnsembleConfig = field(default_factory=EnsembleConfig)
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    devices: DevicesConfig = field(default_factory=DevicesConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    preset: Literal["recommended", "paper", "released"] = setting(
        "recommended",
        "which defaults hold where nothing else is stated: those below, the paper's, or those of "
        "its released code",
    )
