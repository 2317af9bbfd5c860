"""Seeds x members, trained and predicted with by one compiled program."""

from crabjax.ensemble.checks import EnsembleError as EnsembleError
from crabjax.ensemble.fit import MemberKeys as MemberKeys
from crabjax.ensemble.fit import fit_ensemble as fit_ensemble
from crabjax.ensemble.fit import member_keys as member_keys
from crabjax.ensemble.predict import predict_features as predict_features
from crabjax.ensemble.predict import predict_logits as predict_logits
from crabjax.ensemble.predict import predict_proba as predict_proba
from crabjax.ensemble.rows import needed_rows as needed_rows
from crabjax.ensemble.train import FitInfo as FitInfo
