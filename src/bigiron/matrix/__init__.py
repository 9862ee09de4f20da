"""Pairs of system calls that commute, and what of them shares cache lines: docs/matrix.md."""
