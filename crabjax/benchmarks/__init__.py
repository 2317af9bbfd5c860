"""Benchmarks, one module a subcommand of ``scripts/benchmark.py``.

A module has a docstring whose first line is its help text, ``add_arguments(parser)``, and
``run(arguments) -> rows``: a list of dicts with the same keys, printed as a table.
"""
