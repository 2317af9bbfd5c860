"""Prediction of a pool of documents by an ensemble, through the calls the loop makes.

The documents are those of the fit benchmark: half have fewer than 95 words. The arithmetic counted
is that of the plain padded computation.
"""

import argparse

import jax

from crabjax.benchmarks.common import Row, measure, peak_extra_megabytes
from crabjax.benchmarks.corpus import random_corpus
from crabjax.benchmarks.roofline import device_peaks, forward_work, roofline
from crabjax.config import ModelConfig
from crabjax.ensemble import member_keys, predict_logits
from crabjax.models import build_model


def run(arguments: argparse.Namespace) -> list[Row]:
    """One row: all documents, all members."""
    config = ModelConfig(name=arguments.model)
    model = build_model(config, arguments.vocabulary, arguments.labels)
    keys = member_keys(jax.random.split(jax.random.key(0), 1), arguments.members, "independent")
    params = jax.vmap(model.init)(keys.init)
    tokens, _ = random_corpus(
        arguments.documents, arguments.tokens, arguments.vocabulary, arguments.labels
    )
    predict = lambda: predict_logits(model, params, tokens, arguments.batch)
    timing = measure(predict, repeats=arguments.repeats)
    work = forward_work(
        config, arguments.tokens, arguments.documents, arguments.members, arguments.labels
    )
    row = {
        "what": arguments.model,
        "documents": arguments.documents,
        "members": arguments.members,
        "seconds": timing.median,
        "documents/s": arguments.documents * arguments.members / timing.median,
        "spread": timing.spread,
        "compile s": timing.compile,
        "peak extra MB": peak_extra_megabytes(predict),
    }
    return [row | roofline(work, timing.median, device_peaks())]
