"""The loop on a tiny built-in corpus: what it records, hides, repeats and compiles."""

import logging
import re
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.special import expit

from crabjax.config import from_dict
from crabjax.ensemble import predict_logits
from crabjax.experiments import loop
from crabjax.experiments.checkpoint import Checkpoints, Saved
from crabjax.experiments.problem import prepare
from crabjax.experiments.progress import Progress
from crabjax.experiments.seen import document_features, of_seed, pools
from crabjax.experiments.state import first_state
from crabjax.keys import run_key
from crabjax.pool.look import Look
from crabjax.report.records import DECIDED, read_records
from crabjax.strategies import Pool, get_strategy, strategy_names
from crabjax.thresholds import BINS, Unchosen, ensemble_threshold, in_bins

TINY = {
    "data": {
        "validation_size": 40,
        "max_tokens": 16,
        "synthetic": {"documents": 200, "test_documents": 50, "mean_ir": 5.0},
    },
    "model": {"embedding": 4, "kernels": 4, "widths": [2]},
    "devices": {"cache": False, "predict_batch": 64},
    "ensemble": {"members": 2, "keep": "best", "epochs": 3, "batch_size": 20},
    "strategy": {"name": "crab", "per_label": 10, "hard_size": 20},
    "loop": {"rounds": 6, "initial_size": 20, "query_size": 10, "seeds": [0, 1]},
}
CONFIG = from_dict(TINY)
# Of 140, 110, 80, 50 and 20 documents, queries look at up to 60 candidates and at anchors.
SAMPLED = replace(
    CONFIG,
    strategy=replace(CONFIG.strategy, per_label=None, hard_size=None, candidate_limit=60),
    loop=replace(CONFIG.loop, rounds=4, query_size=30),
)


def seen_by(config, problem, state):
    params, _ = loop.fit(config, problem, state)
    return pools(config, problem, params, state, loop.look(config, problem, state))


def recorded_compilations(config, folder):
    """The records of a run, and the names of the programs compiled in each round."""
    compiled, per_round, step = Compiled(), [], loop.step

    def listening_step(*arguments):
        compiled.names = []
        result = step(*arguments)
        per_round.append(compiled.names)
        return result

    logger = logging.getLogger("jax._src.interpreters.pxla")
    logger.addHandler(compiled)
    loop.step = listening_step
    jax.clear_caches()  # what tests before this one compiled would not be seen
    jax.config.update("jax_log_compiles", True)  # in all threads, unlike the context manager
    try:
        records = loop.run(config, folder)
    finally:
        jax.config.update("jax_log_compiles", False)
        loop.step = step
        logger.removeHandler(compiled)
    return records, per_round


class Compiled(logging.Handler):
    """Collects the names of the programs JAX compiles."""

    def __init__(self):
        super().__init__()
        self.names = []

    def emit(self, record):
        if found := re.match(r"Compiling jit\((\w+)\)", record.getMessage()):
            self.names.append(found[1])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A six-round run, and the names of the programs compiled in each round."""
    folder = tmp_path_factory.mktemp("run") / "crab"
    return folder, *recorded_compilations(CONFIG, folder)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """The same of a run whose queries look at a sample, until U is no larger than that."""
    return recorded_compilations(SAMPLED, tmp_path_factory.mktemp("run") / "sampled")


def test_one_record_a_seed_and_round(finished):
    folder, records, _ = finished
    assert read_records(folder / "records.jsonl") == records
    assert [(r["round"], r["seed"]) for r in records] == [(r, s) for r in range(7) for s in (0, 1)]
    assert [r["labelled"] for r in records if r["seed"] == 0] == [20, 30, 40, 50, 60, 70, 80]
    for record in records:
        assert len(record["members"]["micro_f1"]) == 2
        assert len(record["best_epochs"]) == 2
        assert 0 < record["threshold"] < 1
        assert set(record["seconds"]) == {"fit", "predict", "evaluate", "query"}
        assert record["hard_left"] >= 0
    assert records[0]["query"]["candidates"].keys() == {"label_wise", "negative", "hard", "fill"}
    assert records[-1]["selected"] == []


def test_selected_documents_are_new_and_in_the_pool(finished):
    _, records, _ = finished
    problem = prepare(CONFIG)
    for row, seed in enumerate(CONFIG.loop.seeds):
        chosen = np.concatenate([r["selected"] for r in records if r["seed"] == seed]).astype(int)
        assert len(set(chosen)) == 60
        assert not set(chosen) & set(problem.initial[row])
        assert not set(chosen) & set(problem.held_out[row])


@pytest.mark.parametrize("program", ["train", "ensemble_logits", "_score_chunk", "_evaluate"])
def test_a_run_compiles_each_program_once(finished, program):
    _, _, per_round = finished
    assert per_round[0].count(program) == 1
    assert per_round[1:] == [[]] * 6


@pytest.mark.parametrize("program", ["train", "ensemble_logits", "_score_chunk", "_evaluate"])
def test_so_does_one_that_looks_at_a_sample(sampled, program):
    _, per_round = sampled
    assert per_round[0].count(program) == 1
    assert per_round[1:] == [[]] * 4


def test_what_is_left_is_estimated_until_all_of_it_is_looked_at(sampled):
    records, _ = sampled
    counts = ("hard_left", "negative_left")
    for record in records:
        names = counts if record["labelled"] >= 110 else [f"estimated_{one}" for one in counts]
        errors = [] if record["labelled"] >= 110 else [f"{one}_standard_error" for one in counts]
        assert {name for name in record if "_left" in name} == {*names, *errors}
        assert all(0 <= record[name] <= 160 - record["labelled"] for name in names)


@pytest.mark.parametrize(
    ("name", "first"), [*((name, None) for name in strategy_names()), ("crab", 90), ("random", 90)]
)
def test_a_sample_drawn_first_gives_the_picks_of_one_drawn_from_all_predictions(name, first):
    """The oracle predicts every document, and lets the strategy draw its sample from those."""
    config = replace(SAMPLED, strategy=replace(SAMPLED.strategy, name=name, first_look=first))
    problem = prepare(config)
    state, strategy = first_state(problem)._replace(round=1), get_strategy(name)
    params, _ = loop.fit(config, problem, state)
    seen = pools(config, problem, params, state, loop.look(config, problem, state))
    found = loop.query(config, problem, seen, params)
    everything = np.arange(problem.documents)
    for seed, selection in enumerate(found):
        assert seen[seed].rows is not None
        own = of_seed(config, params, seed)
        known = [*problem.initial[seed], *problem.held_out[seed]]
        pool = Pool(
            predict_logits(problem.model, own, problem.inputs, 64),
            problem.labels,
            problem.initial[seed],
            np.setdiff1d(everything, known),
            document_features(config, problem, params, seed, everything),
            state.round,
            problem.rounds,
        )
        key = run_key(config.loop.seeds[seed], "query", state.round)
        expected = strategy(key, pool, config.loop.query_size, config.strategy)
        np.testing.assert_array_equal(selection.indices, expected.indices)
        assert selection.info == expected.info


def test_only_what_is_left_of_a_first_look_gets_document_vectors(monkeypatch):
    config = replace(SAMPLED, strategy=replace(SAMPLED.strategy, name="crab", first_look=90))
    problem = prepare(config)
    state = first_state(problem)._replace(round=1)
    params, _ = loop.fit(config, problem, state)
    seen = pools(config, problem, params, state, loop.look(config, problem, state))
    asked, features = [], document_features
    monkeypatch.setattr(
        loop, "document_features", lambda *given: asked.append(given[-1]) or features(*given)
    )
    loop.query(config, problem, seen, params)
    assert [len(rows) for rows in asked] == [config.strategy.candidate_limit] * len(seen)
    assert all(len(pool.candidates) == 90 for pool in seen)


def test_a_run_goes_on_from_a_checkpoint_of_masks(tmp_path):
    """Until 0.2 checkpoints held a mask of all documents in place of labelled rows."""
    config = replace(SAMPLED, loop=replace(SAMPLED.loop, rounds=2))
    records = loop.run(config, tmp_path / "run")
    problem = prepare(config)
    labelled = np.zeros((2, problem.documents), bool)
    for row, first in enumerate(problem.initial):
        labelled[row, [*first, *records[row]["selected"]]] = True
    folder = tmp_path / "run" / "checkpoints"
    shutil.rmtree(folder)
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(Saved(0, {"labelled": labelled}, records[:2]))
    # What was thought of the queried documents is not known: the threshold may be another.
    differs = {"seconds", "threshold", *DECIDED}
    strip = lambda rows: [{k: v for k, v in row.items() if k not in differs} for row in rows]
    assert strip(loop.run(config, tmp_path / "run")) == strip(records)


class OnDisk:
    """Documents in a file, of which some rows can be had, but never all of them at once."""

    def __init__(self, path, documents):
        np.save(path, documents)
        self.mapped, self.most = np.load(path, mmap_mode="r"), 0
        self.shape, self.dtype = documents.shape, documents.dtype

    def __len__(self):
        return len(self.mapped)

    def __getitem__(self, rows):
        self.most = max(self.most, len(rows))
        return self.mapped[rows]

    def __array__(self, *_, **__):
        raise AssertionError("all of the file was read")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=() if one in ("crab", "random") else pytest.mark.slow)
        for one in strategy_names()
    ],
)
def test_of_documents_on_disk_only_what_is_needed_is_read(tmp_path, name):
    config = replace(
        SAMPLED,
        ensemble=replace(SAMPLED.ensemble, keep="last"),
        strategy=replace(SAMPLED.strategy, name=name),
        loop=replace(SAMPLED.loop, rounds=1, seeds=(0,)),
    )
    problem = prepare(config)
    state, on_disk = first_state(problem), OnDisk(tmp_path / "tokens.npy", problem.inputs)
    picks, progress = [], Progress("on disk", problem.rounds)
    for inputs in (problem.inputs, on_disk):
        with progress.round(0):
            after, _ = loop.step(config, problem._replace(inputs=inputs), state, progress)
        picks.append(after.labelled)
    np.testing.assert_array_equal(*picks)
    assert 50 <= on_disk.most <= 50 + 60 + 17  # labelled in the end, candidates, anchors


def test_the_same_config_gives_the_same_records(finished, tmp_path):
    _, records, _ = finished
    again = loop.run(CONFIG, tmp_path / "again")
    strip = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    assert strip(again) == strip(records)


@pytest.mark.parametrize("config", [CONFIG, SAMPLED])
def test_the_pool_hides_unrevealed_labels(config):
    problem = prepare(config)
    state = first_state(problem)
    for seed, pool in enumerate(seen_by(config, problem, state)):
        rows = np.arange(problem.documents) if pool.rows is None else pool.rows
        assert not pool.labels[pool.unlabelled].any()
        revealed = problem.labels[problem.initial[seed]]
        np.testing.assert_array_equal(pool.labels[pool.labelled], revealed)
        assert pool.labels.sum() == revealed.sum()
        np.testing.assert_array_equal(rows[pool.labelled], problem.initial[seed])
        hidden = {*problem.initial[seed], *problem.held_out[seed]}
        assert not set(rows[pool.unlabelled]) & hidden


def test_decisions_at_half_are_those_of_the_measures_at_half(tmp_path):
    ensemble = replace(CONFIG.ensemble, keep="last", threshold="half")
    config = replace(CONFIG, ensemble=ensemble, loop=replace(CONFIG.loop, rounds=1))
    for record in loop.run(config, tmp_path / "run"):
        assert record["decided_micro_f1"] == record["micro_f1"]
        assert record["decided_macro_f1"] == record["macro_f1"]
        assert record["threshold"] == 0.5
        assert record["best_epochs"] == [2, 2]
    assert prepare(config).held_out.size == 0


NO_LABELS, ALL_LABELS = np.zeros((2, 3), bool), np.ones((5, 3), bool)


def test_the_threshold_is_learnt_where_nothing_is_left_to_label():
    """From the documents to decide on: 0.5 there would be a step in every curve."""
    logits = np.random.default_rng(0).normal(-3, 1, (1, 2, 40, 3)).astype(np.float32)
    none_picked = np.zeros((1, 2, BINS))

    def decided(unlabelled, picked=none_picked, first=NO_LABELS):
        look = Look(unlabelled, unlabelled[:0], len(unlabelled), 0)
        known = np.setdiff1d(np.arange(5), unlabelled)
        pool = Pool(logits[0, :, :5], ALL_LABELS, known, unlabelled, look=look)
        return loop.decide(CONFIG, [pool], picked, logits, [first])[0]

    found = decided(np.arange(0))
    assert found == ensemble_threshold(logits[0], np.arange(40)) < 0.3
    assert decided(np.arange(5)) == ensemble_threshold(logits[0, :, :5], np.arange(5)) != found
    picked = in_bins(np.array([0.9, 0.8, 0.1]))
    assert decided(np.arange(0), picked[None]) == pytest.approx(0.45)
    beside = ensemble_threshold(logits[0, :, :5], np.arange(3), picked, 3)
    assert decided(np.arange(3), picked[None]) == beside

    first = np.arange(6).reshape(2, 3) % 2 == 0  # of five labelled documents, then of two
    wanted = ensemble_threshold(logits[0], np.arange(40), known=Unchosen(first, 5))
    assert decided(np.arange(0), first=first) == wanted < found
    some = logits[0, :, :5], np.arange(3)
    wanted = ensemble_threshold(*some, known=Unchosen(first, 2))
    assert decided(np.arange(3), first=first) == wanted < decided(np.arange(3))
    beside = ensemble_threshold(*some, picked, 3, Unchosen(first, 2))
    assert decided(np.arange(3), picked[None], first) == beside


def test_what_was_thought_of_a_queried_document_is_remembered():
    problem = prepare(CONFIG)
    start, progress = first_state(problem), Progress("test", problem.rounds)
    with progress.round(0):
        after, info = loop.step(CONFIG, problem, start, progress)
    params, _ = loop.fit(CONFIG, problem, start)
    seen = pools(CONFIG, problem, params, start, loop.look(CONFIG, problem, start))
    for own, pool, selection in zip(after.picked, seen, info.selections):
        mean = np.mean([expit(member[selection.indices]) for member in pool.logits], axis=0)
        assert own[0].sum() == mean.size
        assert own[1].sum() == pytest.approx(mean.sum(), rel=1e-5)
        above = own[0, BINS // 4 :].sum()
        assert above == (mean >= 0.25).sum()


def test_a_misspelt_strategy_fails_before_anything_is_written(tmp_path):
    config = replace(CONFIG, strategy=replace(CONFIG.strategy, name="crap"))
    with pytest.raises(ValueError, match=r"found 'crap'; did you mean crab\?"):
        loop.run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
