"""Query strategies, found by name; importing this package registers all of them."""

from crabjax.strategies import adaptive as adaptive
from crabjax.strategies import audi as audi
from crabjax.strategies import bald as bald
from crabjax.strategies import besra as besra
from crabjax.strategies import cmal as cmal
from crabjax.strategies import coreset as coreset
from crabjax.strategies import crab as crab
from crabjax.strategies import entropy as entropy
from crabjax.strategies import epig as epig
from crabjax.strategies import mmc as mmc
from crabjax.strategies import random as random
from crabjax.strategies.base import EmptyPoolError as EmptyPoolError
from crabjax.strategies.base import Selection as Selection
from crabjax.strategies.base import SelectionError as SelectionError
from crabjax.strategies.base import Strategy as Strategy
from crabjax.strategies.base import UnknownStrategyError as UnknownStrategyError
from crabjax.strategies.base import get_strategy as get_strategy
from crabjax.strategies.base import register as register
from crabjax.strategies.base import strategy_names as strategy_names
from crabjax.strategies.common import beliefs_of as beliefs_of
from crabjax.strategies.given import Pool as Pool
from crabjax.strategies.given import PoolError as PoolError
from crabjax.strategies.part import Part as Part
from crabjax.strategies.part import part_of as part_of
from crabjax.strategies.part import with_features as with_features
