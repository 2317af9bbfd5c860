"""Command lines: parse, call, print. What computes is imported once arguments are understood."""
