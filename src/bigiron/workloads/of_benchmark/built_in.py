"""Benchmarks whose tests are built in: each a loop of system calls or page faults, as a C file."""

import re

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.mapped import INSTEAD, Mapped, Parameters, checked_fs, mode_of, of_disk
from bigiron.workloads.registry import names

_FOLDERS = {"lmbench3": "lmbench"}
_SAME = {"unixbench/context1": "context_switch1", "unixbench/pipe": "pipe1"}
"""Tests that do what a workload of another name does, where they have none of their own."""

_MOST_NAMED = 30


def will_it_scale(parameters: Parameters, _metric: str) -> Mapped:
    """The test of that name, in the report's mode."""
    test = _test("will-it-scale", parameters)
    if test not in names():
        raise UserError(
            f"will-it-scale's {test} is not built in: give upstream's file, "
            f"--workload-file will-it-scale/tests/{test}.c"
        )
    return Mapped(test, mode_of(parameters))


def hackbench(parameters: Parameters, _metric: str) -> Mapped:
    """By sockets unless pipes are requested, as hackbench does."""
    ipc = parameters.get("ipc", "socket")
    if ipc not in ("pipe", "socket"):
        raise UserError(f"hackbench by way of {ipc!r} (parameter ipc) is not built in: {INSTEAD}")
    return Mapped(f"hackbench/{ipc}", mode_of(parameters))


def fxmark(parameters: Parameters, _metric: str) -> Mapped:
    """The test of that name, on the report's file system; with O_DIRECT those that read or write data."""
    test = _test("fxmark", parameters)
    of_data = test.startswith("D")  # those of metadata read and write nothing
    direct = "-direct" if of_data and parameters.get("directio") == "directio" else ""
    name = f"fxmark/{test}{direct}"
    if name not in names():
        raise UserError(f"fxmark's {test}{direct} is not built in: {INSTEAD}")
    file_system = checked_fs("fxmark", parameters)
    return Mapped(name, "process", file_system, differs=of_disk(parameters))


def of_suite(suite: str, parameters: Parameters, _metric: str) -> Mapped:
    """The workload SUITE/TEST, whatever the report puts between the words of the test's name.

    A suite of one benchmark, such as postmark, has one workload and names no test.
    """
    folder = _FOLDERS.get(suite, suite)
    there = [name for name in names() if name.startswith(f"{folder}/")]
    by_key = {_key(name.partition("/")[2]): name for name in there}
    test = parameters.get("test", "")
    if len(there) == 1 and not test:
        (found,) = there
    elif not test:
        raise _without_test(suite)
    else:
        found = by_key.get(_key(test)) or _SAME.get(f"{folder}/{test}", "")
    if not found:
        known = ", ".join(sorted(name.partition("/")[2] for name in there)[:_MOST_NAMED])
        built_in = f" (those are {known})" if known else ""
        raise UserError(f"{suite}'s {test} is not built in{built_in}: {INSTEAD}")
    return Mapped(found, mode_of(parameters), checked_fs(suite, parameters), differs=of_disk(parameters))


def _key(test: str) -> str:
    """A test's name without what reports write in different ways.

    >>> {_key(test) for test in ("creat-clo", "creat_clo", "creat.clo")}, _key("varmail.f")
    ({'creatclo'}, 'varmail')
    """
    return re.sub(r"[^a-z0-9]", "", test.lower().removesuffix(".f"))


def _test(benchmark: str, parameters: Parameters) -> str:
    if test := parameters.get("test", ""):
        return test
    raise _without_test(benchmark)


def _without_test(benchmark: str) -> UserError:
    return UserError(f"the report does not say which test of {benchmark} was run (parameter test): {INSTEAD}")
