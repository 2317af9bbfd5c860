"""Labels your own texts: python scripts/query.py --help"""

import sys

from crabjax.cli.label import main

if __name__ == "__main__":
    sys.exit(main(prog="python scripts/query.py"))
