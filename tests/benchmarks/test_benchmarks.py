"""Every subcommand end to end, at the smallest sizes."""

import json
import sys

import numpy as np
import pytest

from crabjax.benchmarks import SUBCOMMANDS, arguments, sizes
from crabjax.benchmarks.clock import Clocked, clocked_programs
from crabjax.benchmarks.corpus import random_corpus
from crabjax.benchmarks.scoring import dense_expected_loss_reduction, ensemble_probabilities
from crabjax.cli import benchmark
from crabjax.pool import kmeans, select
from crabjax.scoring import BetaRule, elr, expected_loss_reduction

TINY = {
    "scoring": {
        "candidates": 8, "anchors": 4, "labels": 2, "members": 2, "chunk_size": 8, "repeats": 1,
        "dense_candidates": 2,
    },
    "fit": {
        "labelled": [4], "validation": 2, "epochs": 1, "members": 1, "tokens": 6,
        "vocabulary": 60, "labels": 2,
    },
    "prepare": {"documents": 60, "words": 5, "vocabulary": 40, "labels": 3},
    "round": {
        "repeats": 1,
        "overrides": [
            "devices.cache=false", "data.validation_size=5", "data.max_tokens=6",
            "data.synthetic.documents=320", "data.synthetic.test_documents=5",
            "model.kernels=2", "model.widths=2", "model.embedding=2", "ensemble.epochs=1",
            "ensemble.members=2", "loop.seeds=0", "loop.initial_size=5", "loop.query_size=3",
        ],
    },
    "scaling": {"documents": [3200, 4000], "repeats": 1},
    "peers": {
        "documents": 60, "labels": 3, "members": 2, "query": 4, "labelled": 20, "features": 2,
        "repeats": 1,
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(sizes.PRESETS, "small", TINY)


def run(path, *arguments):
    assert benchmark.main([*arguments, "--preset", "small", "--json", str(path)]) == 0
    return json.loads(path.read_text())["benchmarks"]


def test_scoring_against_the_dense_evaluation(tmp_path, capsys):
    path = tmp_path / "report.json"
    found = run(path, "scoring", "--against", "dense", "--repeats", "2")["scoring"]
    assert found["settings"]["repeats"] == 2  # an option wins over the preset
    rows = found["rows"]
    assert [row["what"] for row in rows] == ["entropy", "kernel", "dense"]
    assert all(row["seconds"] > 0 for row in rows)
    assert "ns/evaluation" in capsys.readouterr().out
    assert benchmark.main(["--compare", str(path), str(path)]) == 0


def test_the_dense_evaluation_is_the_kernel():
    candidates, anchors = ensemble_probabilities(2, 8, 4, 2)
    rule = BetaRule()
    np.testing.assert_allclose(
        dense_expected_loss_reduction(candidates, anchors, rule),
        expected_loss_reduction(candidates, anchors, rule, chunk_size=8),
        atol=1e-6,
    )


def test_all_writes_one_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "ALL", ("scoring", "prepare"))
    results = run(tmp_path / "all.json", "all")
    assert list(results) == ["scoring", "prepare"]
    assert results["prepare"]["rows"][0]["documents"] == 60
    assert results["prepare"]["settings"]["words"] == 5
    assert "documents/s" in capsys.readouterr().out


@pytest.mark.slow
def test_all_runs_every_benchmark(tmp_path):
    assert list(run(tmp_path / "all.json", "all")) == ["scoring", "fit", "round"]


@pytest.mark.slow
def test_a_round_by_phase_and_against_the_dense_score(tmp_path):
    rows = run(tmp_path / "r.json", "round", "--against", "dense")["round"]["rows"]
    ours, dense = (
        {row["phase"]: row for row in rows if row["what"] == what} for what in ("crabjax", "dense")
    )
    assert list(ours) == ["fit", "predict", "evaluate", "query", "round", "fit + predict + query"]
    for row in ours.values():
        parts = row["compiled"] + row["k-means"] + row["driver"]
        assert parts == pytest.approx(row["seconds"])
        assert row["driver"] >= 0
    assert all(ours[phase]["compiled"] > 0 for phase in ("fit", "predict", "query"))
    for one in (ours, dense):
        total = sum(one[phase]["seconds"] for phase in ("fit", "predict", "query"))
        assert one["fit + predict + query"]["seconds"] == pytest.approx(total, rel=1e-6)
    assert dense["fit"]["seconds"] == ours["fit"]["seconds"]
    assert dense["query"]["ratio"] == dense["query"]["seconds"] / ours["query"]["seconds"]


@pytest.mark.slow
def test_scaling_of_a_round_by_documents(tmp_path, monkeypatch):
    monkeypatch.setattr("crabjax.benchmarks.scaling.MODELS", ("frozen",))
    for name, value in {"VECTOR": 4, "LABELS": 3, "TESTED": 5}.items():
        monkeypatch.setattr(f"crabjax.benchmarks.scaling.{name}", value)
    rows = run(tmp_path / "s.json", "scaling")["scaling"]["rows"]
    assert [(row["what"], row["from"], row["to"]) for row in rows] == [
        ("round, frozen", 3200, 3200),
        ("round, frozen", 3200, 4000),
    ]
    assert rows[0]["ratio"] == 1
    assert all(row["seconds"] > 0 and row["peak MB"] > 50 for row in rows)


def test_peers_that_are_not_installed_are_left_out(tmp_path, monkeypatch, capsys):
    for package in ("small_text", "skactiveml", "modAL", "baal"):
        monkeypatch.setitem(sys.modules, package, None)
    rows = run(tmp_path / "p.json", "peers")["peers"]["rows"]
    assert [row["package"] for row in rows] == ["crabjax"] * len(rows)
    assert {"crab", "besra", "random"} <= {row["strategy"] for row in rows}
    printed = capsys.readouterr().out
    assert "note: small-text is left out" in printed
    assert "pip install 'crabjax[skactiveml]'" in printed


def test_a_benchmark_must_be_named(capsys):
    with pytest.raises(SystemExit):
        benchmark.main([])
    assert "expected a benchmark" in capsys.readouterr().err


def test_clocked_programs_are_those_the_package_compiles():
    calls = []
    original = elr._score_chunk
    candidates, anchors = ensemble_probabilities(2, 8, 4, 2)
    with clocked_programs(calls.append):
        assert isinstance(elr._score_chunk, Clocked)
        assert isinstance(select.kmeans_picks, Clocked)
        assert elr._score_chunk.lower  # what a jitted function has besides being called
        clocked = expected_loss_reduction(candidates, anchors, chunk_size=8)
        kmeans.kmeans_picks(np.eye(3, dtype=np.float32), 3, np.random.default_rng(0))
    assert elr._score_chunk is original
    assert [kind for kind, start, stop in calls if stop >= start] == ["compiled", "k-means"]
    np.testing.assert_array_equal(
        clocked, expected_loss_reduction(candidates, anchors, chunk_size=8)
    )


def test_the_corpus_has_the_sizes_asked_for():
    tokens, labels = random_corpus(50, tokens=12, vocabulary=100, labels=3)
    assert tokens.shape == (50, 12)
    assert labels.shape == (50, 3)
    assert tokens.max() < 100
    padding = tokens == 0
    assert (padding[:, 1:] >= padding[:, :-1]).all()  # padding only at the end


def test_what_can_be_asked_for_is_what_there_is():
    assert list(arguments.ADD) == list(SUBCOMMANDS)
