"""Benchmarks, one module a subcommand of ``scripts/benchmark.py``.

Such a module is named in SUBCOMMANDS and has a docstring whose first line is its help text,
its settings in ``arguments.py``, and ``run(arguments) -> rows``: dicts with the same keys, one a
line of the table. The time of a row stands in ``seconds`` or ``epoch s``; words and whole numbers
in a row say what was timed, and reports are compared by them.
"""

SUBCOMMANDS = ("scoring", "fit", "prepare", "round", "scaling", "peers", "compile")
ALL = ("scoring", "fit", "round")  # what the subcommand ``all`` runs
