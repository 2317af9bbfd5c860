"""What configurations of earlier versions mean."""

from typing import Any

# Settings that stood elsewhere once; files that name them so are still read.
RENAMED = {
    "ensemble.members_at_once": "devices.members_at_once",
    "ensemble.predict_batch": "devices.predict_batch",
    "data.cache": "devices.cache",
    "model.rematerialise": "devices.rematerialise",
}

# What a run did before a setting existed, where that is not the setting's default.
BEFORE_IT_EXISTED: dict[str, Any] = {
    "ensemble.keep": "best",
    "ensemble.threshold": "half",
    "strategy.anchor_limit": None,
    "strategy.first_look": None,
    "model.label_names": False,
    "loop.first_batch": "random",
    "model.input_dropout": 0.0,  # its default is not the preset's
}
