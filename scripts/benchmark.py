"""Times crabjax on this machine: python scripts/benchmark.py all --preset small"""

import sys

from crabjax.cli.benchmark import main

if __name__ == "__main__":
    sys.exit(main(prog="python scripts/benchmark.py"))
