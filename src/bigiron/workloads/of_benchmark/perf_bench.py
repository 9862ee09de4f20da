"""`perf bench`: what is built in as a workload runs as that, what is not as the program."""

import re
from dataclasses import replace

from bigiron.errors import UserError
from bigiron.readers.figure import count
from bigiron.workloads.of_benchmark.built_in import given_test, hackbench, of_suite
from bigiron.workloads.of_benchmark.mapped import INSTEAD, Mapped, MappedProgram, Parameters, mode_of

_LONG = 100_000
_MEM_BYTES = "1MB"
_PROGRAMS = {
    "futex hash": (f"futex hash --threads {{tasks}} --runtime {_LONG}", "futex"),
    "futex lock-pi": (f"futex lock-pi --threads {{tasks}} --runtime {_LONG}", "futex"),
    "futex wake": (f"--repeat {_LONG} futex wake --threads {{tasks}}", "futex"),
    "futex wake-parallel": (f"--repeat {_LONG} futex wake-parallel --threads {{tasks}}", "futex"),
    "futex requeue": (f"--repeat {_LONG} futex requeue --threads {{tasks}}", "futex"),
    "epoll wait": (f"epoll wait --threads {{tasks}} --runtime {_LONG}", "epoll_wait"),
    "mem memcpy": (f"mem memcpy --size {_MEM_BYTES} --nr_loops {_LONG}", "instruction"),
    "mem memset": (f"mem memset --size {_MEM_BYTES} --nr_loops {_LONG}", "instruction"),
    "epoll ctl": (f"epoll ctl --threads {{tasks}} --runtime {_LONG}", "epoll_ctl"),
}
"""Tests, their arguments, and the system call that counts are per."""

_OF_SUITE = re.compile(r"^(sched|futex|epoll|syscall|mem)-")
_OF_PERF = ("numa", "inject", "find", "internals", "evlist", "uprobe", "breakpoint")
_SUITES = {"syscall fork": ("unixbench", "spawn"), "syscall execve": ("unixbench", "sysexec")}
"""Tests that do what a test of another suite does: execve is by a child, as sysexec's and unlike execl's."""

_OF_FUTEX = {
    "futexes": "futex hash",
    "nwakes": "futex wake",
    "nwakers": "futex wake-parallel",
    "nrequeue": "futex requeue",
}
"""Parameters of reports that are options of a test."""


def perf_bench(parameters: Parameters, metric: str) -> Mapped:
    """By the parameter `test` or `op`, or by what follows perf-bench- in the benchmark's name."""
    words = f"{parameters.get('test', '')} {parameters.get('op', '')}".strip()
    words = words or given_test("perf bench", parameters)
    test = _OF_SUITE.sub(r"\1 ", " ".join(words.replace("_", "-").split()))
    match test:
        case "sched pipe":
            same_cpu = "both tasks of the pair on one CPU"
            return Mapped("context_switch1", mode_of(parameters), tasks=1, differs=(same_cpu,))
        case "sched messaging":
            return hackbench(parameters, metric, "perf bench sched messaging")
        case "syscall basic":
            return Mapped("getppid1", tasks=1)
        case "syscall getpgid":
            return Mapped("getppid1", tasks=1, differs=("getppid instead of getpgid",))
    if test in _SUITES:
        suite, same = _SUITES[test]
        return replace(of_suite(suite, {**parameters, "test": same}, metric), tasks=1)
    if test in _PROGRAMS:
        return _program(test, parameters)
    if test.startswith(_OF_PERF):
        raise UserError(
            f"perf bench {test} measures perf or the distance of memory, which no count explains: {INSTEAD}"
        )
    raise UserError(f"perf bench {test} is not mapped (sched, syscall, futex, epoll and mem are): {INSTEAD}")


def _program(test: str, parameters: Parameters) -> Mapped:
    arguments, per = _PROGRAMS[test]
    for key, of_test in _OF_FUTEX.items():
        if test == of_test and (given := parameters.get(key)):
            arguments += f" --{key} {count(given, None, key)}"
    if parameters.get("shared") == "shared" and test.startswith("futex"):
        arguments += " --shared"  # between processes: hashed by page, in the hash table of the whole machine
    of_mem = (("blocks of ", "size", _MEM_BYTES), ("", "function", "the default function"))
    asked = of_mem if test.startswith("mem ") else ()
    others = ((what, here, parameters.get(key) or here) for what, key, here in asked)
    return Mapped(
        program=MappedProgram(
            "linux-perf",
            f"perf bench {arguments}",
            per,
            ready=("perf bench mem memcpy --size 1KB --nr_loops 1",),
        ),
        tasks=None if "{tasks}" in arguments else 1,
        differs=tuple(f"{what}{here} instead of {given}" for what, here, given in others if given != here),
    )
