"""Seconds and CPU-seconds of a machine with many CPUs by stage, for a first cell and a second.

`.venv/bin/python benchmarks/machines/many_cpus.py [KERNEL] [CPUS:MIB ...]` records 10 operations of open1 per
CPU. The first cell boots the machine and keeps a snapshot, the second one resumes that; the snapshot is
dropped at the end. CPU-seconds are those of this process and its QEMUs: on a busy host they vary less than
seconds, though not little, as a guest's timers follow the host's clock.
"""

import os
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from bigiron import compile, kernels, workloads
from bigiron.architectures import X86_64
from bigiron.kernels import Kernel
from bigiron.machines.vm import snapshot, vm
from bigiron.machines.vm.topology import Topology

POINTS = ("8:8192", "64:65536", "256:65536")
DEADLINE_S = 4 * 3600
JOB = "cpus {0}\ntasks {0}\nwarmup 10\npatience_s 3600\noperations 10\nrecord conflicts\n"


def cpu_seconds() -> float:
    """What this process and the machines that it started have taken so far."""
    live = 0
    for pid in Path("/proc/thread-self/children").read_text().split():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        live += int(fields[11]) + int(fields[12])
    return sum(os.times()[:4]) + live / os.sysconf("SC_CLK_TCK")


@dataclass
class Stages:
    """The stages of one cell: when each began, by the clock and in CPU-seconds."""

    began: list[tuple[str, float, float]] = field(default_factory=list)

    def enter(self, stage: str) -> None:
        """Called whenever a stage may have begun."""
        if not self.began or self.began[-1][0] != stage:
            self.began.append((stage, time.monotonic(), cpu_seconds()))

    def print(self, point: str, cell: str) -> None:
        """A table row per stage."""
        self.enter("end")
        for (stage, start, used), (_, end, used_then) in zip(self.began, self.began[1:], strict=False):
            print(f"| {point} | {cell} | {stage} | {end - start:.1f} | {used_then - used:.1f} |", flush=True)


def run_cell(kernel: Kernel, cpus: int, mib: int, boot: str) -> Stages:
    """One cell, resumed from the snapshot with this boot line, which is made if it does not exist."""
    stages = Stages()
    with tempfile.TemporaryDirectory() as results:
        machine = vm.VirtualMachine(
            architecture=X86_64,
            kernel=kernel.image,
            release=kernel.release,
            agent=compile.agent(workloads.find("open1"), X86_64.compiler),
            job=JOB.format(cpus),
            topology=Topology(cores=cpus),
            memory_mib=mib,
            deadline_s=DEADLINE_S,
            boot=boot,
            plugin=compile.recorder(),
            results=Path(results),
            from_snapshot=True,
        )
        vm.run(machine, threading.Event(), stages.enter)
    return stages


def main() -> None:
    """Two cells for each point."""
    name, *points = sys.argv[1:] or ["debian/6.12"]
    kernel = kernels.find(name, "x86_64")
    print("| CPUs:MiB | cell | stage | seconds | CPU-seconds |\n|---|---|---|--:|--:|")
    for point in points or POINTS:
        cpus, mib = map(int, point.split(":"))
        boot = f"benchmark={uuid.uuid4().hex}"  # so that no snapshot exists
        for cell in ("first", "second"):
            run_cell(kernel, cpus, mib, boot).print(point, cell)
        for kept in snapshot.list_snapshots():
            if kept.machine and kept.machine.boot.endswith(boot):
                snapshot.drop(kept.name)


if __name__ == "__main__":
    main()
