"""Seeds x members, trained and predicted with by one compiled program."""

from crabjax.ensemble.checks import EnsembleError as EnsembleError
from crabjax.ensemble.fit import MemberKeys as MemberKeys
from crabjax.ensemble.fit import fit_ensemble as fit_ensemble
from crabjax.ensemble.fit import member_keys as member_keys
from crabjax.ensemble.predict import predict_features as predict_features
from crabjax.ensemble.predict import predict_logits as predict_logits
from crabjax.ensemble.predict import predict_proba as predict_proba
from crabjax.ensemble.rows import needed_rows as needed_rows
from crabjax.ensemble.self_training import Guesses as Guesses
from crabjax.ensemble.self_training import beside as beside
from crabjax.ensemble.self_training import guess_some as guess_some
from crabjax.ensemble.self_training import no_guesses as no_guesses
from crabjax.ensemble.self_training import with_guesses as with_guesses
from crabjax.ensemble.train import FitInfo as FitInfo
