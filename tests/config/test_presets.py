"""The presets, and the table of docs/method.md that says what they are."""

import re
from pathlib import Path

import pytest
import yaml

from crabjax.config import CONFIG_FOLDER, experiment_settings, from_dict, load_variants
from crabjax.config.presets import PRESETS

METHOD = Path(__file__).resolve().parents[2] / "docs" / "method.md"
NAMES = ("paper", "released", "recommended")
CONDITION = re.compile(r"`([a-z_.]+)`(?: (on|with) (\w+))?")
PAPERS_SETS = ("rcv1", "uklex", "eurlex", "mimic", "rcv1_t10")


def settings_of(preset, model="text_cnn", data="mine"):
    tree = {"preset": preset, "model": {"name": model}, "data": {"name": data}}
    return experiment_settings(from_dict(tree))


def table_rows():
    section = METHOD.read_text(encoding="utf-8").partition("## 13.")[2]
    table = section.partition("These settings differ:")[2].partition("The learning rate of")[0]
    for line in table.strip().splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        key, kind, value = CONDITION.fullmatch(cells[0]).groups()
        where = {"on": {"data": value}, "with": {"model": value}, None: {}}[kind]
        yield key, where, [yaml.safe_load(cell.strip("`")) for cell in cells[1:4]]


ROWS = list(table_rows())


@pytest.mark.parametrize(("key", "where", "values"), ROWS, ids=lambda one: str(one))
def test_the_table_says_what_the_presets_do(key, where, values):
    found = [settings_of(preset, **where)[key] for preset in NAMES]
    assert found == [float(v) if isinstance(f, float) else v for v, f in zip(values, found)]


def test_the_table_leaves_no_difference_out():
    listed = {key for key, _, _ in ROWS}
    stated = {"preset", "data.name", "model.name"}
    for where in (
        {},
        {"model": "distilbert"},
        {"model": "frozen"},
        {"data": "rcv1"},
        {"data": "rcv1_t10_5"},
    ):
        settings = [settings_of(preset, **where) for preset in NAMES]
        for key in settings[0].keys() - stated:
            if len({str(one[key]) for one in settings}) > 1:
                assert key in listed
    assert set(PRESETS) == set(NAMES)


def test_the_recommended_settings_are_the_defaults():
    assert experiment_settings(from_dict({})) == experiment_settings(
        from_dict({"preset": "recommended"})
    )
    assert PRESETS["recommended"].settings == {}


@pytest.mark.parametrize("preset", NAMES)
@pytest.mark.parametrize("model", ["text_cnn", "text_rnn", "distilbert", "frozen"])
def test_learning_rates_suit_the_classifier(preset, model):
    rate = settings_of(preset, model)["ensemble.learning_rate"]
    ours = preset == "recommended" and model == "frozen"
    assert rate == (5e-5 if model == "distilbert" else 1e-2 if ours else 5e-3)


def papers_configs():
    names = sorted(path.name for path in CONFIG_FOLDER.glob("*.yaml"))
    return [name for name in names if name.startswith(PAPERS_SETS)]


@pytest.mark.parametrize("name", papers_configs())
def test_configurations_of_the_papers_data_run_the_paper(name):
    """In their own words, and to the letter; one option makes them ours."""
    assert "\npreset: paper\n" in (CONFIG_FOLDER / name).read_text(encoding="utf-8")
    (config,) = load_variants(name).values()
    expected = settings_of("paper", config.model.name, config.data.name)
    stated = ("data.", "loop.", "model.")
    for key, value in experiment_settings(config).items():
        assert value == expected[key] or key.startswith(stated), key
    (ours,) = load_variants(name, ["preset=recommended"]).values()
    assert ours.strategy == from_dict({}).strategy
    assert ours.ensemble.member_init == "independent"


def test_what_is_stated_wins_over_every_part_of_a_preset():
    tree = {
        "preset": "paper",
        "data": {"name": "rcv1"},
        "model": {"name": "distilbert"},
        "strategy": {"per_label": 7},
        "ensemble": {"learning_rate": 1e-4},
    }
    config = from_dict(tree)
    assert (config.strategy.per_label, config.ensemble.learning_rate) == (7, 1e-4)
    assert config.strategy.hard_size == 300
