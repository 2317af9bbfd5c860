"""What the shapes of a configuration's programs depend on: no data, no weights."""

import dataclasses
from dataclasses import dataclass

from crabjax.config import Config, ConfigError, ModelConfig
from crabjax.devices.batches import LARGEST_BATCH
from crabjax.ensemble.step import Recipe
from crabjax.models import Model, build_model
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier

PRETRAINED = {
    "distilbert-base-uncased": Architecture(
        "distilbert", 30_522, positions=512, width=768, inner=3072, heads=12, layers=6
    )
}
# Training documents, distinct words and labels of the paper's data (docs/method.md 9).
DATA = {
    "rcv1": (24_891, 104_619, 102),
    "uklex": (20_000, 63_157, 18),
    "eurlex": (55_000, 160_211, 21),
    "mimic": (29_999, 137_678, 19),
    **{f"rcv1_t10_{ratio}": (1_200, 25_000, 10) for ratio in (5, 10, 20, 50)},
}
TRAINING_WORDS = 16_384  # rows of the table that the paper's 1,100 labelled documents train


@dataclass(frozen=True)
class Sizes:
    """What the shapes of a configuration's programs depend on besides the configuration.

    Attributes:
      documents: N, to train on and to choose from.
      words: of the vocabulary.
      labels: K.
      members: M, of the ensembles trained side by side.
      layers: of a pretrained encoder, None for as many as it has.
    """

    documents: int
    words: int
    labels: int
    members: int
    layers: int | None = None


def sizes_of(config: Config, **given: int | None) -> Sizes:
    """The sizes of a configuration, each replaced by that in ``given`` unless it is None.

    Members are those of all seeds, of a pretrained encoder those of one.

    Raises:
      ConfigError: for a classifier that is not compiled here, a size below 1, or data that are not
        the paper's, naming what must be given.
    """
    if config.model.name not in ("text_cnn", "text_rnn", "distilbert"):
        raise ConfigError(
            f"model.name: expected text_cnn, text_rnn or distilbert, found {config.model.name!r}"
        )
    data, synthetic = config.data, config.data.synthetic
    known: tuple[int | None, ...] = (None, None, None)
    if data.train is None:
        labels = synthetic.roots * (1 + synthetic.leaves_per_root)
        known = synthetic.documents, synthetic.vocabulary, labels
    known = DATA.get(data.name, known)
    seeds = 1 if config.model.name == "distilbert" else len(config.loop.seeds)
    members = seeds * config.ensemble.members
    found = dict(zip(("documents", "words", "labels"), known), members=members, layers=None)
    found |= {name: size for name, size in given.items() if size is not None}
    for name, size in found.items():
        if size is not None and size < 1:
            raise ConfigError(f"--{name}: expected a number above 0, found {size}")
    missing = [f"--{name}" for name in ("documents", "words", "labels") if found[name] is None]
    if missing:
        raise ConfigError(
            f"data.name: expected one of {', '.join(DATA)}, found {data.name!r}; "
            f"say {', '.join(missing)}"
        )
    return Sizes(**found)  # type: ignore[arg-type]


def recipe_of(config: Config, sizes: Sizes) -> Recipe:
    """What is trained, and how."""
    batch = config.devices.predict_batch or LARGEST_BATCH
    return Recipe(model_of(config, sizes), config.ensemble, batch)


def labelled_at_most(config: Config) -> int:
    """Labelled documents of the last round."""
    return config.loop.initial_size + config.loop.rounds * config.loop.query_size


def validation_documents(config: Config) -> int:
    """Documents that the epochs of a member are compared on: none if the last is kept."""
    return config.data.validation_size if config.ensemble.keep == "best" else 0


def model_of(config: Config, sizes: Sizes) -> Model:
    """The classifier; a pretrained encoder by its shapes, without its weights."""
    model = config.model
    if model.name != "distilbert":
        return build_model(model, sizes.words, sizes.labels)
    # What accelerators get where nothing is said.
    precision = model.on("tpu").precision
    return transformer_classifier(encoder_of(config, sizes), sizes.labels, None, precision)


def encoder_of(config: Config, sizes: Sizes) -> Architecture:
    """The sizes of the pretrained encoder of a configuration."""
    if config.model.pretrained not in PRETRAINED:
        known = ", ".join(PRETRAINED)
        raise ConfigError(f"model.pretrained: expected {known}, found {config.model.pretrained!r}")
    encoder = PRETRAINED[config.model.pretrained]
    return encoder if sizes.layers is None else dataclasses.replace(encoder, layers=sizes.layers)


def forward_flops(config: Config, sizes: Sizes, members: int, batch: int) -> float:
    """The plain padded forward pass of some members on ``batch`` documents each."""
    tokens = config.data.max_tokens
    encoder = encoder_of(config, sizes) if config.model.name == "distilbert" else None
    return 2.0 * multiplications(config.model, encoder, tokens) * tokens * batch * members


def multiplications(model: ModelConfig, encoder: Architecture | None, tokens: int) -> int:
    """Multiplications a token and member in the plain padded forward pass."""
    if model.name == "text_cnn":
        return sum(model.widths) * model.embedding * model.kernels
    if model.name == "text_rnn":
        return 2 * 3 * model.hidden * (model.embedding + model.hidden)
    assert encoder is not None
    linear = 4 * encoder.width**2 + 2 * encoder.width * encoder.inner
    attention = 2 * tokens * encoder.width  # queries with keys, and weights with values
    return encoder.layers * (linear + attention)


def axes_of(config: Config, sizes: Sizes, members: int, batch: int) -> dict[str, int]:
    """Sizes by name, to tell what loops and scatters run over."""
    axes = {
        "members": members,
        "documents": batch,
        "tokens": config.data.max_tokens,
        "labels": sizes.labels,
        "words": sizes.words,
    }
    if config.model.name == "distilbert":
        encoder = encoder_of(config, sizes)
        # The last layer is not in the loop over layers.
        axes |= {"words": encoder.vocabulary, "layers": encoder.layers - 1, "heads": encoder.heads}
    return axes
