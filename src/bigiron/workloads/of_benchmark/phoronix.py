"""Tests of the Phoronix Test Suite that run a benchmark which is mapped. Others are applications."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.built_in import hackbench, of_suite
from bigiron.workloads.of_benchmark.fio import fio
from bigiron.workloads.of_benchmark.mapped import INSTEAD, Mapped, Parameters
from bigiron.workloads.of_benchmark.stress_ng import stress_ng

_STRESSORS = {
    "cloning": "clone",
    "context switching": "switch",
    "forking": "fork",
    "futex": "futex",
    "io_uring": "io-uring",
    "memfd": "memfd",
    "mixed scheduler": "schedmix",
    "mmap": "mmap",
    "mutex": "mutex",
    "numa": "numa",
    "pipe": "pipe",
    "poll": "poll",
    "pthread": "pthread",
    "semaphores": "sem",
    "sendfile": "sendfile",
    "socket activity": "sock",
    "system v message passing": "msg",
}
"""What pts/stress-ng calls the stressors that make system calls."""

_ENGINES = {"sync": "sync", "io_uring": "io_uring", "linux aio": "libaio", "posix aio": "posixaio"}
_PATTERNS = {
    "sequential read": "read",
    "sequential write": "write",
    "random read": "randread",
    "random write": "randwrite",
}
_OSBENCH = {"create processes": ("unixbench", "spawn"), "launch programs": ("aim9", "exec_test")}
_GROUP = 40  # hackbench's senders and receivers


def phoronix(parameters: Parameters, metric: str) -> Mapped:
    """By the name of the test, such as fio-1.14.1, and its options, in words."""
    name, _, version = parameters.get("test", "").rpartition("-")
    name = name if version[:1].isdigit() else parameters.get("test", "")
    options = [parameters.get(f"option_{letter}", "").lower() for letter in "abcde"]
    found = _TESTS[name](options, metric) if name in _TESTS else None
    if not found:
        what = f"phoronix-test-suite's {parameters.get('test') or 'test'}"
        raise UserError(
            f"{what} is a whole application, and its packages are downloaded and compiled on the machine: "
            f"take the system call from the report's profile, and {INSTEAD}"
        )
    return found


def _stress_ng(options: list[str], metric: str) -> Mapped | None:
    stressor = _STRESSORS.get(options[0])
    return stress_ng({"test": stressor}, metric) if stressor else None


def _fio(options: list[str], metric: str) -> Mapped | None:
    kind, engine, _buffered, direct, block = options
    if kind not in _PATTERNS or engine not in _ENGINES:
        return None
    given = {"rw": _PATTERNS[kind], "ioengine": _ENGINES[engine], "bs": block.removesuffix("b") or "4k"}
    found = fio(given | ({"direct": "1"} if direct == "yes" else {}), metric)
    return replace(found, tasks=1, fs="ext4", differs=(*found.differs, "ext4 on a disk in memory"))


def _osbench(options: list[str], metric: str) -> Mapped | None:
    if options[0] not in _OSBENCH:
        return None
    suite, test = _OSBENCH[options[0]]
    return replace(of_suite(suite, {"test": test}, metric), tasks=1)


def _hackbench(options: list[str], metric: str) -> Mapped | None:
    groups, mode = options[:2]
    if not groups.isdecimal() or len(groups) > len("9999"):
        return None
    return replace(hackbench({"mode": mode}, metric), tasks=int(groups) * _GROUP)


_TESTS: Mapping[str, Callable[[list[str], str], Mapped | None]] = {
    "fio": _fio,
    "hackbench": _hackbench,
    "osbench": _osbench,
    "stress-ng": _stress_ng,
}
