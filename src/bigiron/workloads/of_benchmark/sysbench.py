"""sysbench's tests."""

import re

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.built_in import given_test
from bigiron.workloads.of_benchmark.mapped import (
    INSTEAD,
    Mapped,
    MappedProgram,
    Parameters,
    on_disk,
    size,
)

_FOREVER = "--events=0 --time=100000 run"
_FILES = "sysbench fileio --file-num=16 --file-total-size=16M"
_SOCKET = "--socket=/tmp/mariadb"


_TESTS = {
    "threads": ("--thread-yields=1000 --thread-locks=8", "system-call"),
    "mutex": ("--mutex-num=4096 --mutex-locks=1000000000 --mutex-loops=10000", "futex"),
    "cpu": ("", "instruction"),
    "memory": ("--memory-block-size=1K --memory-total-size=100000G", "instruction"),
}
"""Tests, their options, and what counts are per. Where a report gives no number, it is the robot's."""

_OPTIONS = {
    "threads": {"thread_yields": "--thread-yields", "thread_locks": "--thread-locks"},
    "mutex": {"mutex_num": "--mutex-num", "mutex_loops": "--mutex-loops"},
    "memory": {"mem_blk_size": "--memory-block-size"},
}
"""Parameters of reports that are options of a test."""


def sysbench(parameters: Parameters, _metric: str) -> Mapped:
    """By the parameter `test`, or by what follows sysbench- in the benchmark's name."""
    test = given_test("sysbench", parameters).replace("_", "-")
    if test in _TESTS:
        options, per = _TESTS[test]
        for key, option in _OPTIONS.get(test, {}).items():
            if given := size(parameters, key):
                options = re.sub(rf"{option}=\S+", f"{option}={given}", options)
        command = f"sysbench {test} --threads={{tasks}} {options} {_FOREVER}"
        first = "sysbench threads --threads=1 --events=1 run"
        return Mapped(program=MappedProgram("sysbench", command, per, ready=(first,)))
    if test.startswith("fileio"):
        return _fileio(parameters)
    if test.startswith(("oltp", "mariadb", "mysql")):
        return _database()
    known = "threads, mutex, cpu, memory, fileio and oltp are"
    raise UserError(f"sysbench's {test} is not mapped ({known}): {INSTEAD}")


def _fileio(parameters: Parameters) -> Mapped:
    mode = parameters.get("rwmode") or parameters.get("file_test_mode") or "rndrw"
    if mode not in ("seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"):
        raise UserError(f"sysbench has no file-test-mode {mode!r}: {INSTEAD}")
    io = parameters.get("iomode", "sync")
    if io not in ("sync", "async", "mmap"):
        raise UserError(f"sysbench has no file-io-mode {io!r}: {INSTEAD}")
    command = f"{_FILES} --threads={{tasks}} --file-test-mode={mode} --file-io-mode={io} {_FOREVER}"
    program = MappedProgram("sysbench", command, ready=(f"{_FILES} prepare",))
    whole = parameters.get("size", "")
    return on_disk("sysbench", parameters, program, f"16 MiB of files{whole and f' instead of {whole}'}")


def _database() -> Mapped:
    return Mapped(
        program=MappedProgram(
            "mariadb-server+sysbench",
            f"mariadb-slap {_SOCKET} --concurrency={{tasks}} --auto-generate-sql "
            "--number-of-queries=100000000",
            service=(
                f"mariadbd --no-defaults --user=mysql --datadir=/var/lib/mysql {_SOCKET} --skip-networking "
                "--innodb-buffer-pool-size=32M",
            ),
            ready=(
                f"mariadb {_SOCKET} --execute 'create database if not exists sbtest'",
                f"mariadb-slap {_SOCKET} --concurrency=1 --auto-generate-sql --number-of-queries=1",
            ),
        ),
        differs=("queries of mariadb-slap instead of sysbench's",),
    )
