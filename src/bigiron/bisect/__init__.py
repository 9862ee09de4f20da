"""Bisection: which commit, option, package or date changed a count or a time."""
