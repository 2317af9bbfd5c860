"""What the members say of the documents that a round looks at, and of the test file."""

from typing import Any

import jax
import numpy as np

from crabjax.config import Config
from crabjax.devices.processes import array_of_first
from crabjax.ensemble import (
    Guesses,
    guess_some,
    no_guesses,
    predict_features,
    predict_logits,
)
from crabjax.experiments.problem import Problem, Schedule
from crabjax.experiments.state import State
from crabjax.files.store import gather
from crabjax.keys import host_generator, run_key
from crabjax.pool.look import AllBut, Look
from crabjax.strategies import Pool, get_strategy, part_of


def pools(
    config: Config, problem: Problem, params: Any, state: State, looks: list[Look]
) -> list[Pool]:
    """Predicts what is looked at: what the strategy may see, one pool a seed."""
    if not samples(config, problem):
        return whole_pools(config, problem, params, state, looks)
    strategy, found = get_strategy(config.strategy.name), []
    sizes = problem.capacity, problem.documents, config.loop.query_size
    for seed, (seen, labelled) in enumerate(zip(looks, state.labelled)):
        part = part_of(strategy, seen, labelled, *sizes, config.strategy)
        own = of_seed(config, params, seed)
        inputs, batch = gather(problem.inputs, part.predicted), config.devices.predict_batch
        logits = predict_logits(problem.model, own, inputs, batch)
        labels = gather(problem.labels, labelled)
        found.append(part.pool(logits, labels, state.round, problem.rounds))
    return found


def whole_pools(
    config: Config, problem: Problem, params: Any, state: State, looks: list[Look]
) -> list[Pool]:
    """The same of all documents, for all seeds together."""
    inputs, batch = problem.inputs[: problem.documents], config.devices.predict_batch
    logits = predict_logits(problem.model, params, inputs, batch)  # [S * E, N, K]
    logits = logits.reshape(len(config.loop.seeds), -1, *logits.shape[1:])
    found = []
    for own, labelled, seen in zip(logits, state.labelled, looks):
        revealed = np.zeros((problem.documents, problem.labels.shape[1]), bool)
        revealed[labelled] = problem.labels[labelled]  # those of unlabelled documents stay hidden
        pool = Pool(own, revealed, labelled, seen.documents, None, state.round, problem.rounds)
        found.append(pool._replace(look=seen))
    return found


def guessed(config: Config, problem: Problem, params: Any, state: State) -> Guesses:
    """Unlabelled documents of each seed that its members are sure of, with labels they give."""
    known = np.concatenate([state.labelled, problem.held_out], axis=1)
    left = problem.documents - known.shape[1]
    wanted = min(config.ensemble.guessed(state.labelled.shape[1]), left // 2)
    if wanted == 0:
        return no_guesses(len(known), problem.labels.shape[1])
    found = []
    for row, (seed, own) in enumerate(zip(config.loop.seeds, known)):
        members, unlabelled = of_seed(config, params, row), AllBut(problem.documents, np.sort(own))
        generator = host_generator(run_key(seed, "fit", state.round), "guesses")
        drawn = unlabelled, wanted, generator, config.devices.predict_batch
        found.append(guess_some(problem.model, members, problem.inputs, *drawn))
    # Predictions may round otherwise on another machine.
    return Guesses(*(array_of_first(np.stack(arrays)) for arrays in zip(*found)))


def samples(config: Config, problem: Problem | Schedule) -> bool:
    """Whether queries look at only a part of U; decided once, so that shapes stay the same."""
    known = problem.held_out.shape[1] + problem.initial.shape[1]
    strategy, size = get_strategy(config.strategy.name), config.loop.query_size
    documents = problem.documents
    return strategy.samples(documents - known, size, config.strategy, documents)


def of_seed(config: Config, params: Any, seed: int) -> Any:
    """The parameters of one seed's members, [E, ...], of [S * E, ...]."""

    def own(leaf):
        members = len(leaf) // len(config.loop.seeds)
        return leaf[seed * members : (seed + 1) * members]

    return jax.tree.map(own, params)


def predict_test(config: Config, problem: Problem, params: Any) -> np.ndarray:
    """Member logits of the test documents, by seed: [S, E, X, K]."""
    given = problem.test_inputs, config.devices.predict_batch
    if samples(config, problem):  # as many members at once as for the pools: one program
        seeds = range(len(config.loop.seeds))
        return np.stack(
            [predict_logits(problem.model, of_seed(config, params, s), *given) for s in seeds]
        )
    logits = predict_logits(problem.model, params, *given)
    return logits.reshape(len(config.loop.seeds), -1, *logits.shape[1:])


def document_features(
    config: Config, problem: Problem, params: Any, seed: int, documents: np.ndarray
) -> np.ndarray:
    """Vectors [X, D] of some documents by the first member of a seed."""
    first = jax.tree.map(lambda leaf: leaf[seed * (len(leaf) // len(config.loop.seeds))], params)
    inputs, batch = gather(problem.inputs, documents), config.devices.predict_batch
    return predict_features(problem.model, first, inputs, batch)
