"""Makes data sets in the common format: python scripts/prepare_data.py --help"""

import sys

from crabjax.cli.prepare import main

if __name__ == "__main__":
    sys.exit(main(prog="python scripts/prepare_data.py"))
