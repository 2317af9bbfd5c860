"""Other packages' strategies, found by name in a configuration."""

import sys
from abc import ABC, abstractmethod
from types import SimpleNamespace

import numpy as np
import pytest

from crabjax.config import ConfigError, StrategyConfig
from crabjax.integrations import MissingExtraError, by_name
from crabjax.integrations.by_name import register_by_name
from crabjax.keys import run_key
from crabjax.strategies import Pool, base, get_strategy, strategy_names


@pytest.fixture
def pool():
    random = np.random.default_rng(0)
    return Pool.of(
        probabilities=random.random((3, 60, 4)),
        labels=random.integers(0, 2, (20, 4)),
        labelled=np.arange(20),
        features=random.standard_normal((60, 8)),
    )


@pytest.mark.parametrize("name", ["crab", "mine.of_my_own", "small_text", "small_text."])
def test_other_names_are_left_alone(name):
    before = strategy_names()
    register_by_name(name)
    assert strategy_names() == before


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "small_text", None)
    with pytest.raises(MissingExtraError, match=r"crabjax\[small-text\]"):
        register_by_name("small_text.BreakingTies")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "reads_features"),
    [
        ("small_text.CategoryVectorInconsistencyAndRanking", False),
        ("small_text.EmbeddingKMeans", True),
        ("skactiveml.TypiClust", True),
    ],
)
def test_a_strategy_is_found_and_queries(monkeypatch, pool, name, reads_features):
    pytest.importorskip(name.partition(".")[0])
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    register_by_name(name)
    register_by_name(name)  # a second config of the same name is no second strategy
    strategy, config = get_strategy(name), StrategyConfig()
    assert strategy.needs_features(config) == reads_features
    chosen = strategy(run_key(0, "query", 0), pool, 5, config).indices
    assert len(np.unique(chosen)) == 5
    assert (chosen >= 20).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_class_that_is_no_strategy_is_named():
    pytest.importorskip("small_text")
    with pytest.raises(ConfigError, match=r"small_text\.BreakingTies.*found 'small_text\.SklearnD"):
        register_by_name("small_text.SklearnDataset")
    with pytest.raises(ConfigError, match=r"'small_text\.SEALS', which needs base_query_strategy$"):
        register_by_name("small_text.SEALS")


class Base(ABC):
    @abstractmethod
    def query(self): ...


class Ready(Base):
    def __init__(self, *parts, size=3, **options): ...

    def query(self): ...


class Wrapper(Ready):
    def __init__(self, inner, size=3): ...


@pytest.mark.parametrize(
    ("kind", "found"),
    [("Base", "'p.Base'"), ("Gone", "'p.Gone'"), ("Wrapper", "'p.Wrapper', which needs inner")],
)
def test_only_what_can_be_made_without_arguments_is_found(kind, found):
    package = SimpleNamespace(Base=Base, Ready=Ready, Wrapper=Wrapper)
    assert by_name._strategy_class(package, Base, "p.Ready", "Ready") is Ready
    with pytest.raises(ConfigError, match=rf"expected one of p\.Ready, found {found}$"):
        by_name._strategy_class(package, Base, f"p.{kind}", kind)
