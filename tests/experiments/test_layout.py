"""What is said of a run before it begins is what the run then does."""

import json

import pytest

from crabjax.cli.main import main
from crabjax.config import from_dict
from crabjax.experiments import loop
from crabjax.experiments.layout import layout
from crabjax.experiments.problem import prepare
from crabjax.experiments.state import first_state


@pytest.fixture
def tree(tmp_path):
    for name, size in {"train": 60, "validation": 20, "test": 10}.items():
        lines = [{"text": f"word{n % 7} word{n % 5}", "labels": [f"{n % 3}"]} for n in range(size)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "validation", "test")}
    return {
        "data": {**files, "max_tokens": 6},
        "model": {"embedding": 4, "kernels": 4, "widths": [2]},
        "devices": {"cache": False},
        "ensemble": {"members": 2, "epochs": 1},
        "loop": {"initial_size": 5, "query_size": 5, "rounds": 1, "seeds": [0, 1]},
    }


@pytest.mark.parametrize(("keep", "read", "fitted"), [("best", 80, 60), ("last", 60, 20)])
def test_a_layout_counts_the_documents_of_the_run(tree, keep, read, fitted, monkeypatch):
    tree["ensemble"]["keep"] = keep
    config = from_dict(tree)
    sizes, problem = layout(config).sizes, prepare(config)
    assert (len(problem.inputs), sizes.inputs.shape[0]) == (read, read)
    given = []

    def caught(model, settings, keys, inputs, *rest, **devices):
        given.append(len(inputs))

    monkeypatch.setattr(loop, "fit_ensemble", caught)
    loop.fit(config, problem, first_state(problem))
    assert (given, sizes.fitted) == ([fitted], fitted)


def test_variants_that_keep_other_epochs_are_told_apart(tree, tmp_path, capsys):
    tree["variants"] = {keep: {"ensemble.keep": keep} for keep in ("best", "last")}
    (tmp_path / "both.yaml").write_text(json.dumps(tree))
    assert main(["devices", "--config", str(tmp_path / "both.yaml")]) == 0
    said = capsys.readouterr().out
    assert "data       80 documents" in said
    assert "data       60 documents" in said
    assert "one program" not in said
