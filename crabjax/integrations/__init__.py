"""Our strategies inside other people's active-learning loops, and theirs inside ours.

One module a package; a package is imported when something of its module is called.
"""

from crabjax.integrations.common import FeaturesNeededError as FeaturesNeededError
from crabjax.integrations.common import MembersNeededError as MembersNeededError
from crabjax.integrations.common import MissingExtraError as MissingExtraError
from crabjax.integrations.common import ask as ask
