"""Settings: YAML in and out, inheritance, variants, and every kind of mistake by name."""

import pytest

from crabjax.config import (
    CONFIG_FOLDER,
    Config,
    ConfigError,
    StrategyConfig,
    find_config,
    from_dict,
    from_overrides,
    from_stored,
    load_config,
    load_variants,
    to_dict,
    to_yaml,
)
from crabjax.config.build import merge


def write(folder, text, name="own.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_gives_the_defaults(tmp_path):
    assert load_config(write(tmp_path, "")) == Config()


def test_yaml_round_trip(tmp_path):
    text = "loop: {seeds: [3, 4], rounds: 2}\nensemble: {learning_rate: 5e-2}\n"
    config = load_config(write(tmp_path, text))
    assert config.loop.seeds == (3, 4)
    assert config.ensemble.learning_rate == 0.05
    assert load_config(write(tmp_path, to_yaml(config), "again.yaml")) == config
    assert from_dict(to_dict(config)) == config


def test_overrides_win_and_are_typed(tmp_path):
    path = write(tmp_path, "loop: {rounds: 2}")
    changes = ["loop.rounds=7", "loop.seeds=0,1", "strategy.attention=false", "data.name=01"]
    config = load_config(path, changes)
    assert config.loop.rounds == 7
    assert config.loop.seeds == (0, 1)
    assert config.strategy.attention is False
    assert config.data.name == "01"
    assert load_config(path, ["data.label_separator= "]).data.label_separator == " "


def test_extends_states_only_the_differences(tmp_path):
    write(tmp_path, "loop: {rounds: 2, query_size: 9}", "base.yaml")
    config = load_config(write(tmp_path, "extends: base.yaml\nloop: {rounds: 3}"))
    assert (config.loop.rounds, config.loop.query_size) == (3, 9)


def test_extending_itself_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"own\.yaml: extends itself"):
        load_config(write(tmp_path, "extends: own.yaml"))


def test_variants_share_the_rest(tmp_path):
    text = """
loop: {rounds: 4}
variants:
  plain: {}
  no attention: {strategy.attention: false, loop.rounds: 5}
"""
    variants = load_variants(write(tmp_path, text), ["loop.query_size=8"])
    assert list(variants) == ["plain", "no attention"]
    assert variants["plain"].loop.rounds == 4
    assert not variants["no attention"].strategy.attention
    assert variants["no attention"].loop.rounds == 5
    assert {config.loop.query_size for config in variants.values()} == {8}
    with pytest.raises(ConfigError, match="expected one run, found the variants plain"):
        load_config(tmp_path / "own.yaml")


def test_the_preset_gives_way_to_what_is_stated(tmp_path):
    path = write(tmp_path, "preset: paper\nstrategy: {per_label: 7}")
    config = load_config(path, ["strategy.hard_size=9"])
    assert (config.strategy.per_label, config.strategy.hard_size) == (7, 9)
    assert (config.strategy.cluster, config.ensemble.member_init) == ("gains", "same")
    assert from_dict(to_dict(config)) == config


def test_a_preset_may_be_chosen_by_a_variant_or_on_the_command_line(tmp_path):
    path = write(tmp_path, "variants: {ours: {}, paper: {preset: paper}}")
    ours, paper = load_variants(path).values()
    assert ours.strategy == StrategyConfig()
    assert paper.strategy.per_label == 100
    assert load_config(write(tmp_path, ""), ["preset=paper"]) == paper
    with pytest.raises(ConfigError, match="preset: expected one of recommended, paper"):
        load_config(path, ["preset=ours"])


def test_several_strategies_in_one_override(tmp_path):
    variants = load_variants(write(tmp_path, ""), ["strategy.name=crab,besra,random"])
    assert [config.strategy.name for config in variants.values()] == ["crab", "besra", "random"]
    assert list(variants) == ["crab", "besra", "random"]


def test_an_empty_section_of_a_child_changes_nothing(tmp_path):
    write(tmp_path, "loop: {rounds: 2}\ndevices: {members_at_once: 3}", "base.yaml")
    child = "extends: base.yaml\nloop:\ndevices: {members_at_once: null}"
    config = load_config(write(tmp_path, child))
    assert config.loop.rounds == 2
    assert config.devices.members_at_once is None


def test_devices_can_be_left_to_the_run(tmp_path):
    write(tmp_path, "devices: {ensemble: 5, pool: 2}", "base.yaml")
    assert load_config(tmp_path / "base.yaml").devices.pool == 2
    for text in ("devices: auto", "extends: base.yaml\ndevices: auto"):
        assert load_config(write(tmp_path, text)).devices.ensemble is None


def test_a_strategy_override_keeps_variants_that_differ_in_more(tmp_path):
    text = "variants: {plain: {}, bare: {strategy.attention: false}}"
    path = write(tmp_path, text)
    variants = load_variants(path, ["strategy.name=besra"])
    assert [config.strategy.name for config in variants.values()] == ["besra", "besra"]
    assert not variants["bare"].strategy.attention
    with pytest.raises(ConfigError, match="expected one name, as the file has the variants plain"):
        load_variants(path, ["strategy.name=besra,crab"])
    path = write(tmp_path, "variants: {a: {strategy.name: random}, b: {preset: paper}}")
    with pytest.raises(
        ConfigError, match="strategies of their own; --only NAME chooses among a, b"
    ):
        load_variants(path, ["strategy.name=crab"])


def test_a_missing_parent_names_the_child(tmp_path):
    with pytest.raises(ConfigError, match=r"own\.yaml: extends: nosuch\.yaml: no such"):
        load_config(write(tmp_path, "extends: nosuch.yaml"))


MISTAKES = {
    "loop: {query_sise: 3}": r"own.yaml: loop.query_sise: unknown key; did you mean "
    r"loop.query_size\?",
    "loops: {rounds: 3}": r"own.yaml: loops: unknown key; did you mean loop",
    "query_size: 3": r"query_size: unknown key; did you mean loop.query_size\?",
    "zzz: 3": r"zzz: unknown key; sections are data, model, ensemble, strategy, loop, devices",
    "loop: {query_size: 0}": r"loop.query_size: expected an integer at least 1, found 0",
    "loop: {query_size: many}": r"loop.query_size: expected an integer at least 1, found 'many'",
    "loop: {query_size: 1.5}": r"loop.query_size: expected an integer at least 1, found 1.5",
    "loop: {query_size: true}": r"loop.query_size: expected an integer at least 1, found True",
    "loop: {seeds: []}": r"loop.seeds: expected a list, each an integer",
    "loop: {seeds: [-1]}": r"loop.seeds: expected a list, each an integer at least 0",
    "loop: {seeds: [4294967296]}": r"loop.seeds: expected a list, each an integer .*at most",
    "loop: {seeds: [1, 1]}": r"own.yaml: loop.seeds: expected distinct seeds, found 1 twice",
    "strategy: {alpha: -0.1}": r"strategy.alpha: expected a number at least 0.0, found -0.1",
    "strategy: {alpha: .nan}": r"strategy.alpha: expected a number at least 0.0, found nan",
    "strategy: {attention: 1}": r"strategy.attention: expected true or false, found 1",
    "strategy: {decay: square}": r"strategy.decay: expected one of polynomial, linear",
    "ensemble: {learning_rate: 0}": r"ensemble.learning_rate: expected a number above 0.0",
    "ensemble: 0": r"ensemble: expected a section, found 0",
    "ensemble: 3": r"ensemble: expected a section, found 3",
    "- 1": r"own.yaml: expected sections, found \[1\]",
    "loop: {rounds: 3": r"own\.yaml:1:17: not valid YAML",
    "variants: 3": r"variants: expected a mapping from name to overrides",
    "variants: {a: 3}": r"variants.a: expected a mapping, found 3",
    "{loop: {round: 3}, variants: {a: {}}}": r"own.yaml: loop.round: unknown key",
    "variants: {a: {loop.round: 3}}": r"variants.a: loop.round: unknown key; did you mean",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named(tmp_path, text):
    with pytest.raises(ConfigError, match=MISTAKES[text]):
        load_config(write(tmp_path, text))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("loop.rounds", r"--set: expected section.key=value, found 'loop.rounds'"),
        ("loop.round=3", r"--set: loop.round: unknown key; did you mean loop.rounds\?"),
        ("loop.rounds={", r"--set: loop.rounds: expected an integer, found '{'"),
        ("loop.seeds=0,[1", r"--set: loop.seeds: expected a list, each an integer, found"),
        ("strategy.name=crab,", r"--set: strategy.name: expected names, found 'crab,'"),
        ("loop=3", r"--set: loop: unknown key"),
        ("loop.rounds=0", r"--set: loop.rounds: expected an integer at least 1, found 0"),
    ],
)
def test_mistaken_overrides_are_named(tmp_path, override, message):
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path, ""), [override])


def test_patience_may_exceed_epochs(tmp_path):
    config = load_config(write(tmp_path, "ensemble: {epochs: 3, patience: 30}"))
    assert config.ensemble.patience == 30


def test_a_missing_file_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"demoo.yaml: no such .*did you mean demo.yaml\?"):
        find_config("demoo.yaml")


@pytest.mark.parametrize(
    "name", sorted(p.relative_to(CONFIG_FOLDER).as_posix() for p in CONFIG_FOLDER.rglob("*.yaml"))
)
def test_every_shipped_config_loads_and_opens_with_its_command(name):
    assert load_variants(name)
    first = (CONFIG_FOLDER / name).read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(f"# python scripts/train_loop.py --config {name}")


SEVEN = {"crab", "besra", "audi", "adaptive", "mmc", "cmal", "random"}


@pytest.mark.parametrize(
    "path", sorted((CONFIG_FOLDER / "figures").glob("*.yaml")), ids=lambda p: p.stem
)
def test_figures_are_those_of_the_paper(path):
    """docs/method.md 8 and 11."""
    figure = path.stem
    backbone = "text_rnn" if "textrnn" in figure else "text_cnn"
    epochs, rate = 80, 5e-3
    if figure.startswith("learning_curves") and "text" not in figure:
        backbone, epochs, rate = "distilbert", 80, 5e-5
    variants = load_variants(path)
    for name, config in variants.items():
        assert (config.model.name, config.ensemble.epochs) == (backbone, epochs), name
        assert (config.ensemble.learning_rate, config.ensemble.patience) == (rate, 30), name
        assert (config.ensemble.member_init, config.ensemble.members) == ("same", 5), name
        assert (config.loop.query_size, len(config.loop.seeds)) == (100, 5), name
        assert config.strategy.per_label == (50 if config.data.name == "rcv1" else 100), name
        assert (config.strategy.cluster, config.strategy.candidate_limit) == ("gains", None), name
        assert (config.strategy.keep_fraction, config.ensemble.schedule) == (1.0, "constant"), name
        assert (config.strategy.keep_least, config.strategy.rarity) == (None, 0.0), name
        assert config.strategy.attention == (name != "without correlation attention"), name
        synthetic = config.data.name.startswith("rcv1_t10")
        assert config.data.validation is None, name
        assert config.data.validation_size == (200 if synthetic else 1000), name
        if figure != "hard_size":
            assert config.strategy.hard_size == (200 if synthetic else 300), name
    if figure.startswith(("learning_curves", "imbalance", "selected")):
        assert {config.strategy.name for config in variants.values()} == SEVEN
    if figure.startswith("ablation"):
        whole, without = variants.values()
        assert whole.strategy != without.strategy
        assert whole.data.name == "mimic"


def test_variants_written_as_sections_keep_their_strategies(tmp_path):
    text = "variants: {a: {strategy: {name: crab, beta: 1}}, b: {strategy: {name: random}}}"
    with pytest.raises(ConfigError, match="the variants of the file have strategies of their own"):
        load_variants(write(tmp_path, text), ["strategy.name=besra"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loop: {rounds: 2}\nloop: {rounds: 3}\n", r"x\.yaml:2:1: .*the key 'loop' is given twice"),
        ("loop: {rounds: 2, rounds: 3}\n", r"x\.yaml:1:19: .*the key 'rounds' is given twice"),
        ("loop: {rounds: 2\n", r"x\.yaml:2:1: not valid YAML: .*expected"),
        ("{[1]: 2}\n", r"x\.yaml:1:2: .*expected a plain word as a key"),
        ("a: !!python/object:os.system {}\n", r"x\.yaml:1:4: not valid YAML: could not determine"),
        ("a: &a {b: *a}\n", r"x\.yaml:1:4: not valid YAML"),
    ],
)
def test_yaml_that_cannot_be_meant_is_named_in_one_line(tmp_path, text, message):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(tmp_path / "x.yaml")
    assert "\n" not in str(caught.value)


def test_aliases_of_aliases_are_looked_at_once(tmp_path):
    """Forty lists, each holding the one before twice: 2^40 values to whoever follows them all."""
    lists = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    (tmp_path / "x.yaml").write_text(f"a0: &a0 [1]\n{lists}")
    with pytest.raises(ConfigError, match="a0: unknown key"):
        load_config(tmp_path / "x.yaml")


def test_anchors_and_merges_of_yaml_still_work(tmp_path):
    (tmp_path / "x.yaml").write_text("loop: &a {rounds: 2}\nvariants: {b: {loop: {<<: *a}}}\n")
    assert load_config(tmp_path / "x.yaml").loop.rounds == 2


def test_a_strategy_given_twice_is_an_error():
    with pytest.raises(ConfigError, match=r"expected each name once, found 'crab, crab'"):
        load_variants("demo.yaml", ["strategy.name=crab, crab"])


def test_the_platform_decides_the_precision_that_is_left_to_it():
    model = from_overrides([]).model
    assert model.precision == "auto"
    assert [model.on(one).precision for one in ("cpu", "gpu", "tpu")] == [
        "float32",
        "bfloat16",
        "bfloat16",
    ]
    stated = from_overrides(["model.precision=bfloat16"]).model
    assert stated.on("cpu") is stated


def test_words_for_labels_are_a_mapping(tmp_path):
    path = write(tmp_path, 'data: {label_texts: {C15: performance, "15.1": earnings}}')
    config = load_config(path, ["data.label_texts={M13: money markets}"])
    expected = {"C15": "performance", "15.1": "earnings", "M13": "money markets"}
    assert config.data.label_texts == expected
    assert from_stored(to_dict(config), "there") == config
    for wrong in ("{1: one}", "{a: 1}", "[a]", "a"):
        with pytest.raises(ConfigError, match="a mapping from text to text or nothing, found"):
            from_overrides([f"data.label_texts={wrong}"])


def test_labels_that_are_numbers_need_quotes():
    with pytest.raises(ConfigError, match=r"label_texts: .* \{15: 'x'\}; numbers .* in quotes$"):
        from_overrides(["data.label_texts={15: x}"])
    for wrong in ({"data": {"label_texts": {"a": ["b"]}}}, {"loop": {"rounds": {"a": 1}}}):
        with pytest.raises(ConfigError) as error:
            from_dict(wrong)
        assert "quotes" not in str(error.value)


def test_labels_with_dots_stay_whole_in_a_variant_whose_strategy_is_named(tmp_path):
    text = 'variants: {told: {data.label_texts: {"15.1": earnings}}, short: {loop: {rounds: 3}}}'
    told, short = load_variants(write(tmp_path, text), ["strategy.name=random"]).values()
    assert told.data.label_texts == {"15.1": "earnings"}
    assert short.loop.rounds == 3
    assert {told.strategy.name, short.strategy.name} == {"random"}


def test_a_mapping_is_taken_back_by_null_and_an_empty_section_changes_nothing():
    base = {"data": {"label_texts": {"C15": "performance"}, "name": "news"}}
    assert merge(base, {"data": {"label_texts": None}}) == {
        "data": {"label_texts": None, "name": "news"}
    }
    assert merge(base, {"data": None}) == base
    words = {"data": {"label_texts": {"M13": "money"}}}
    assert merge(base, words)["data"]["label_texts"] == {"C15": "performance", "M13": "money"}
