"""Active learning, simulated: the whole method, one round at a time, all seeds together."""

import functools
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
from crabjax.ensemble import FitInfo, fit_ensemble, member_keys, needed_rows
from crabjax.experiments.checkpoint import Saved
from crabjax.experiments.problem import Problem, documents_fitted, prepare
from crabjax.experiments.progress import Progress
from crabjax.experiments.run_folder import RunFolder
from crabjax.experiments.seen import document_features, pools, predict_test
from crabjax.experiments.state import (
    State,
    first_state,
    saved_arrays,
    saved_forms,
    saved_rows,
    state_after,
)
from crabjax.files.store import gather
from crabjax.keys import run_key
from crabjax.metrics import Scores, evaluate
from crabjax.models import get_builder
from crabjax.pool.look import AllBut, Look
from crabjax.report.records import DECIDED, Record
from crabjax.strategies import Pool, Selection, beliefs_of, get_strategy, with_features
from crabjax.thresholds import HALF, Unchosen, ensemble_threshold, in_bins

log = logging.getLogger(__name__)


class Info(NamedTuple):
    """What the record of a round needs."""

    fit: FitInfo
    thresholds: np.ndarray  # [S]
    ensemble: Scores  # of the mean prediction at 0.5, [S] each
    decided: Scores  # of the mean prediction at its threshold, [S] each
    members: Scores  # at 0.5, [S, E] each
    selections: list[Selection]  # one a seed; empty in the last round
    left: list[dict[str, float]]  # documents of each kind still unlabelled, one a seed


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
        saved = output.restore(*saved_forms(problem))
        records = [] if saved is None else saved.records
        state = first_state(problem) if saved is None else state_after(saved)
        title = f"{config.data.name} {name or config.strategy.name}"
        progress = Progress(title, problem.rounds)
        progress.header(records)
        while state.round <= problem.rounds:
            with progress.round(state.round):
                next_state, info = step(config, problem, state, progress)
                new = make_records(config, problem, state, info, progress.seconds)
                records = records + new
                output.save(Saved(state.round, saved_arrays(problem, next_state), records))
            log.info(progress.row(new))
            state = next_state
    return records


def step(config: Config, problem: Problem, state: State, progress: Progress) -> tuple[State, Info]:
    """One round: fit, draw what to look at, predict that, evaluate, query, reveal."""
    last = state.round == problem.rounds
    with progress.phase("fit"):
        params, fit_info = fit(config, problem, state)
    with progress.phase("predict"):
        seen = pools(config, problem, params, state, look(config, problem, state))
    with progress.phase("evaluate"):
        test_logits = predict_test(config, problem, params)
        first_labels = [gather(problem.labels, own) for own in problem.initial]
        thresholds = decide(config, seen, state.picked, test_logits, first_labels)
        scores = score(test_logits, problem.test_labels, thresholds)
        beliefs = [beliefs_of(pool, config.strategy) for pool in seen]
        seen = [pool._replace(beliefs=own) for pool, own in zip(seen, beliefs)]
        left = [own.traits.left(pool.looked.unlabelled) for pool, own in zip(seen, beliefs)]
    with progress.phase("query"):
        selections = [] if last else query(config, problem, seen, params)
    labelled = array_of_first(reveal(state.labelled, selections))
    next_state = State(state.round + 1, labelled, remember(state.picked, seen, selections))
    return next_state, Info(fit_info, thresholds, *scores, selections, left)


def fit(config: Config, problem: Problem, state: State) -> tuple[Any, FitInfo]:
    """Trains every member of every seed from scratch on its seed's labelled documents."""
    seeds, members = config.loop.seeds, config.ensemble.members
    seed_keys = jnp.stack([run_key(seed, "fit", state.round) for seed in seeds])
    rows = saved_rows(problem, state.labelled)  # [S, C]
    counts = np.full(len(seeds), state.labelled.shape[1], np.int32)
    validation = problem.validation_rows.shape[1]
    needed = needed_rows(
        problem.inputs,
        problem.labels,
        rows,
        counts,
        problem.validation_rows,
        capacity=documents_fitted(config, len(problem.inputs), problem.capacity, validation),
    )
    repeated = [np.repeat(one, members, axis=0) for one in needed[2:]]
    return fit_ensemble(
        problem.model,
        config.ensemble,
        member_keys(seed_keys, members, config.ensemble.member_init),
        needed.inputs,
        needed.labels,
        *repeated,
        devices=config.devices,
    )


def look(config: Config, problem: Problem, state: State) -> list[Look]:
    """Which documents each seed's query looks at; nothing is predicted for that."""
    strategy, size = get_strategy(config.strategy.name), config.loop.query_size
    looks = []
    for seed, *known in zip(config.loop.seeds, state.labelled, problem.held_out):
        unlabelled = AllBut(problem.documents, np.union1d(*known))
        key = run_key(seed, "query", state.round)
        looks.append(strategy.look(key, unlabelled, size, config.strategy, problem.documents))
    return looks


def decide(
    config: Config,
    seen: list[Pool],
    picked: np.ndarray,
    test_logits: np.ndarray,
    first_labels: list[np.ndarray],
) -> np.ndarray:
    """What a probability must exceed for its label to be given, [S].

    Learnt from unlabelled documents and from what was thought of the queried ones before; where
    there are neither, from those that are to be decided on. The first labelled set, which no
    strategy chose, says how many labels there are.
    """
    if config.ensemble.threshold == "half":
        return np.full(len(seen), HALF)
    found = []
    for pool, before, of_test, first in zip(seen, picked, test_logits, first_labels):
        known = Unchosen(first, len(pool.labelled))
        if len(pool.unlabelled) or before.any():
            documents = pool.looked.unlabelled
            value = ensemble_threshold(pool.logits, pool.unlabelled, before, documents, known)
        else:
            value = ensemble_threshold(of_test, np.arange(of_test.shape[1]), known=known)
        found.append(value)
    return np.array(found)


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


def query(config: Config, problem: Problem, seen: list[Pool], params: Any) -> list[Selection]:
    """Asks the strategy for the next documents, one selection a seed."""
    strategy = get_strategy(config.strategy.name)
    selections = []
    for row, (seed, pool) in enumerate(zip(config.loop.seeds, seen)):
        key, size = run_key(seed, "query", pool.round), config.loop.query_size
        pool = _as_first(strategy.narrowed(key, pool, size, config.strategy))
        if strategy.needs_features(config.strategy):
            vectors = functools.partial(document_features, config, problem, params, row)
            pool = with_features(pool, strategy, vectors)
        selections.append(strategy(key, pool, size, config.strategy))
    return selections


def _as_first(pool: Pool) -> Pool:
    """With the first process's candidates: predictions may round otherwise on another machine."""
    candidates = array_of_first(pool.candidates)
    return pool._replace(look=pool.looked._replace(candidates=candidates))


def reveal(labelled: np.ndarray, selections: list[Selection]) -> np.ndarray:
    """Moves the selected documents from U to L."""
    if not selections:
        return labelled
    chosen = np.stack([selection.indices for selection in selections])
    return np.sort(np.concatenate([labelled, chosen], axis=1), axis=1)


def remember(picked: np.ndarray, seen: list[Pool], selections: list[Selection]) -> np.ndarray:
    """With the probabilities that the selected documents have now, before they are learnt from."""
    if not selections:
        return picked
    chosen = [pool.probabilities(one.indices) for pool, one in zip(seen, selections)]
    return picked + np.stack([in_bins(of_seed) for of_seed in chosen])


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
                "labelled": state.labelled.shape[1],
                "strategy": config.strategy.name,
                "preset": config.preset,
                "model": config.model.name,
                "data": config.data.name,
                **{name: float(values[row]) for name, values in info.ensemble._asdict().items()},
                "threshold": float(info.thresholds[row]),
                **{name: float(getattr(info.decided, of)[row]) for name, of in DECIDED.items()},
                "members": {k: v[row].tolist() for k, v in info.members._asdict().items()},
                "selected": selection.indices.tolist(),
                "mean_ir_selected": mean_ir(gather(problem.labels, selection.indices))
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
