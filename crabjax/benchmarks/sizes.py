"""Sizes of the benchmarks: ``--preset small | paper | large``, in one table.

small ends within about a minute on two CPU cores. paper has the sizes of RCV1 in the paper's
protocol: 24,891 documents, 102 labels, 104,619 words, five members, 100 labelled documents, a
validation set of 1,000, anchors a 9.39% of the unlabelled pool, and the most candidates that
refinement with 50 a label gives. large is for accelerators. Settings not named here keep their
defaults, and an option on the command line wins over its preset.
"""

from typing import Any

_RCV1 = {"labels": 102, "vocabulary": 104_619}
_SMALL_ROUND = ["ensemble.epochs=5", "loop.seeds=0"]
_RCV1_ROUND = [
    "data.max_tokens=256",
    "data.validation_size=1000",
    "data.synthetic.documents=24891",
    "data.synthetic.test_documents=6223",
    "data.synthetic.roots=34",
    "data.synthetic.leaves_per_root=2",
    "data.synthetic.mean_ir=40",
    "data.synthetic.corr_avg=0.05",
    "data.synthetic.vocabulary=104619",
    "data.synthetic.length=110",
    "model.embedding=64",
    "model.kernels=100",
    "ensemble.epochs=80",
    "ensemble.patience=30",
    "ensemble.learning_rate=0.005",
    "preset=paper",
    "strategy.per_label=50",
    "loop.initial_size=100",
    "loop.query_size=100",
]

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "small": {
        "scoring": {"candidates": 2048, "anchors": 188, "labels": 20},
        "fit": {"labelled": [100], "validation": 200, "epochs": 3},
        "prepare": {"documents": 20_000},
        "round": {"repeats": 2, "overrides": _SMALL_ROUND},
        "scaling": {"documents": [10_000, 20_000], "repeats": 3},
        "peers": {"documents": 2000, "repeats": 3},
    },
    "paper": {
        "scoring": {"candidates": 5500, "anchors": 2234, "labels": 102},
        "fit": {"labelled": [100, 1100], "validation": 1000, "epochs": 10, **_RCV1},
        "prepare": {"documents": 24_891, "words": 110, **_RCV1},
        "round": {"repeats": 2, "overrides": [*_RCV1_ROUND, "loop.seeds=0"]},
        "scaling": {},
        "peers": {"documents": 24_891, "labels": 102},
    },
    "large": {
        "scoring": {"candidates": 100_000, "anchors": 4096, "labels": 102, "members": 10},
        "fit": {"labelled": [1100], "validation": 1000, "epochs": 10, "members": 25, **_RCV1},
        "prepare": {"documents": 1_000_000},
        "round": {"repeats": 3, "overrides": _RCV1_ROUND},
        "scaling": {},
        "peers": {"documents": 200_000, "labels": 102},
    },
}
