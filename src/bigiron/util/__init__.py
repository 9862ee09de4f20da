"""Utilities for all packages: files, processes, threads, English, typed decoding."""
