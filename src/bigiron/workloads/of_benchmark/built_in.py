"""Benchmarks whose tests are built in: each a loop of system calls or page faults, as a C file."""

import re
from dataclasses import replace

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark import aim
from bigiron.workloads.of_benchmark.dbench import dbench
from bigiron.workloads.of_benchmark.mapped import (
    INSTEAD,
    Mapped,
    Parameters,
    checked_fs,
    in_bytes,
    mode_of,
    of_disk,
    size,
)
from bigiron.workloads.registry import names

_FOLDERS = {"lmbench3": ("lmbench",), "aim7": ("aim7", "aim9"), "reaim": ("reaim", "aim9")}
"""Where the tests of a suite are: aim7 and reaim have the tests of aim9, and more."""

_SAME = {
    "filebench/ratelimcopyfiles.f": Mapped("filebench/copyfiles", differs=("no limit of its rate",)),
    "unixbench/context1": Mapped("context_switch1"),
    "unixbench/pipe": Mapped("pipe1"),
    "vm-scalability/mremap-xread-rand-mt": Mapped(
        "vm-scalability/mmap-xread-rand", differs=("no mremap() that enlarges the mapping",)
    ),
    "vm-scalability/truncate-seq": Mapped("vm-scalability/truncate", tasks=1),
}
"""Tests that do what a workload of another name does, where they have none of their own."""

_ON_DISK = ("lru-file", "mmap", "mremap", "msync", "truncate")
"""How the tests of vm-scalability begin that have files."""

_OF_VM_SCALABILITY = "xfs"
"""The file system on which its scripts make them (hw_vars: mkfs.xfs), which reports do not name."""

_MOST_NAMED = 30

_THREADS = {
    "createfiles": 16, "filemicro_delete": 16, "filemicro_statfile": 20, "fileserver": 50,
    "fivestreamread": 5, "fivestreamreaddirect": 5, "fivestreamwrite": 5, "fivestreamwritedirect": 5,
    "listdirs": 16, "makedirs": 16, "openfiles": 16, "randomfileaccess": 5, "randomrw": 2, "removedirs": 16,
    "varmail": 16, "webproxy": 100, "webserver": 100,
}  # fmt: skip
"""Threads of filebench's only process, whatever the machine, where its personality has more than one."""

_OF_FSMARK = "8K"
_FILES, _PER_DIRECTORY = 1024, 256  # fsmark.c
_PAGE, _MOST_FILES = 4096, 1_000_000  # of lkp-tests: programs/fsmark/run
_SYNC, _NO_SYNC = "fsyncBeforeClose", "NoSync"

_OF_HACKBENCH = (
    ("fds", "20", "groups of {} senders and as many receivers"),
    ("datasize", "100", "messages of {} bytes"),
)
"""Parameters of reports, what the workload has, and how to say it."""

_MIXES = (
    "aim9", "all_utime", "alltests", "compute", "custom", "dbase", "disk", "five_sec", "fserver",
    "high_systime", "long", "new_dbase", "new_fserver", "shared", "short",
)  # fmt: skip
"""The work files of reaim."""


def will_it_scale(parameters: Parameters, _metric: str) -> Mapped:
    """The test of that name, in the report's mode."""
    test = given_test("will-it-scale", parameters)
    if test not in names():
        raise UserError(
            f"will-it-scale's {test} is not built in: give upstream's file, "
            f"--workload-file will-it-scale/tests/{test}.c"
        )
    return Mapped(test, mode_of(parameters))


def hackbench(parameters: Parameters, _metric: str, name: str = "hackbench") -> Mapped:
    """By pipes or by sockets, as the report says: the robot runs both. Sockets and processes are defaults."""
    ipc = parameters.get("ipc", "socket")
    if ipc not in ("pipe", "socket"):
        raise UserError(f"{name} by way of {ipc!r} (parameter ipc) is not built in: {INSTEAD}")
    defaults = {"ipc": "sockets", "mode": "processes"}
    differs = [
        f"{what}, {name}'s default, as the report gives no {key}"
        for key, what in defaults.items()
        if key not in parameters
    ]
    for key, here, what in _OF_HACKBENCH:
        given = size(parameters, key) or here
        if given != here:
            differs.append(f"{what.format(here)} instead of {given}")
    return Mapped(f"hackbench/{ipc}", mode_of(parameters), differs=tuple(differs))


def fxmark(parameters: Parameters, metric: str) -> Mapped:
    """The test of that name, on the report's file system; with O_DIRECT those that read or write data."""
    test = given_test("fxmark", parameters)
    if test == "dbench_client":
        return dbench(parameters, metric)
    of_data = test.startswith("D")  # those of metadata read and write nothing
    direct = "-direct" if of_data and parameters.get("directio") == "directio" else ""
    name = f"fxmark/{test}{direct}"
    if name not in names():
        raise UserError(f"fxmark's {test}{direct} is not built in: {INSTEAD}")
    file_system = checked_fs("fxmark", parameters)
    return Mapped(name, "process", file_system, differs=of_disk(parameters))


def filebench(parameters: Parameters, metric: str) -> Mapped:
    """The personality, with the number of threads that it has."""
    found = of_suite("filebench", parameters, metric)
    personality = found.workload.partition("/")[2]
    return replace(found, mode="thread", tasks=_THREADS.get(personality, 1))


def fsmark(parameters: Parameters, metric: str) -> Mapped:
    """Files of one size, whatever the report's, and one way to sync them, or none."""
    found = of_suite("fsmark", parameters, metric)
    differs = list(found.differs)
    given, sync = size(parameters, "filesize") or _OF_FSMARK, parameters.get("sync_method", _SYNC)
    if in_bytes(given) != in_bytes(_OF_FSMARK):
        differs.append(f"files of {_OF_FSMARK}B instead of {given}B")
    if sync not in (_SYNC, _NO_SYNC):
        differs.append(f"{_SYNC} instead of {sync}")
    files = _files_of_fsmark(parameters, given)
    if files != _FILES:
        differs.append(f"{_FILES:,} files for each task" + (f" instead of {files:,}" if files else ""))
    if "filesize" in parameters:
        per_directory = parameters.get("nr_files_per_directory", "").removesuffix("fpd")
        if per_directory != str(_PER_DIRECTORY):
            differs.append(f"{_PER_DIRECTORY} files per directory instead of {per_directory or 'all in one'}")
    return replace(found, differs=tuple(differs))


def _files_of_fsmark(parameters: Parameters, filesize: str) -> int | None:
    """How many files each of the report's tasks makes, as the robot's script computes it; None: not known.

    >>> _files_of_fsmark({"test_size": "60G", "nr_threads": "32t", "iterations": "1x"}, "16M")
    120
    """
    whole = in_bytes(size(parameters, "test_size") or "0")
    tasks, iterations = _number(parameters, "nr_threads", "t"), _number(parameters, "iterations", "x")
    if not (whole and tasks and iterations):
        return None
    return min(max(whole // max(in_bytes(filesize), _PAGE) // tasks // iterations, 1), _MOST_FILES)


def postmark(parameters: Parameters, metric: str) -> Mapped:
    """Fewer files than the report's, for each of its tasks: it has one."""
    found = of_suite("postmark", parameters, metric)
    files, directories = _number(parameters, "number", "n"), _number(parameters, "subdirs", "d")
    others = f" instead of {files:,} in {directories:,}" if files and directories else ""
    return replace(found, differs=(*found.differs, f"256 files in 25 directories for each task{others}"))


def _number(parameters: Parameters, key: str, unit: str) -> int | None:
    """A positive number that the robot writes with a letter: 32t, 1x, 1000n."""
    given = parameters.get(key, "").removesuffix(unit)
    return int(given) or None if given.isdecimal() and len(given) <= len("1000000") else None


def reaim(parameters: Parameters, metric: str) -> Mapped:
    """A test that aim9 has, too. Most reports are of a work file, a mix of such tests."""
    test = parameters.get("test", "")
    if test not in _MIXES:
        return of_suite("reaim", parameters, metric)
    of_disk = "disk_rr, disk_rw, disk_rd, disk_wrt, disk_cp, disk_src, sync_disk_rw"
    raise UserError(
        f"reaim's {test} is a mix of many tests. Take the one whose functions the report's profile shows, "
        f"such as {of_disk}: --workload aim9/TEST (`bigiron workload list`); or {INSTEAD}"
    )


def of_suite(suite: str, parameters: Parameters, metric: str) -> Mapped:
    """The workload SUITE/TEST, whatever the report puts between the words of the test's name.

    A test of threads has -mt at its end. Where the report names no test, the metric may name it:
    aim9.disk_src.ops_per_sec. A suite of one benchmark, such as postmark, names none.
    """
    folders = _FOLDERS.get(suite, (suite,))
    there = [name for folder in folders for name in sorted(names()) if name.startswith(f"{folder}/")]
    by_key = {_key(name.partition("/")[2]): name for name in reversed(there)}
    test = parameters.get("test", "")
    of_threads = test.removesuffix("-mt")
    called = (test, of_threads, parameters.get("sync_method", ""), *metric.split("."), "" if test else suite)
    named = next((by_key[key] for key in map(_key, called) if key in by_key), "")
    found = Mapped(named) if named else _SAME.get(f"{suite}/{test}")
    if not found:
        if there and not test:
            raise _without_test(suite)
        known = ", ".join(name.partition("/")[2] for name in there[:_MOST_NAMED])
        built_in = f" (those are {known})" if known else ""
        what = f"{suite}'s {test}" if test else suite
        raise UserError(f"{what} is not built in{built_in}: {INSTEAD}")
    mode = "thread" if test != of_threads else mode_of(parameters)
    file_system = checked_fs(suite, parameters)
    if suite == "vm-scalability" and test.startswith(_ON_DISK) and not (file_system or "fs" in parameters):
        file_system = _OF_VM_SCALABILITY
    folder, _, name = found.workload.partition("/")
    of_aim = aim.differs(suite, name) if folder == "aim9" else ()
    disk = of_disk({**parameters, "fs": file_system} if file_system else parameters)
    return replace(found, mode=mode, fs=file_system, differs=(*disk, *found.differs, *of_aim))


def _key(test: str) -> str:
    """A test's name without what reports write in different ways.

    >>> {_key(test) for test in ("creat-clo", "creat_clo", "creat.clo")}, _key("varmail.f")
    ({'creatclo'}, 'varmail')
    """
    return re.sub(r"[^a-z0-9]", "", test.lower().removesuffix(".f"))


def given_test(benchmark: str, parameters: Parameters) -> str:
    """The test that a report names; UserError if it names none."""
    if test := parameters.get("test", ""):
        return test
    raise _without_test(benchmark)


def _without_test(benchmark: str) -> UserError:
    return UserError(f"the report does not say which test of {benchmark} was run (parameter test): {INSTEAD}")
