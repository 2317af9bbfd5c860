"""Several runs as one experiment, and the folder each writes to."""

import io
import json
import logging

import pytest

from crabjax import progress
from crabjax.config import ConfigError, from_dict, load, to_dict
from crabjax.config.build import merge
from crabjax.experiments.loop import run
from crabjax.experiments.run_folder import RunFolder, RunFolderError
from crabjax.experiments.variants import run_experiment
from crabjax.report.records import read_records
from crabjax.strategies import get_strategy
from crabjax.strategies.base import StrategyWarning

TREE = {
    "data": {
        "validation_size": 40,
        "max_tokens": 16,
        "synthetic": {"documents": 200, "test_documents": 50, "mean_ir": 5.0},
    },
    "model": {"embedding": 4, "kernels": 4, "widths": [2]},
    "devices": {"cache": False, "predict_batch": 64},
    "ensemble": {"members": 2, "epochs": 2, "batch_size": 20},
    "loop": {"rounds": 1, "initial_size": 20, "query_size": 10, "seeds": [0, 1]},
}


def config(**strategy):
    return from_dict(merge(TREE, {"strategy": strategy}))


def picture(path):
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def two_variants():
    return {"random": config(name="random"), "most uncertain": config(name="entropy")}


@pytest.fixture(scope="module")
def compared(two_variants, tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiment")
    run_experiment({"a.yaml": two_variants, "b.yaml": two_variants}, folder)
    return folder


def test_every_variant_has_its_folder_and_the_comparison_its_picture(compared):
    for name in ("a", "b"):
        for variant in ("random", "most_uncertain"):
            assert len(read_records(compared / name / variant / "records.jsonl")) == 4
            assert picture(compared / name / variant / "curve.png")
        assert picture(compared / name / "curve.png")
        summary = json.loads((compared / name / "summary.json").read_text())
        assert summary.keys() == {"random", "most uncertain"}
        assert summary["random"]["labelled"] == [20, 30]
    assert picture(compared / "comparison.png")


def test_a_finished_run_is_only_reported(compared, two_variants, capsys):
    before = (compared / "a" / "random" / "records.jsonl").read_bytes()
    run_experiment({"a.yaml": two_variants}, compared / "a")
    assert (compared / "a" / "random" / "records.jsonl").read_bytes() == before
    printed = capsys.readouterr().out
    assert "micro-F1 area" in printed
    assert f"{two_variants['random'].data.name} most uncertain" in printed.splitlines()


def test_the_areas_told_to_machines_are_those_of_the_table(compared, two_variants, capsys):
    with progress.shown("json", io.StringIO()):
        run_experiment({"a.yaml": two_variants}, compared / "a")
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (done,) = (one for one in told if one.get("event") == "done")
    run_experiment({"a.yaml": two_variants}, compared / "a")
    table = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    for name, area in done["micro_f1_area"].items():
        (row,) = (row for row in table if row[0].strip() == name and len(row) > 2)
        assert next(cell for cell in row[1:] if cell).split()[0] == f"{area:.4f}"


def test_some_variants_alone_keep_their_folders(two_variants, tmp_path):
    with pytest.raises(ConfigError, match=r"--only entropy: a\.yaml has random, most uncertain"):
        run_experiment({"a.yaml": two_variants}, tmp_path, only=["random", "entropy"])
    assert not any(tmp_path.iterdir())
    run_experiment({"a.yaml": two_variants}, tmp_path, only=["most uncertain"])
    assert [one.name for one in tmp_path.iterdir()] == ["most_uncertain"]


def test_one_variant_needs_no_sub_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_experiment({"some/where/alone.yaml": {"random": config(name="random")}})
    assert read_records(tmp_path / "runs" / "alone" / "records.jsonl")


def test_a_misspelt_strategy_fails_before_the_first_run(tmp_path):
    variants = {"random": config(name="random"), "besar": config(name="besar")}
    with pytest.raises(ValueError, match=r"found 'besar'; did you mean besra\?"):
        run_experiment({"a.yaml": variants}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_configs_of_one_name_are_an_error(two_variants):
    with pytest.raises(ConfigError, match="expected files of different names, found a, a"):
        run_experiment({"x/a.yaml": two_variants, "y/a.yaml": two_variants})


def test_fresh_begins_again_and_nothing_else_does(tmp_path):
    first, other = config(name="random"), config(name="entropy")
    with RunFolder(tmp_path, first) as folder:
        folder.check_data("abc")
    (tmp_path / "records.jsonl").write_text("old")
    with (
        pytest.raises(ConfigError, match=r"strategy.name: random there, entropy asked for"),
        RunFolder(tmp_path, other),
    ):
        pass
    assert (tmp_path / "records.jsonl").read_text() == "old"
    with RunFolder(tmp_path, other, fresh=True) as folder:
        assert (tmp_path / "records.jsonl").exists()  # until the data are known to be good
        folder.check_data("abc")
        assert not (tmp_path / "records.jsonl").exists()


def test_other_data_under_the_same_config_is_an_error(tmp_path):
    with RunFolder(tmp_path, config()) as folder:
        folder.check_data("abc")
    with (
        RunFolder(tmp_path, config()) as folder,
        pytest.raises(ConfigError, match="holds a run on other data"),
    ):
        folder.check_data("abd")


def test_settings_that_change_no_record_may_differ(tmp_path):
    begin(tmp_path)
    layout = {"cache": True, "members_at_once": 1, "predict_batch": 7}
    tree = merge(to_dict(config()), {"devices": layout, "output": {"keep_checkpoints": 4}})
    with RunFolder(tmp_path, from_dict(tree)):
        pass


def test_files_of_others_are_never_deleted(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "model.bin").write_text("mine")
    with (
        pytest.raises(RunFolderError, match=r"holds checkpoints, which no run wrote.*--fresh"),
        RunFolder(tmp_path, config()),
    ):
        pass
    assert (tmp_path / "checkpoints" / "model.bin").read_text() == "mine"


def test_two_runs_never_share_a_folder(tmp_path):
    with (
        RunFolder(tmp_path, config()),
        pytest.raises(RunFolderError, match="another run is writing here"),
        RunFolder(tmp_path, config()),
    ):
        pass


def test_the_log_keeps_what_went_wrong(tmp_path):
    def fail():
        with RunFolder(tmp_path, config()) as folder:
            logging.getLogger("crabjax.any").info("before the data were loaded")
            folder.check_data("abc")
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "before the data were loaded" in (tmp_path / "log.txt").read_text()
    assert "ZeroDivisionError" in (tmp_path / "log.txt").read_text()


def test_a_run_that_failed_before_it_began_leaves_nothing_behind(tmp_path):
    with pytest.raises(ZeroDivisionError), RunFolder(tmp_path / "new", config()):
        _ = 1 / 0
    assert not any(tmp_path.iterdir())
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ZeroDivisionError), RunFolder(tmp_path, config()):
        _ = 1 / 0
    assert {one.name for one in tmp_path.iterdir()} <= {"notes.txt", ".lock"}
    begin(tmp_path, config(name="entropy"))  # with the setting corrected


def test_bad_data_do_not_claim_the_folder(tmp_path):
    wrong = from_dict(merge(TREE, {"preset": "paper", "data": {"validation_size": 5000}}))
    with pytest.raises(ValueError, match="validation_size"):
        run(wrong, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"config": 3, "versions": {}}', '{"config": {}}', "\xff"]
)
def test_a_run_json_that_is_not_ours_is_named(tmp_path, content):
    (tmp_path / "run.json").write_text(content, encoding="latin-1")
    with pytest.raises(RunFolderError, match=r"run\.json: damaged, or of another program"):
        RunFolder(tmp_path, config()).__enter__()


def begin(folder, settings=None):
    """Claims a folder, as a run does once its data are loaded."""
    with RunFolder(folder, settings or config()) as opened:
        opened.check_data("abc")


def test_a_run_begun_before_its_encoder_was_known_goes_on(tmp_path):
    begin(tmp_path)
    for found in ("abc-encoder", "abc"):
        with RunFolder(tmp_path, config()) as opened:
            opened.check_data(found)
    with pytest.raises(ConfigError, match="other data"), RunFolder(tmp_path, config()) as opened:
        opened.check_data("abd-encoder")


def test_a_run_does_not_go_on_with_another_encoder(tmp_path):
    with RunFolder(tmp_path, config()) as opened:
        opened.check_data("abc-encoder")
    for other in ("abc-other", "abc"):
        with pytest.raises(ConfigError, match="other data"), RunFolder(tmp_path, config()) as again:
            again.check_data(other)


def rewrite_stored(folder, change):
    """Makes run.json what an earlier version would have written."""
    run = json.loads((folder / "run.json").read_text())
    change(run["config"])
    (folder / "run.json").write_text(json.dumps(run))


def test_a_run_begun_before_a_setting_existed_or_moved_goes_on(tmp_path):
    begin(tmp_path)

    def older(stored):
        del stored["strategy"]["min_support"]  # as if it did not exist then
        stored["ensemble"] |= {"members_at_once": 2, "predict_batch": 9}
        stored["data"]["cache"] = True

    rewrite_stored(tmp_path, older)
    with RunFolder(tmp_path, config()):
        pass


def test_what_was_done_before_a_setting_existed_may_not_be_its_default(tmp_path, monkeypatch):
    begin(tmp_path)
    rewrite_stored(tmp_path, lambda stored: stored["strategy"].pop("min_support"))
    monkeypatch.setitem(load.BEFORE_IT_EXISTED, "strategy.min_support", 3)
    with pytest.raises(ConfigError, match="min_support: 3 there, 1 asked for"):
        RunFolder(tmp_path, config()).__enter__()


def test_a_run_with_a_setting_nobody_knows_any_more_is_refused(tmp_path):
    begin(tmp_path)
    rewrite_stored(tmp_path, lambda stored: stored["strategy"].update(gone=1))
    with pytest.raises(ConfigError, match=r"run\.json: strategy\.gone: unknown key"):
        RunFolder(tmp_path, config()).__enter__()


@pytest.mark.parametrize("name", ["crab", "besra", "bald", "epig"])
def test_one_member_cannot_disagree(name, tmp_path):
    tree = merge(to_dict(config(name=name)), {"ensemble": {"members": 1}})
    wrong = {"a.yaml": {name: from_dict(tree), "gone": config(name="no such")}}
    with (
        pytest.warns(StrategyWarning, match=f"{name} scores by what members disagree on; 1"),
        pytest.raises(ValueError, match="no such"),
    ):
        run_experiment(wrong, tmp_path / "out")
    get_strategy("entropy").check_members(1)
    get_strategy(name).check_members(2)


@pytest.mark.parametrize("key", ["process", "processes"])
def test_half_of_a_device_setting_is_an_error(key, tmp_path, monkeypatch):
    tree = merge(to_dict(config()), {"devices": {key: 1}})
    with pytest.raises(ConfigError, match=rf"devices\.{key}: expected devices\.coordinator"):
        run_experiment({"a.yaml": {"random": from_dict(tree)}}, tmp_path / "out")
    assert not (tmp_path / "out").exists()
