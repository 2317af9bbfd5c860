"""What computing in bfloat16 costs: a small transformer, trained and tested in both precisions."""

import jax
import numpy as np
import pytest

from crabjax.config import EnsembleConfig
from crabjax.ensemble import fit_ensemble, member_keys, predict_proba
from crabjax.metrics import evaluate
from crabjax.models.pretrained import Architecture
from crabjax.models.transformer import transformer_classifier

pytestmark = pytest.mark.slow

LABELS, DOCUMENTS, TRAINING = 3, 500, 150
SMALL = Architecture("distilbert", 30, positions=8, width=16, inner=32, heads=2, layers=1)
CONFIG = EnsembleConfig(batch_size=25, epochs=25, learning_rate=1e-2)


@pytest.fixture(scope="module")
def found():
    """Probabilities and micro-F1 on 300 test documents, by precision; a label is a word."""
    tokens = np.random.default_rng(0).integers(1, 30, (DOCUMENTS, 8)).astype(np.int32)
    truth = np.stack([(tokens % 10 == label).any(axis=1) for label in range(LABELS)], axis=1)
    keys = member_keys(jax.random.key(0)[None], 2, "independent")
    rows = np.tile(np.arange(TRAINING, dtype=np.int32), (2, 1))
    validation = np.tile(np.arange(TRAINING, 200, dtype=np.int32), (2, 1))
    results = {}
    for precision in ("float32", "bfloat16"):
        model = transformer_classifier(SMALL, LABELS, precision=precision)
        counts = np.full(2, TRAINING)
        params, _ = fit_ensemble(model, CONFIG, keys, tokens, truth, rows, counts, validation)
        probabilities = predict_proba(model, params, tokens[200:], 100).mean(axis=0)
        scores = evaluate(probabilities[None], truth[200:])
        results[precision] = probabilities, float(scores.micro_f1[0])
    return results


def test_bfloat16_costs_little_f1(found):
    single, half = (found[precision][1] for precision in ("float32", "bfloat16"))
    assert single > 0.85  # 0.992 and 0.972 were seen on CPU
    assert abs(single - half) < 0.05


def test_bfloat16_is_really_used(found):
    difference = np.abs(found["float32"][0] - found["bfloat16"][0]).mean()
    assert 1e-4 < difference < 0.1
