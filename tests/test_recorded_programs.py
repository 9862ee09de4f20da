"""What the recorder counts of programs, in real machines: between marks, on all CPUs, whichever task."""

import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from bigiron import compile, kernels
from bigiron.architectures import X86_64
from bigiron.introspect.memory import GuestRam
from bigiron.machines.vm import vm
from bigiron.machines.vm.topology import Topology
from bigiron.probes.recording import RecordedProgram, Recording, read_recording
from bigiron.util.lazy import polars as pl

TOP = Path(__file__).parents[1]
GETPPID = 110  # x86_64


@cache
def init() -> Path:
    """PID 1 of the machines, and the program (program_test.c)."""
    program = Path(tempfile.mkdtemp(prefix="bigiron-test-")) / "init"
    parts = ("init", "job", "record_program", "report")
    sources = [TOP / "tests" / "program_test.c", *(TOP / "guest" / f"{part}.c" for part in parts)]
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-static", "-pthread", *sources, "-o", program], check=True)
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


def recorded(
    folder: Path, *words: str, kernel: str = "debian/6.12", cpus: int = 1, what: Sequence[str] = ("instructions",),
    slices: int = 0, seed: int = 0, instructions_per_ns: int = 0,
) -> Recorded:
    """Run a program of program_test.c in a machine."""
    results = folder / f"{len(list(folder.iterdir()))}"
    results.mkdir()
    job = [*(f"record {one}" for one in what), *(f"word {word}" for word in words), "stay"]
    job += [f"time_slice_instructions {slices}"] * bool(slices) + [f"time_slice_seed {seed}"] * bool(seed)
    found, memory_mib = kernels.find(kernel, "x86_64"), vm.memory_mib(cpus)
    with GuestRam(memory_mib) as ram:
        machine = vm.VirtualMachine(
            architecture=X86_64,
            kernel=found.image,
            release=found.release,
            agent=init(),
            job="".join(f"{line}\n" for line in job),
            topology=Topology(cores=cpus),
            memory_mib=memory_mib,
            deadline_s=300,
            plugin=compile.recorder(),
            results=results,
            ram=ram,
            instructions_per_ns=instructions_per_ns,
            seed=bytes(32) if instructions_per_ns else b"",
            from_snapshot=True,
        )
        outcome = vm.run(machine, threading.Event(), lambda _stage: None)
    files = (one.content for one in outcome.messages if one.type == "file")
    (stdout,) = (one["lines"] for one in files if one["path"] == "stdout")
    return Recorded(read_recording(results), results, stdout)
