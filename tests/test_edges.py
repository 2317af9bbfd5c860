"""Numbers at the edge: in every strategy, in the kernels, and in whole runs."""

import json

import jax
import numpy as np
import pytest

from crabjax.config import StrategyConfig, from_dict
from crabjax.experiments.loop import run
from crabjax.experiments.problem import ProblemError
from crabjax.files import DataWarning
from crabjax.metrics import evaluate
from crabjax.scoring.beta import BetaRule
from crabjax.scoring.correlation import correlation_attention, label_correlation
from crabjax.scoring.elr import expected_loss_reduction
from crabjax.strategies import Pool, get_strategy, strategy_names

RULES = [BetaRule(), BetaRule(0.0, 0.0), BetaRule(1.0, 1.0), BetaRule(0.3, 0.7)]
CONFIG = StrategyConfig(anchor_fraction=0.2, per_label=5, hard_size=4)


def probabilities(kind, members=3, documents=30, labels=4):
    random = np.random.default_rng(0).random((members, documents, labels), np.float32)
    values = {
        "ordinary": random,
        "all members equal": np.broadcast_to(random[:1], random.shape),
        "0 and 1": np.round(random),
        "all 0": np.zeros_like(random),
        "all 1": np.ones_like(random),
        "all one half": np.full_like(random, 0.5),
        "the smallest above 0": np.full_like(random, 1e-38),
        "the largest below 1": np.full_like(random, np.float32(1) - np.float32(6e-8)),
    }
    return np.ascontiguousarray(values[kind], np.float32)


KINDS = [
    "ordinary", "all members equal", "0 and 1", "all 0", "all 1", "all one half",
    "the smallest above 0", "the largest below 1",
]  # fmt: skip
SHAPES = {"K = 1": {"labels": 1}, "E = 1": {"members": 1}, "one document left": {"documents": 6}}


def labels_of(kind, documents, labels):
    found = np.zeros((documents, labels), bool)
    if kind == "one document a label":
        found[np.arange(min(documents, labels)), np.arange(min(documents, labels))] = True
    elif kind == "one label on all, one on none":
        found[:, 0] = True
        found[::2, min(1, labels - 1)] = True
    elif kind == "every label on all":
        found[:] = True
    return found


LABELS = ["none at all", "one document a label", "one label on all, one on none"]
LABELS += ["every label on all"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.alpha},{rule.beta}")
def test_gains_are_finite_and_not_negative(kind, rule):
    values = probabilities(kind)
    gains = np.asarray(expected_loss_reduction(values[:, :10], values[:, 10:], rule))
    assert np.isfinite(gains).all()
    assert (gains >= 0).all()
    if kind != "ordinary" and kind != "0 and 1":
        np.testing.assert_allclose(gains, 0, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_gains_of_the_smallest_shapes(shape):
    values = probabilities("ordinary", **shape)
    gains = np.asarray(expected_loss_reduction(values[:, :5], values[:, 5:]))
    assert np.isfinite(gains).all()
    assert (gains == 0).all() == (shape == SHAPES["E = 1"])


def test_gains_of_ten_thousand_labels_are_the_sum_of_their_parts():
    values = probabilities("ordinary", members=2, documents=6, labels=10_000)
    whole = np.asarray(expected_loss_reduction(values[:, :2], values[:, 2:]))
    parts = [
        np.asarray(
            expected_loss_reduction(values[:, :2, k : k + 2500], values[:, 2:, k : k + 2500])
        )
        for k in range(0, 10_000, 2500)
    ]
    np.testing.assert_allclose(whole, sum(parts), rtol=1e-4)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("labels", [1, 4])
def test_correlations_are_probabilities(kind, labels):
    found = label_correlation(labels_of(kind, 12, labels))
    attention = np.asarray(correlation_attention(found.positive))
    for matrix in (np.asarray(found.positive), np.asarray(found.negative), attention):
        assert np.isfinite(matrix).all()
        assert ((matrix >= 0) & (matrix <= 1)).all()
    np.testing.assert_array_equal(np.diagonal(np.asarray(found.positive)), 1)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("values", KINDS)
def test_scores_of_predictions_are_between_0_and_1(kind, values):
    scores = evaluate(probabilities(values, members=1), labels_of(kind, 30, 4))
    for name, value in scores._asdict().items():
        assert 0 <= float(value[0]) <= 1, name


def pool_of(kind, said, members=3, documents=30, labels=4):
    labelled = np.arange(5)
    known = labels_of(said, 5, labels)
    features = np.random.default_rng(1).normal(size=(documents, 3)).astype(np.float32)
    values = probabilities(kind, members, documents, labels)
    return Pool.of(
        labels=known, labelled=labelled, probabilities=values, features=features, round=0, rounds=2
    )


def check_selection(name, pool, asked=4):
    chosen = get_strategy(name)(jax.random.key(0), pool, asked, CONFIG).indices
    assert len(set(chosen.tolist())) == min(asked, len(pool.unlabelled))
    assert set(chosen.tolist()) <= set(pool.unlabelled.tolist())


@pytest.mark.parametrize("name", strategy_names())
@pytest.mark.parametrize("kind", KINDS[1:])
def test_every_strategy_answers_extreme_probabilities(name, kind):
    check_selection(name, pool_of(kind, "one label on all, one on none"))


@pytest.mark.parametrize("name", strategy_names())
@pytest.mark.parametrize("said", LABELS)
def test_every_strategy_answers_extreme_labels(name, said):
    check_selection(name, pool_of("ordinary", said))


@pytest.mark.parametrize("name", strategy_names())
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_every_strategy_answers_the_smallest_shapes(name, shape):
    check_selection(name, pool_of("ordinary", "one document a label", **shape))


@pytest.mark.parametrize("name", strategy_names())
def test_every_strategy_answers_documents_that_are_all_the_same(name):
    pool = pool_of("all one half", "one document a label")
    check_selection(name, pool._replace(features=np.zeros_like(pool.features)))


RUN = {
    "data": {"validation_size": 4, "max_tokens": 6, "min_count": 1},
    "model": {"embedding": 2, "kernels": 2, "widths": [2]},
    "devices": {"cache": False},
    "ensemble": {"members": 2, "epochs": 2, "batch_size": 4},
    "strategy": {"name": "crab"},
    "loop": {"rounds": 2, "initial_size": 6, "query_size": 4, "seeds": [0]},
}
CORPORA = {
    "K = 1": [(f"w{n} v{n % 3}", ["a"] if n % 2 else []) for n in range(30)],
    "K = 1, on every document": [(f"w{n}", ["a"]) for n in range(30)],
    "one document a label": [(f"w{n} v{n % 3}", [f"label{n}"]) for n in range(30)],
    "a label on all, one on one": [(f"w{n}", ["all"] + ["b"] * (n == 3)) for n in range(30)],
    "mostly no label": [(f"w{n}", ["a"] * (n == 3)) for n in range(30)],
    "one word over and over": [("same " * 5 + f"w{n}", ["ab"[n % 2]]) for n in range(30)],
    "texts of one letter": [
        (chr(97 + n % 26) + chr(97 + n // 26), ["ab"[n % 2]]) for n in range(30)
    ],
}


def write_corpus(folder, documents):
    for name, part in (("train", documents), ("test", documents[:9])):
        lines = [
            json.dumps({"text": f"{text}{' t' * (name == 'test')}", "labels": labels})
            for text, labels in part
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return {name: str(folder / f"{name}.jsonl") for name in ("train", "test")}


def tiny_run(folder, documents, **sections):
    files = write_corpus(folder, documents)
    tree = {name: own | sections.get(name, {}) for name, own in RUN.items()}
    return run(from_dict(tree | {"data": tree["data"] | files}), folder / "run")


def check_records(records, rounds=3):
    assert [record["round"] for record in records] == list(range(rounds))
    for record in records:
        for measure in ("micro_f1", "macro_f1", "mean_average_precision"):
            assert 0 <= record[measure] <= 1
    json.dumps(records, allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_a_whole_run_on_labels_and_texts_at_the_edge(tmp_path, name):
    check_records(tiny_run(tmp_path, CORPORA[name]))


ODD_TEXTS = {
    "every other one empty": [(f"w{n}" * (n % 2), ["ab"[n % 2]]) for n in range(30)],
    "one word and nothing else": [("same " * (n % 5 + 1), ["ab"[n % 2]]) for n in range(30)],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD_TEXTS)
def test_a_whole_run_on_texts_that_are_warned_of(tmp_path, name):
    with pytest.warns(DataWarning, match="no words|different texts|texts of the training file"):
        records = tiny_run(tmp_path, ODD_TEXTS[name])
    check_records(records)


@pytest.mark.slow
def test_a_whole_run_with_a_label_that_no_document_of_the_pool_has(tmp_path):
    files = write_corpus(tmp_path, CORPORA["one word over and over"])
    with open(files["test"], "a", encoding="utf-8") as test:
        test.write('\n{"text": "w3", "labels": ["nowhere else"]}')
    tree = RUN | {"data": RUN["data"] | files}
    with pytest.warns(DataWarning, match="labels that the training file lacks"):
        records = run(from_dict(tree), tmp_path / "run")
    check_records(records)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sections",
    [
        {"ensemble": {"members": 1}},
        {"loop": {"initial_size": 1, "query_size": 1}},
        {"loop": {"initial_size": 29, "query_size": 1, "rounds": 9}},  # the pool ends first
        {"data": {"max_tokens": 1}},
        {"ensemble": {"batch_size": 1}},
        {"ensemble": {"batch_size": 500}},
        {"strategy": {"anchor_fraction": 1e-9}},
        {"strategy": {"keep_fraction": 1e-9}},
        {"strategy": {"alpha": 0.0, "beta": 0.0}},
    ],
    ids=str,
)
def test_a_whole_run_with_settings_at_the_edge(tmp_path, sections):
    records = tiny_run(tmp_path, CORPORA["one document a label"], **sections)
    check_records(records, 2 if "rounds" in sections.get("loop", {}) else 3)


def test_a_pool_that_is_labelled_from_the_start_is_said(tmp_path):
    with pytest.raises(ProblemError, match="expected at most the 30 documents"):
        tiny_run(tmp_path, CORPORA["K = 1"], loop={"initial_size": 31})


@pytest.mark.slow
def test_a_whole_run_with_ten_thousand_labels(tmp_path):
    documents = [(f"w{n}", [f"label{n * 400 + k}" for k in range(400)]) for n in range(25)]
    check_records(tiny_run(tmp_path, documents, loop={"initial_size": 6, "rounds": 1}), 2)
