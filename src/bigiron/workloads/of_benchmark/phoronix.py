"""Tests of the Phoronix Test Suite that run a benchmark which is mapped. Others are applications."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.built_in import given_test, hackbench, of_suite
from bigiron.workloads.of_benchmark.fio import file_mib, in_flight, job
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
_OSBENCH = {
    "create processes": ("unixbench", "spawn", "one process at a time instead of 100"),
    "launch programs": ("lmbench3", "exec", "one program at a time instead of 100"),
}
"""What does the same as a test of osbench, but that osbench starts 100 before it waits for them."""

_GROUP = 40  # hackbench's senders and receivers
_ON_OFF = ("yes", "no")
_BLOCK, _NUMBER = re.compile(r"[1-9]\d{0,2}k|[1-9]m"), re.compile(r"[1-9]\d{0,3}")
_DEPTH, _MOST_JOBS = "64", 8  # of fio
_BUFFERS_MIB = 64
_WARM_UP_S, _RECORD_S = 0.5, 0.05  # fio fills so large buffers first; a large request is many instructions
_WITH_FORCE_ASYNC = (1, 14)
_WITH_ZEROCOPY = (1, 8)


@dataclass(frozen=True)
class _Profile:
    """A test profile, such as fio-1.14.1, with the options that the report gives it."""

    name: str
    version: tuple[int, ...]
    options: tuple[str, ...]


def phoronix(parameters: Parameters, metric: str) -> Mapped:
    """By the name of the test, such as fio-1.14.1, and its options, in words."""
    profile = _profile(parameters)
    found = _TESTS[profile.name](profile, metric) if profile.name in _TESTS else None
    if not found:
        raise UserError(
            f"phoronix-test-suite's {parameters['test']} is a whole application, and its packages are "
            "downloaded and compiled on the machine: "
            f"take the system call from the report's profile, and {INSTEAD}"
        )
    return found


def _profile(parameters: Parameters) -> _Profile:
    test = given_test("phoronix-test-suite", parameters)
    name, _, version = test.rpartition("-")
    if not version[:1].isdigit():
        name, version = test, ""
    numbers = tuple(int(one) for one in version.split(".") if one.isdecimal())
    return _Profile(
        name, numbers, tuple(parameters.get(f"option_{letter}", "").lower() for letter in "abcdef")
    )


def _stress_ng(profile: _Profile, metric: str) -> Mapped | None:
    stressor = _STRESSORS.get(profile.options[0])
    if not stressor:
        return None
    found = stress_ng({"test": stressor}, metric)
    if stressor == "sock" and profile.version >= _WITH_ZEROCOPY and found.program:
        command = f"{found.program.command} --sock-zerocopy"
        return replace(found, program=replace(found.program, command=command))
    return found


def _fio(profile: _Profile, _metric: str) -> Mapped | None:
    """64 requests in flight, with io_uring every fourth one by a worker thread; jobs share one file.

    Profiles before 2.1 write `direct` and then `buffered`. For fio buffered is the inverse of direct, and the
    last one decides (options.c): a report with Yes for both is of buffered writes.
    """
    kind, engine, on_off, *rest = profile.options
    has_both = rest[0] in _ON_OFF
    block, jobs = rest[1:3] if has_both else rest[:2]
    block = block.removesuffix("b")
    if not (kind in _PATTERNS and engine in _ENGINES and on_off in _ON_OFF and _BLOCK.fullmatch(block)):
        return None
    pattern, engine = _PATTERNS[kind], _ENGINES[engine]
    tasks = int(jobs) if _NUMBER.fullmatch(jobs) else 1
    depth, shallower = in_flight(engine, _DEPTH, block, _BUFFERS_MIB // min(tasks, _MOST_JOBS))
    mib = file_mib(block)
    forced = engine == "io_uring" and profile.version >= _WITH_FORCE_ASYNC
    options = [
        f"--filename=/tmp/fiofile --rw={pattern} --bs={block} --ioengine={engine}",
        *depth,
        *(["--force_async=4"] if forced else []),
        *(["--direct=1"] if on_off == ("no" if has_both else "yes") else []),
        f"--size={mib}m",
    ]
    return Mapped(
        fs="ext4",
        program=replace(job(engine, options), warm_up_s=_WARM_UP_S, record_s=_RECORD_S),
        tasks=tasks,
        differs=("ext4 on a disk in memory", f"a file of {mib} MiB instead of 1 GiB", *shallower),
    )


def _osbench(profile: _Profile, metric: str) -> Mapped | None:
    if profile.options[0] not in _OSBENCH:
        return None
    suite, test, fewer = _OSBENCH[profile.options[0]]
    return replace(of_suite(suite, {"test": test}, metric), tasks=1, differs=(fewer,))


def _hackbench(profile: _Profile, metric: str) -> Mapped | None:
    groups, mode = profile.options[:2]
    if not _NUMBER.fullmatch(groups) or mode not in ("process", "thread"):
        return None
    return replace(hackbench({"mode": mode, "ipc": "socket"}, metric), tasks=int(groups) * _GROUP)


_TESTS: Mapping[str, Callable[[_Profile, str], Mapped | None]] = {
    "fio": _fio,
    "hackbench": _hackbench,
    "osbench": _osbench,
    "stress-ng": _stress_ng,
}
