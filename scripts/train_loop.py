"""Runs active-learning experiments: python scripts/train_loop.py --config mimic.yaml"""

import sys

from crabjax.cli.train import main

if __name__ == "__main__":
    sys.exit(main(prog="python scripts/train_loop.py"))
