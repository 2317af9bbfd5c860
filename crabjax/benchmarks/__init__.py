"""Benchmarks, one module a subcommand of ``scripts/benchmark.py``.

Such a module is named in SUBCOMMANDS and has a docstring whose first line is its help text,
``add_arguments(parser)``, and ``run(arguments) -> rows``: dicts with the same keys, one a line of
the table.
"""

SUBCOMMANDS = ("scoring", "fit", "round")
