"""Configurations of earlier versions, those stored with runs, and what of them decides a record."""

import copy

import pytest

from crabjax.config import (
    Config,
    ConfigError,
    ConfigWarning,
    DevicesConfig,
    experiment_settings,
    from_dict,
    from_overrides,
    from_stored,
    load_config,
    load_stored,
    to_dict,
)


def write(folder, text, name="own.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


OLD_NAMES = """
ensemble: {members_at_once: 3, epochs: 7}
data: {cache: false}
variants:
  small: {ensemble.predict_batch: 16}
"""


def test_old_names_are_read_and_the_new_ones_said(tmp_path):
    path = write(tmp_path, OLD_NAMES)
    with pytest.warns(ConfigWarning) as said:
        config = load_config(path, ["ensemble.members_at_once=4"])
    assert config.devices == DevicesConfig(members_at_once=4, predict_batch=16, cache=False)
    assert config.ensemble.epochs == 7
    assert sorted(str(one.message).removeprefix(f"{path}: ") for one in said) == [
        "--set: ensemble.members_at_once is now devices.members_at_once",
        "data.cache is now devices.cache",
        "ensemble.members_at_once is now devices.members_at_once",
        "variants.small: ensemble.predict_batch is now devices.predict_batch",
    ]


def test_the_new_name_wins_over_the_old_one(tmp_path):
    path = write(tmp_path, "data: {cache: false}\ndevices: {cache: true}")
    with pytest.warns(ConfigWarning):
        assert load_config(path).devices.cache
    path = write(tmp_path, "data: {cache: false}\ndevices: auto")
    with pytest.warns(ConfigWarning):
        assert not load_config(path).devices.cache


def test_experiment_settings_leave_out_what_changes_no_record():
    settings = experiment_settings(Config())
    assert settings["data.synthetic.roots"] == 4
    assert not [key for key in settings if key.startswith(("devices", "output"))]


@pytest.mark.parametrize("tree", [None, [], "text"])
def test_what_is_no_tree_of_settings_is_named(tree):
    for read in (from_dict, from_stored):
        with pytest.raises(ConfigError, match="there: expected sections, found"):
            read(tree, "there")


def test_a_stored_file_is_read_without_a_word_whatever_its_age(tmp_path):
    path = write(tmp_path, "ensemble: {members_at_once: 3}\nstrategy: {beta: 2}")
    config = load_stored(path)
    assert (config.devices.members_at_once, config.strategy.beta) == (3, 2.0)
    with pytest.raises(ConfigError, match=r"own\.yaml:1:2: not valid YAML"):
        load_stored(write(tmp_path, "{"))
    with pytest.raises(ConfigError, match="cannot be read"):
        load_stored(tmp_path / "nowhere.yaml")


def test_a_preset_is_what_it_decides():
    assert experiment_settings(from_dict({"preset": "paper"})) != experiment_settings(Config())
    assert "preset" not in experiment_settings(Config())


def test_a_stored_configuration_that_is_gone_is_named_and_nothing_else(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.yaml: cannot be read \(No such file") as caught:
        load_stored(tmp_path / "config.yaml")
    assert "did you mean" not in str(caught.value)


def test_recomputation_is_no_part_of_the_experiment():
    with pytest.warns(ConfigWarning, match=r"model\.rematerialise is now devices\.rematerialise"):
        old = from_overrides(["model.rematerialise=true"])
    assert old.devices.rematerialise is True
    assert experiment_settings(old) == experiment_settings(from_overrides([]))


def test_words_that_nothing_reads_are_no_part_of_an_experiment():
    frozen = {"model": {"name": "frozen"}}
    texts = {"data": {"label_texts": {"C15": "performance"}}}
    unread = {"model": {"name": "frozen", "label_names": False}}
    settings = lambda *trees: experiment_settings(
        from_dict(dict(pair for t in trees for pair in t.items()))
    )
    assert settings(texts, frozen) != settings(frozen)
    assert settings(texts, unread) == settings(unread)


def test_names_and_first_batches_are_no_part_of_what_has_no_vectors():
    """A run of a text classifier from before they existed goes on with its own command."""
    before = from_stored({"model": {"name": "text_cnn"}}, "there")
    now = from_dict({"model": {"name": "text_cnn"}})
    for key in ("model.label_names", "model.lsa", "loop.first_batch", "data.label_texts"):
        assert experiment_settings(before)[key] == experiment_settings(now)[key]


def test_what_was_stored_before_names_and_first_batches_goes_on_without():
    tree = to_dict(Config())
    del tree["model"]["label_names"], tree["data"]["label_texts"], tree["loop"]["first_batch"]
    del tree["model"]["lsa"]
    config = from_stored(tree, "there")
    model, loop = config.model, config.loop
    assert (model.label_names, model.lsa, loop.first_batch) == (False, 0, "random")


def test_what_was_stored_before_shares_fell_and_rare_labels_counted_goes_on_without():
    tree = to_dict(from_overrides(["model.name=frozen"]))
    del tree["strategy"]["keep_least"], tree["strategy"]["rarity"]
    tree["strategy"] |= {"representative_rounds": 0, "beta": 2.0}
    stored = copy.deepcopy(tree)
    strategy = from_stored(tree, "there").strategy
    assert (strategy.keep_least, strategy.rarity, strategy.beta) == (None, 0.0, 2.0)
    assert from_dict(tree, "there").strategy.rarity == 0.5
    assert tree == stored
    tree["strategy"]["representative_rounds"] = 1  # it did something then
    for read in (from_stored, from_dict):
        with pytest.raises(ConfigError, match="representative_rounds"):
            read(tree, "there")


def test_heads_stored_in_part_read_as_they_were():
    strategy = from_stored({"model": {"name": "frozen"}}, "there").strategy
    assert (strategy.attention, strategy.rarity, strategy.keep_least) == (True, 0.0, None)


def test_weights_of_gains_are_no_part_of_strategies_without_gains():
    """Their runs from before go on; those of crab, besra and one's own do not change unseen."""
    changes = ("attention=false", "rarity=0.5", "keep_least=0.1")
    for name, read in (("random", 0), ("epig", 0), ("besra", 1), ("crab", 3), ("mine", 3)):
        settings = [
            experiment_settings(from_overrides([f"strategy.name={name}", f"strategy.{change}"]))
            for change in changes
        ]
        plain = experiment_settings(from_overrides([f"strategy.name={name}"]))
        assert sum(one != plain for one in settings) == read


@pytest.mark.parametrize("change", ["rarity=-0.1", "rarity=1.5", "keep_least=0", "keep_least=2"])
def test_shares_and_powers_have_bounds(change):
    with pytest.raises(ConfigError, match=change.split("=")[0]):
        from_overrides([f"strategy.{change}"])


def test_words_and_names_are_no_part_of_runs_with_own_vectors():
    tree = {"model": {"name": "frozen"}, "data": {"vectors": "v.npy"}}
    before = from_stored({**tree, "loop": {"first_batch": "half_covering"}}, "there")
    now = from_dict(tree)
    for key in ("model.label_names", "model.lsa", "loop.first_batch"):
        assert experiment_settings(before)[key] == experiment_settings(now)[key]
