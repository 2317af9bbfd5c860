"""What an experiment can be told: the settings, and how files and command lines state them."""

from crabjax.config.build import ConfigError as ConfigError
from crabjax.config.load import CONFIG_FOLDER as CONFIG_FOLDER
from crabjax.config.load import ConfigWarning as ConfigWarning
from crabjax.config.load import experiment_settings as experiment_settings
from crabjax.config.load import find_config as find_config
from crabjax.config.load import from_dict as from_dict
from crabjax.config.load import from_overrides as from_overrides
from crabjax.config.load import from_stored as from_stored
from crabjax.config.load import load_config as load_config
from crabjax.config.load import load_stored as load_stored
from crabjax.config.load import load_variants as load_variants
from crabjax.config.load import to_dict as to_dict
from crabjax.config.load import to_yaml as to_yaml
from crabjax.config.schema import Config as Config
from crabjax.config.schema import DataConfig as DataConfig
from crabjax.config.schema import DevicesConfig as DevicesConfig
from crabjax.config.schema import EnsembleConfig as EnsembleConfig
from crabjax.config.schema import ModelConfig as ModelConfig
from crabjax.config.schema import StrategyConfig as StrategyConfig
from crabjax.config.schema import SyntheticConfig as SyntheticConfig
