"""The parts of a round as a plain script has them: a PyTorch loop, and the score in NumPy."""

import numpy as np
from scipy.special import expit

from crabjax.benchmarks.common import seconds_of
from crabjax.benchmarks.scoring import dense_expected_loss_reduction
from crabjax.config import Config
from crabjax.devices.batches import usable_cores
from crabjax.experiments.loop import Info
from crabjax.experiments.problem import Problem
from crabjax.scoring import BetaRule

PREDICT_BATCH = 256


def dense_query_seconds(config: Config, problem: Problem, info: Info, timed: int) -> float:
    """Seconds of the scores of a round by Eqs. 2 to 4 as they stand, over all seeds.

    Timed on ``timed`` candidates of a seed, and taken to grow with their number. Which documents
    they are makes no difference to the time, so random probabilities serve.
    """
    rule = BetaRule(config.strategy.alpha, config.strategy.beta)
    known = problem.held_out.shape[1] + problem.initial.shape[1]
    unlabelled = problem.documents - known
    anchors = max(1, round(config.strategy.anchor_fraction * unlabelled))
    anchors = min(anchors, config.strategy.anchor_limit or anchors)
    shape = (config.ensemble.members, timed + anchors, problem.labels.shape[1])
    probabilities = expit(np.random.default_rng(0).normal(-2, 2, shape).astype(np.float32))
    some, others = probabilities[:, :timed], probabilities[:, timed:]
    seconds = seconds_of(dense_expected_loss_reduction, some, others, rule)
    candidates = (
        sum(selection.info.get("candidates", {"all": unlabelled}).values())
        for selection in info.selections
    )
    return sum(candidates) * seconds / timed


def torch_seconds(config: Config, problem: Problem) -> dict[str, float]:
    """Seconds of fit and predict, members and seeds one after another; the first seed is timed."""
    try:
        import torch
    except ImportError as error:
        raise SystemExit("--against torch needs PyTorch: pip install 'crabjax[torch]'") from error
    from crabjax.benchmarks import torch_models

    torch.set_num_threads(usable_cores())  # as many as XLA takes
    kinds = {"text_cnn": torch_models.TextCNN, "text_rnn": torch_models.TextRNN}
    if config.model.name not in kinds:
        raise SystemExit(f"--against torch knows {', '.join(kinds)}, not {config.model.name}")
    vocabulary, labels = int(problem.inputs.max()) + 1, problem.labels.shape[1]
    build = lambda: kinds[config.model.name](config.model, vocabulary, labels)

    def fit() -> None:
        rows, held_out = problem.initial[0], problem.validation_rows[0]
        torch_models.train_members(
            build, config.ensemble, problem.inputs, problem.labels, rows, held_out
        )

    def predict() -> None:
        tokens = problem.inputs[: problem.documents]
        lengths = (tokens != 0).sum(axis=1)
        by_length = np.argsort(lengths)  # so that a batch holds little padding
        starts = range(0, len(tokens), config.devices.predict_batch or PREDICT_BATCH)
        chosen = [by_length[start : start + starts.step] for start in starts]
        batches = [
            torch.from_numpy(tokens[rows][:, : lengths[rows].max()]).long() for rows in chosen
        ]
        with torch.no_grad():
            for _ in range(config.ensemble.members):
                network = build().eval()
                for batch in batches:
                    torch.sigmoid(network(batch)).numpy()

    seeds = len(config.loop.seeds)
    return {"fit": seeds * seconds_of(fit), "predict": seeds * seconds_of(predict)}
