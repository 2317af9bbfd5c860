"""What the members say of the documents that a round looks at, and of the test file."""

from typing import Any

import jax
import numpy as np

from crabjax.config import Config
from crabjax.ensemble import predict_features, predict_logits
from crabjax.experiments.problem import Problem, Schedule
from crabjax.experiments.state import State
from crabjax.files.store import gather
from crabjax.pool.look import Look
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
    logits = logits.reshape(-1, config.ensemble.members, *logits.shape[1:])
    found = []
    for own, labelled, seen in zip(logits, state.labelled, looks):
        revealed = np.zeros((problem.documents, problem.labels.shape[1]), bool)
        revealed[labelled] = problem.labels[labelled]  # those of unlabelled documents stay hidden
        pool = Pool(own, revealed, labelled, seen.documents, None, state.round, problem.rounds)
        found.append(pool._replace(look=seen))
    return found


def samples(config: Config, problem: Problem | Schedule) -> bool:
    """Whether queries look at only a part of U; decided once, so that shapes stay the same."""
    known = problem.held_out.shape[1] + problem.initial.shape[1]
    strategy, size = get_strategy(config.strategy.name), config.loop.query_size
    documents = problem.documents
    return strategy.samples(documents - known, size, config.strategy, documents)


def of_seed(config: Config, params: Any, seed: int) -> Any:
    """The parameters of one seed's members, [E, ...]."""
    first = seed * config.ensemble.members
    return jax.tree.map(lambda leaf: leaf[first : first + config.ensemble.members], params)


def predict_test(config: Config, problem: Problem, params: Any) -> np.ndarray:
    """Member logits of the test documents, by seed: [S, E, X, K]."""
    given = problem.test_inputs, config.devices.predict_batch
    if samples(config, problem):  # as many members at once as for the pools: one program
        seeds = range(len(config.loop.seeds))
        return np.stack(
            [predict_logits(problem.model, of_seed(config, params, s), *given) for s in seeds]
        )
    logits = predict_logits(problem.model, params, *given)
    return logits.reshape(-1, config.ensemble.members, *logits.shape[1:])


def document_features(
    config: Config, problem: Problem, params: Any, seed: int, documents: np.ndarray
) -> np.ndarray:
    """Vectors [X, D] of some documents by the first member of a seed."""
    first = jax.tree.map(lambda leaf: leaf[seed * config.ensemble.members], params)
    inputs, batch = gather(problem.inputs, documents), config.devices.predict_batch
    return predict_features(problem.model, first, inputs, batch)
