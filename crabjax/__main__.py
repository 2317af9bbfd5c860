"""``python -m crabjax``: the ``crabjax`` command."""

import sys

from crabjax.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
