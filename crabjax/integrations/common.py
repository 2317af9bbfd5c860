"""What the integrations share: asking a strategy by name, members' probabilities, extras."""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crabjax.config import StrategyConfig
from crabjax.keys import run_key
from crabjax.strategies import Pool, Selection, Strategy, get_strategy


class MissingExtraError(ImportError):
    """The package that an integration is for is not installed."""


class FeaturesNeededError(ValueError):
    """The strategy reads document vectors, and there are none."""


class MembersNeededError(ValueError):
    """The strategy reads how members disagree, and there is only one."""


def require(module: str, extra: str) -> Any:
    """The module of another package.

    Raises:
      MissingExtraError: naming the extra that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        command = f"pip install 'crabjax[{extra}]'"
        raise MissingExtraError(f"{module}: cannot be imported ({error}); {command}") from error


def ask(
    strategy_name: str,
    probabilities: Any,
    labels: Any,
    labelled: Any,
    n: int,
    *,
    unlabelled: Any = None,
    features: Any = None,
    seed: int = 0,
    config: StrategyConfig | None = None,
) -> Selection:
    """The next documents to label, by one of our strategies.

    Equal arguments give an equal answer: what is drawn depends on the seed and on the number of
    labelled documents only.

    Args:
      strategy_name: a registered strategy, e.g. "crab".
      probabilities: of the members, [E, N, K]; or [N, K] of a single one.
      labels: 0 or 1, [n, K] of the documents in ``labelled``, in its order; or [N, K] of all.
      labelled: rows, int [n].
      n: documents to choose; fewer if there are fewer.
      unlabelled: rows to choose from, int [u]; all that are not labelled if None.
      features: document vectors [N, D], for the strategies that read them.
      seed: of all random draws.
      config: settings of the strategy; if None the defaults, where "crab" without features
        spreads its choice over gains instead of document vectors.

    Returns:
      The selection; its indices are rows of ``probabilities``.

    Raises:
      FeaturesNeededError: if the strategy needs features, e.g. "adaptive", "audi", "coreset".
      MembersNeededError: if a single member is asked how its members disagree.
    """
    strategy = get_strategy(strategy_name)
    config = _settings(strategy, config, features is not None)
    known = {"probabilities": probabilities, "labels": labels, "features": features}
    pool = Pool.of(labelled=labelled, unlabelled=unlabelled, **known)
    if strategy.needs_disagreement and len(pool.logits) == 1:
        raise MembersNeededError(f"{strategy_name}: expected at least 2 members, found 1")
    return strategy(run_key(seed, "query", len(pool.labelled)), pool, n, config)


def _settings(strategy: Strategy, given: StrategyConfig | None, features: bool) -> StrategyConfig:
    """The settings a strategy can work with; those that were given are never changed."""
    config = given or (StrategyConfig() if features else replace(StrategyConfig(), cluster="gains"))
    if strategy.needs_features(config) and not features:
        hint = "; or strategy.cluster: gains" if strategy.name == "crab" else ""
        raise FeaturesNeededError(
            f"{strategy.name}: expected features of shape [N, D], found None{hint}"
        )
    return config


def members_of(estimators: Sequence[Any], inputs: Any) -> np.ndarray:
    """What fitted multi-label scikit-learn classifiers predict, [E, N, K]."""
    return np.stack([_chances(estimator, inputs) for estimator in estimators])


def _chances(estimator: Any, inputs: Any) -> np.ndarray:
    """P(y = 1) of every label, [N, K], from either form of ``predict_proba``."""
    found = estimator.predict_proba(inputs)
    if not isinstance(found, list):
        return np.asarray(found)  # OneVsRestClassifier, MLPClassifier
    pairs = zip(found, estimator.classes_)  # [N, number of values the label took], a label each
    return np.stack([chances[:, classes == 1].sum(axis=1) for chances, classes in pairs], axis=1)


def dense_features(inputs: Any) -> np.ndarray | None:
    """The inputs as document vectors [N, D], if they are a dense matrix of numbers; else None."""
    if not isinstance(inputs, np.ndarray) or inputs.ndim != 2:
        return None
    return inputs if np.issubdtype(inputs.dtype, np.number) else None
