"""Workloads: the registry, and one C file per built-in workload."""

from bigiron.workloads.registry import Workload, builtin, find, from_file, names, unbounded

__all__ = ["Workload", "builtin", "find", "from_file", "names", "unbounded"]
