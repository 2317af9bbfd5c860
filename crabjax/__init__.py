"""Multi-label active learning on text: CRAB and its peers as compiled JAX programs."""
# ruff: noqa: I001  (by topic)

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
