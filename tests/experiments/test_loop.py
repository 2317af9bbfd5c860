"""The loop on a tiny built-in corpus: what it records, hides, repeats and compiles."""

import logging
import re
from dataclasses import replace

import jax
import numpy as np
import pytest

from crabjax.config import from_dict
from crabjax.experiments import loop
from crabjax.experiments.problem import ProblemError, prepare
from crabjax.report.records import read_records

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
        records = loop.run(CONFIG, folder)
    finally:
        jax.config.update("jax_log_compiles", False)
        loop.step = step
        logger.removeHandler(compiled)
    return folder, records, per_round


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
        assert not problem.initial[row, chosen].any()
        assert problem.poolable[row, chosen].all()


@pytest.mark.parametrize("program", ["train", "ensemble_logits", "_score_chunk", "_evaluate"])
def test_a_run_compiles_each_program_once(finished, program):
    _, _, per_round = finished
    assert per_round[0].count(program) == 1
    assert per_round[1:] == [[]] * 6


def test_the_same_config_gives_the_same_records(finished, tmp_path):
    _, records, _ = finished
    again = loop.run(CONFIG, tmp_path / "again")
    strip = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    assert strip(again) == strip(records)


def test_the_pool_hides_unrevealed_labels():
    problem = prepare(CONFIG)
    state = loop.State(0, problem.initial)
    logits = np.zeros((2, 2, problem.documents, problem.labels.shape[1]), np.float32)
    for seed, pool in enumerate(loop.pools(CONFIG, problem, state, logits)):
        assert not pool.labels[pool.unlabelled].any()
        assert pool.labels[pool.labelled].any()
        assert not set(pool.labelled) & set(pool.unlabelled)
        assert not set(problem.validation_rows[seed]) & set(pool.unlabelled)


def test_decisions_at_half_are_those_of_the_measures_at_half(tmp_path):
    ensemble = replace(CONFIG.ensemble, keep="last", threshold="half")
    config = replace(CONFIG, ensemble=ensemble, loop=replace(CONFIG.loop, rounds=1))
    for record in loop.run(config, tmp_path / "run"):
        assert record["decided_micro_f1"] == record["micro_f1"]
        assert record["decided_macro_f1"] == record["macro_f1"]
        assert record["threshold"] == 0.5
        assert record["best_epochs"] == [2, 2]
    assert prepare(config).poolable.all()


def test_seeds_differ_in_everything_drawn():
    problem = prepare(CONFIG)
    assert (problem.initial[0] != problem.initial[1]).any()
    assert (problem.poolable[0] != problem.poolable[1]).any()


def test_the_schedule_ends_with_the_pool():
    config = replace(CONFIG, loop=replace(CONFIG.loop, rounds=100, query_size=50))
    assert prepare(config).rounds == 3  # 200 - 40 held out - 20 first: 140 in queries of 50


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("data", {"validation_size": 200}, "data.validation_size: expected fewer than the 200"),
        ("loop", {"initial_size": 161}, "loop.initial_size: expected at most the 160"),
    ],
)
def test_too_few_documents_are_named(section, changes, message):
    config = replace(CONFIG, **{section: replace(getattr(CONFIG, section), **changes)})
    with pytest.raises(ProblemError, match=message):
        prepare(config)


def test_a_misspelt_strategy_fails_before_anything_is_written(tmp_path):
    config = replace(CONFIG, strategy=replace(CONFIG.strategy, name="crap"))
    with pytest.raises(ValueError, match=r"found 'crap'; did you mean crab\?"):
        loop.run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
