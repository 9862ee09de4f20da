"""What the recorder counts of programs, in real machines: between marks, on all CPUs, whichever task."""

import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import pytest
from conftest import measured

from bigiron import compile, kernels, open_study
from bigiron.architectures import architecture
from bigiron.introspect.memory import GuestRam
from bigiron.introspect.symbols import SymbolTable
from bigiron.machines.messages import Message
from bigiron.machines.vm import guest, vm
from bigiron.machines.vm.topology import Topology
from bigiron.probes.recording import RecordedProgram, Recording, read_recording
from bigiron.util.lazy import polars as pl

TOP = Path(__file__).parents[1]
GETPPID = {"x86_64": 110, "ppc64le": 64, "aarch64": 173}
EVERYTHING = ("conflicts", "instructions", "locks")


@cache
def init(compiler: str) -> Path:
    """PID 1 of the machines, and the program (program_test.c)."""
    program = Path(tempfile.mkdtemp(prefix="bigiron-test-")) / "init"
    parts = ("machine/init", "protocol/job", "protocol/record_program", "protocol/report")
    sources = [TOP / "tests" / "program_test.c", *(TOP / "guest" / f"{part}.c" for part in parts)]
    flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static")
    subprocess.run([compiler, *flags, *sources, "-o", program], check=True)
    return program


@dataclass(frozen=True)
class Recorded:
    """What a machine left."""

    recording: Recording
    results: Path
    stdout: list[str]

    @property
    def program(self) -> RecordedProgram:
        assert self.recording.program
        return self.recording.program

    def functions(self, context: str) -> dict[str, int]:
        """The instructions of each function."""
        symbols = SymbolTable.read(self.results / "kallsyms")
        counts = pl.read_csv(self.results / "instructions.csv", schema_overrides={"function": pl.String})
        sums = counts.filter(context=context).group_by("function").agg(pl.col("instructions").sum())
        return {symbols.lookup(int(address, 16))[0]: number for address, number in sums.iter_rows()}

    @property
    def shared_accesses(self) -> int:
        """To shared cache lines, in process context."""
        rows = struct.iter_unpack("<3Q3I2H", (self.results / "lines").read_bytes())
        return sum(reads + writes for *_, reads, writes, _, context in rows if context == 0)


def delayed(listen: Callable[..., Message], seconds: float) -> Callable[..., Message]:
    """Reads what a machine writes only after so many seconds."""

    def later(self: guest.Guest, until: str, *others: Callable[[], None]) -> Message:
        if until == "end":
            time.sleep(seconds)
        return listen(self, until, *others)

    return later


def recorded(
    folder: Path,
    *words: str,
    kernel: str = "debian/6.12",
    arch: str = "x86_64",
    cpus: int = 1,
    what: Sequence[str] = ("instructions",),
    slices: int = 0,
    instructions_per_ns: int = 0,
    reads_after_s: float = 0,
) -> Recorded:
    """Run a program of program_test.c in a machine."""
    results = folder / str(len(list(folder.iterdir())))
    results.mkdir()
    job = [*(f"record {one}" for one in what), *(f"word {word}" for word in words), "stay"]
    job += [f"time_slice_instructions {slices}"] * bool(slices)
    found, memory_mib, target = kernels.find(kernel, arch), vm.memory_mib(cpus), architecture(arch)
    with GuestRam(memory_mib) as ram:
        machine = vm.VirtualMachine(
            architecture=target,
            kernel=found.image,
            release=found.release,
            agent=init(target.compiler),
            job="".join(f"{line}\n" for line in job),
            topology=Topology(cores=cpus),
            memory_mib=memory_mib,
            deadline_s=300,
            plugin=compile.recorder(),
            results=results,
            ram=ram,
            instructions_per_ns=instructions_per_ns,
            seed=bytes(32) if instructions_per_ns else b"",
            from_snapshot=target.resumes,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(guest.Guest, "_listen", delayed(guest.Guest._listen, reads_after_s))
            outcome = vm.run(machine, threading.Event(), lambda _stage: None)
    files = (one.content for one in outcome.messages if one.type == "file")
    (stdout,) = (one["lines"] for one in files if one["path"] == "stdout")
    return Recorded(read_recording(results), results, stdout)


@pytest.mark.parametrize("kernel", ["debian/5.10", "debian/7.2"])
def test_a_program_counts_what_a_workload_counts(kernel: str, tmp_path: Path) -> None:
    """Between the agent's marks, from its execve() to its end, which are less than 1 % of it."""
    options = ("--kernel", kernel, "--cpus", "1", "--probe", "instructions", "-o", tmp_path / "s")
    measured("getppid1", *options)
    (record,) = open_study(tmp_path / "s").records()
    (folder,) = (tmp_path / "s" / "cells").iterdir()
    table = pl.read_parquet(folder / "instructions.parquet").filter(context="process")
    workload = table["instructions"].sum() / sum(record.facts["instructions"]["operations"])
    (tmp_path / "p").mkdir()
    operations = 400_000
    program = recorded(tmp_path / "p", "getppid", str(operations), kernel=kernel, slices=5000).program
    assert program.instructions["process"] / operations == pytest.approx(workload, rel=0.01)
    assert program.system_calls[GETPPID["x86_64"]] == operations
    assert program.all_system_calls < operations + 50


@pytest.mark.parametrize(
    ("arch", "kernel"),
    [
        ("x86_64", "debian/5.10"),
        ("x86_64", "debian/7.2"),
        ("ppc64le", "debian/6.1"),
        ("aarch64", "debian/6.12"),
    ],
)
def test_only_what_lies_between_a_program_s_marks_is_counted(arch: str, kernel: str, tmp_path: Path) -> None:
    """And of that nothing that the agent does, which makes the same system call meanwhile."""
    both = [
        recorded(tmp_path, "own-marks", "getppid", str(number), kernel=kernel, arch=arch)
        for number in (5000, 10_000)
    ]
    once, twice = (left.program for left in both)
    assert {left.recording.stack_bytes for left in both} == {16 << 10}
    assert once.system_calls == {GETPPID[arch]: 2 * 5000}
    assert twice.system_calls == {GETPPID[arch]: 2 * 10_000}
    assert (once.parts, once.other_system_calls) == (2, 0)
    more = {
        context: twice.instructions[context] - once.instructions[context] for context in ("user", "process")
    }
    assert 10 < more["user"] / 10_000 < 40 and 100 < more["process"] / 10_000 < 1000
    assert once.instructions["process"] == pytest.approx(more["process"], rel=0.02)
    assert 0 < once.instructions["user"] / sum(once.instructions.values()) < 0.3


def test_with_a_clock_of_instructions_counts_repeat_to_the_digit(tmp_path: Path) -> None:
    """On a busy host, too: this process does not read what the guest writes until the program has run."""
    counts = set()
    for wait_s in (0, 0, 2):
        left = recorded(
            tmp_path, "open", "1", "2000", kernel="debian/7.2", what=EVERYTHING, slices=5000,
            instructions_per_ns=2, reads_after_s=wait_s,
        )  # fmt: skip
        counts.add((msgspec.json.encode(left.program), left.shared_accesses))
    assert len(counts) == 1


def test_a_program_cannot_add_to_the_kernel_s_symbols(tmp_path: Path) -> None:
    left = recorded(tmp_path, "symbols", kernel="debian/7.2")
    symbols = (left.results / "kallsyms").read_text()
    assert " schedule\n" in symbols and "made_up" not in symbols


def test_a_copying_instruction_is_one_however_much_it_copies(tmp_path: Path) -> None:
    """With this clock QEMU leaves it after each byte, and page faults interrupt it."""
    none, some = (recorded(tmp_path, "copy", str(times), instructions_per_ns=2) for times in (0, 20))
    more = some.program.instructions["user"] - none.program.instructions["user"]
    assert 20 <= more < 20 * 10


@pytest.mark.parametrize(
    ("slices", "at_least", "at_most"), [(0, 0, 1000), (5000, 7000, 9000), (2500, 14_000, 18_000)]
)
def test_time_slices_end_after_so_many_instructions(
    slices: int, at_least: int, at_most: int, tmp_path: Path
) -> None:
    """Two tasks count to 20,000, in 2,000 instructions each time: how often one sees that the other ran."""
    left = recorded(tmp_path, "turns", "20000", cpus=2, slices=slices, instructions_per_ns=2)
    assert left.recording.time_slice_instructions == slices
    assert at_least <= int(left.stdout[0]) <= at_most


def test_what_a_task_does_stays_its_own_wherever_it_runs(tmp_path: Path) -> None:
    """Two tasks wake each other on any CPU: each sleeps in the middle of a system call."""
    left = recorded(tmp_path, "ping", "2000", cpus=4, slices=5000, instructions_per_ns=8)
    process, kthread = left.functions("process"), left.functions("kthread")
    pipe = {name for name in process if "pipe_" in name}
    assert {"pipe_write"} < pipe or {"anon_pipe_write"} < pipe
    assert not pipe & kthread.keys()
    assert kthread["do_idle"]


def test_private_memory_of_tasks_is_not_shared_for_having_been_made_by_another(tmp_path: Path) -> None:
    """fork() writes a child's task_struct on its parent's CPU: that is in one window, and not in the next."""
    left = recorded(
        tmp_path, "open", "2", "10000", cpus=2, what=EVERYTHING, slices=5000, instructions_per_ns=4
    )
    assert left.program.windows > 20 and not left.program.lost_windows
    assert left.shared_accesses / 20_000 < 20
