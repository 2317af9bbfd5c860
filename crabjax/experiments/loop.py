"""Active learning, simulated: the whole method, one round at a time, all seeds together."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crabjax.config import Config
from crabjax.data.statistics import mean_ir
from crabjax.devices.mesh import use_devices
from crabjax.devices.processes import array_of_first
from crabjax.ensemble import (
    FitInfo,
    fit_ensemble,
    member_keys,
    predict_features,
    predict_logits,
)
from crabjax.experiments.checkpoint import Saved
from crabjax.experiments.problem import Problem, prepare
from crabjax.experiments.progress import Progress
from crabjax.experiments.run_folder import RunFolder
from crabjax.keys import run_key
from crabjax.metrics import Scores, evaluate
from crabjax.models import get_builder
from crabjax.report.records import DECIDED, Record
from crabjax.strategies import Pool, Selection, beliefs_of, get_strategy
from crabjax.thresholds import HALF, ensemble_threshold

log = logging.getLogger(__name__)


class State(NamedTuple):
    """What the next round needs."""

    round: int
    labelled: np.ndarray  # bool [S, N]


class Info(NamedTuple):
    """What the record of a round needs."""

    fit: FitInfo
    thresholds: np.ndarray  # [S]
    ensemble: Scores  # of the mean prediction at 0.5, [S] each
    decided: Scores  # of the mean prediction at its threshold, [S] each
    members: Scores  # at 0.5, [S, E] each
    selections: list[Selection]  # one a seed; empty in the last round
    left: list[dict[str, int]]  # documents of each kind still unlabelled, one a seed


def run(
    config: Config, folder: Path, *, name: str | None = None, fresh: bool = False
) -> list[Record]:
    """Runs, or continues, one experiment.

    Args:
      config: the experiment.
      folder: where records, summary, checkpoints and log go.
      name: what the progress calls it; None for the name of its strategy.
      fresh: delete what an earlier run left there.

    Returns:
      One record per seed and round; the last round is the evaluation after the last query.
    """
    get_strategy(config.strategy.name)  # a misspelt name should fail before the work, not after
    get_builder(config.model.name)
    models = len(config.loop.seeds) * config.ensemble.members
    with RunFolder(folder, config, fresh) as output, use_devices(config.devices, models):
        problem = prepare(config)
        output.check_data(problem.fingerprint)
        saved = output.restore({"labelled": problem.initial})
        records = [] if saved is None else saved.records
        state = State(0, problem.initial) if saved is None else _state_after(saved)
        title = f"{config.data.name} {name or config.strategy.name}"
        progress = Progress(title, problem.rounds)
        progress.header(records)
        while state.round <= problem.rounds:
            with progress.round(state.round):
                next_state, info = step(config, problem, state, progress)
                rows = make_records(config, problem, state, info, progress.seconds)
                records = records + rows
                output.save(Saved(state.round, {"labelled": next_state.labelled}, records))
            log.info(progress.row(rows))
            state = next_state
    return records


def step(config: Config, problem: Problem, state: State, progress: Progress) -> tuple[State, Info]:
    """One round: fit, predict, evaluate, query, reveal."""
    last = state.round == problem.rounds
    with progress.phase("fit"):
        params, fit_info = fit(config, problem, state)
    with progress.phase("predict"):
        logits = predict(config, problem, params, problem.inputs[: problem.documents])
    with progress.phase("evaluate"):
        test_logits = predict(config, problem, params, problem.test_inputs)
        seen = pools(config, problem, state, logits)
        thresholds = decide(config, seen)
        scores = score(test_logits, problem.test_labels, thresholds)
        left = [beliefs_of(pool, config.strategy).traits.left() for pool in seen]
    with progress.phase("query"):
        selections = [] if last else query(config, problem, seen, params)
    labelled = array_of_first(reveal(state.labelled, selections))
    return State(state.round + 1, labelled), Info(fit_info, thresholds, *scores, selections, left)


def fit(config: Config, problem: Problem, state: State) -> tuple[Any, FitInfo]:
    """Trains every member of every seed from scratch on its seed's labelled documents."""
    members = config.ensemble.members
    seed_keys = jnp.stack([run_key(seed, "fit", state.round) for seed in config.loop.seeds])
    loop = config.loop
    capacity = min(
        loop.initial_size + problem.rounds * loop.query_size, int(problem.poolable[0].sum())
    )
    rows = np.zeros((len(loop.seeds), capacity), np.int32)  # [S, C]
    counts = state.labelled.sum(axis=1).astype(np.int32)  # [S]
    for seed, count in enumerate(counts):
        rows[seed, :count] = np.flatnonzero(state.labelled[seed])
    return fit_ensemble(
        problem.model,
        config.ensemble,
        member_keys(seed_keys, members, config.ensemble.member_init),
        problem.inputs,
        problem.labels,
        np.repeat(rows, members, axis=0),
        np.repeat(counts, members),
        np.repeat(problem.validation_rows, members, axis=0),
        config.devices,
    )


def predict(config: Config, problem: Problem, params: Any, inputs: np.ndarray) -> np.ndarray:
    """Member logits, by seed: [S, E, X, K]."""
    logits = predict_logits(problem.model, params, inputs, config.devices.predict_batch)
    return logits.reshape(-1, config.ensemble.members, *logits.shape[1:])


def decide(config: Config, seen: list[Pool]) -> np.ndarray:
    """What a probability must exceed for its label to be given, [S]."""
    if config.ensemble.threshold == "half":
        return np.full(len(seen), HALF)
    return np.array([ensemble_threshold(pool.logits, pool.unlabelled) for pool in seen])


def score(
    logits: np.ndarray, labels: np.ndarray, thresholds: np.ndarray
) -> tuple[Scores, Scores, Scores]:
    """Measures of each seed's mean prediction, at 0.5 and at its threshold, and of its members."""
    seeds, members = logits.shape[:2]
    probs = jax.nn.sigmoid(logits)  # [S, E, X, K]
    mean, alone = probs.mean(axis=1), probs.reshape(-1, *probs.shape[2:])
    half = np.full(seeds * (1 + members), HALF)
    together = jnp.concatenate([mean, mean, alone])
    found = evaluate(together, labels, np.concatenate([thresholds, half]))
    decided, at_half, rest = zip(*(np.split(one, [seeds, 2 * seeds]) for one in found))
    by_member = [one.reshape(seeds, members) for one in rest]
    return Scores(*at_half), Scores(*decided), Scores(*by_member)


def pools(config: Config, problem: Problem, state: State, logits: np.ndarray) -> list[Pool]:
    """What the strategy may see, one pool a seed."""
    labels = problem.labels[: problem.documents]
    seen = [
        Pool(
            logits=logits[seed],
            labels=labels & labelled[:, None],  # labels of unlabelled documents stay hidden
            labelled=np.flatnonzero(labelled),
            unlabelled=np.flatnonzero(problem.poolable[seed] & ~labelled),
            round=state.round,
            rounds=problem.rounds,
        )
        for seed, labelled in enumerate(state.labelled)
    ]
    return [pool._replace(beliefs=beliefs_of(pool, config.strategy)) for pool in seen]


def query(config: Config, problem: Problem, seen: list[Pool], params: Any) -> list[Selection]:
    """Asks the strategy for the next documents, one selection a seed."""
    strategy = get_strategy(config.strategy.name)
    if strategy.needs_features(config.strategy):
        features = document_features(config, problem, params)
        seen = [pool._replace(features=own) for pool, own in zip(seen, features)]
    return [
        strategy(run_key(seed, "query", pool.round), pool, config.loop.query_size, config.strategy)
        for seed, pool in zip(config.loop.seeds, seen)
    ]


def document_features(config: Config, problem: Problem, params: Any) -> np.ndarray:
    """The document vectors of each seed's first member, [S, N, D]."""
    inputs, batch = problem.inputs[: problem.documents], config.devices.predict_batch
    firsts = range(0, len(config.loop.seeds) * config.ensemble.members, config.ensemble.members)
    one = lambda member: jax.tree.map(lambda leaf: leaf[member], params)
    return np.stack([predict_features(problem.model, one(m), inputs, batch) for m in firsts])


def reveal(labelled: np.ndarray, selections: list[Selection]) -> np.ndarray:
    """Moves the selected documents from U to L."""
    labelled = labelled.copy()
    for seed, selection in enumerate(selections):
        labelled[seed, selection.indices] = True
    return labelled


def make_records(
    config: Config, problem: Problem, state: State, info: Info, seconds: dict[str, float]
) -> list[Record]:
    """One record a seed. Time spent on all seeds together is divided among them."""
    shape = (len(config.loop.seeds), config.ensemble.members)
    best_epochs = np.asarray(info.fit.best_epoch).reshape(shape)
    epochs_run = np.asarray(info.fit.epochs_run).reshape(shape)
    failed_epochs = np.asarray(info.fit.failed_epoch).reshape(shape)
    selections = info.selections or [Selection(np.zeros(0, np.int64), {})] * shape[0]
    records = []
    for row, (seed, selection) in enumerate(zip(config.loop.seeds, selections)):
        records.append(
            {
                "seed": seed,
                "round": state.round,
                "labelled": int(state.labelled[row].sum()),
                "strategy": config.strategy.name,
                "preset": config.preset,
                "model": config.model.name,
                "data": config.data.name,
                **{name: float(values[row]) for name, values in info.ensemble._asdict().items()},
                "threshold": float(info.thresholds[row]),
                **{name: float(getattr(info.decided, of)[row]) for name, of in DECIDED.items()},
                "members": {k: v[row].tolist() for k, v in info.members._asdict().items()},
                "selected": selection.indices.tolist(),
                "mean_ir_selected": mean_ir(problem.labels[selection.indices])
                if len(selection.indices)
                else None,
                **info.left[row],
                "query": selection.info,
                "best_epochs": best_epochs[row].tolist(),
                "epochs_run": epochs_run[row].tolist(),
                "failed_epochs": failed_epochs[row].tolist(),
                "seconds": {name: value / shape[0] for name, value in seconds.items()},
            }
        )
    return records


def _state_after(saved: Saved) -> State:
    return State(saved.round + 1, saved.arrays["labelled"])
