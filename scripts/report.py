"""Draws finished runs: python scripts/report.py runs/demo --output report"""

import sys

from crabjax.cli.report import main

if __name__ == "__main__":
    sys.exit(main(prog="python scripts/report.py"))
