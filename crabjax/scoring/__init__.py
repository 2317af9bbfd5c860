"""Scoring kernels: pure functions of probabilities and labels; they know no text and no model."""

from crabjax.scoring.beta import BetaRule as BetaRule
from crabjax.scoring.beta import ScoringRule as ScoringRule
from crabjax.scoring.beta import beta_entropy as beta_entropy
from crabjax.scoring.beta import beta_losses as beta_losses
from crabjax.scoring.correlation import Correlation as Correlation
from crabjax.scoring.correlation import attention_label_weights as attention_label_weights
from crabjax.scoring.correlation import correlation_attention as correlation_attention
from crabjax.scoring.correlation import drop_implied_labels as drop_implied_labels
from crabjax.scoring.correlation import has_exclusive_pair as has_exclusive_pair
from crabjax.scoring.correlation import has_no_label as has_no_label
from crabjax.scoring.correlation import label_correlation as label_correlation
from crabjax.scoring.correlation import pseudo_labels as pseudo_labels
from crabjax.scoring.correlation import update as update
from crabjax.scoring.elr import expected_loss_reduction as expected_loss_reduction
from crabjax.scoring.elr import total_loss_reduction as total_loss_reduction
