"""Command lines: parse, call, print."""
