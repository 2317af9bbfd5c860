"""Query strategies, found by name; importing this package registers all of them."""

from crabjax.strategies import random as random
from crabjax.strategies.base import EmptyPoolError as EmptyPoolError
from crabjax.strategies.base import Pool as Pool
from crabjax.strategies.base import Selection as Selection
from crabjax.strategies.base import Strategy as Strategy
from crabjax.strategies.base import UnknownStrategyError as UnknownStrategyError
from crabjax.strategies.base import get_strategy as get_strategy
from crabjax.strategies.base import register as register
from crabjax.strategies.base import strategy_names as strategy_names
