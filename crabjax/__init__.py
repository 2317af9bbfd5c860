"""Multi-label active learning on text: CRAB and its peers as compiled JAX programs."""
# ruff: noqa: I001, E402  (by topic)

# Before anything starts a backend of JAX.
from crabjax.devices.atomics import use_native_atomics as _use_native_atomics

_use_native_atomics()

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Settings
    from crabjax.config import Config as Config
    from crabjax.config import load_config as load_config

    # Experiments
    from crabjax.experiments.loop import run as run
    from crabjax.metrics import evaluate as evaluate

    # Own texts
    from crabjax.labelling.learner import Learner as Learner
    from crabjax.labelling.learner import Suggestion as Suggestion

    # Ensembles
    from crabjax.models import build_model as build_model
    from crabjax.ensemble import member_keys as member_keys
    from crabjax.ensemble import fit_ensemble as fit_ensemble
    from crabjax.ensemble import predict_proba as predict_proba

    # Strategies
    from crabjax.strategies import Pool as Pool
    from crabjax.strategies import Selection as Selection
    from crabjax.strategies import get_strategy as get_strategy
    from crabjax.strategies import register as register

    # Scoring
    from crabjax.scoring.beta import BetaRule as BetaRule
    from crabjax.scoring.beta import beta_entropy as beta_entropy
    from crabjax.scoring.beta import beta_losses as beta_losses
    from crabjax.scoring.elr import expected_loss_reduction as expected_loss_reduction
    from crabjax.scoring.elr import total_loss_reduction as total_loss_reduction
    from crabjax.scoring.correlation import Correlation as Correlation
    from crabjax.scoring.correlation import label_correlation as label_correlation
    from crabjax.scoring.correlation import update as update
    from crabjax.scoring.correlation import correlation_attention as correlation_attention
    from crabjax.scoring.correlation import attention_label_weights as attention_label_weights
    from crabjax.scoring.correlation import pseudo_labels as pseudo_labels
    from crabjax.scoring.correlation import drop_implied_labels as drop_implied_labels
    from crabjax.scoring.correlation import has_exclusive_pair as has_exclusive_pair
    from crabjax.scoring.correlation import has_no_label as has_no_label

# Where the names above come from when they are first asked for: a command that only prints its
# help should not wait for JAX. A test holds the two lists together.
_HOMES = {
    "config": "Config load_config",
    "experiments.loop": "run",
    "metrics": "evaluate",
    "labelling.learner": "Learner Suggestion",
    "models": "build_model",
    "ensemble": "member_keys fit_ensemble predict_proba",
    "strategies": "Pool Selection get_strategy register",
    "scoring.beta": "BetaRule beta_entropy beta_losses",
    "scoring.elr": "expected_loss_reduction total_loss_reduction",
    "scoring.correlation": "Correlation label_correlation update correlation_attention "
    "attention_label_weights pseudo_labels drop_implied_labels has_exclusive_pair has_no_label",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'crabjax' has no attribute {name!r}")
    value = getattr(import_module(f"crabjax.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
