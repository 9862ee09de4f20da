"""Seconds, CPU-seconds and memory of a machine with many CPUs by stage, for a first cell and a second.

`.venv/bin/python benchmarks/machines/many_cpus.py [KERNEL[@ARCH]] [CPUS[:MIB] ...]` records 10 operations of
open1 per CPU. The first cell boots the machine and keeps a snapshot, the second one resumes that; the
snapshot is dropped at the end. On ppc64le each cell boots. CPU-seconds are those of this process and its
QEMUs: on a busy host they vary less than seconds, though not little, as a guest's timers follow the host's
clock. The memory is what QEMU has of the host at the end of a stage, the guest's included.
"""

import os
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from bigiron import compile, kernels, workloads
from bigiron.architectures import Architecture, architecture
from bigiron.introspect.memory import GuestRam
from bigiron.kernels import Kernel
from bigiron.machines.vm import dilation, snapshot, vm
from bigiron.machines.vm.topology import Topology

POINTS = ("8", "64", "256")
DEADLINE_S = 4 * 3600
JOB = "cpus {0}\ntasks {0}\nwarmup 10\npatience_s 3600\noperations 10\nrecord conflicts\n"


def cpu_seconds() -> float:
    """What this process and the machines that it started have taken so far."""
    live = 0
    for pid in Path("/proc/thread-self/children").read_text().split():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        live += int(fields[11]) + int(fields[12])
    return sum(os.times()[:4]) + live / os.sysconf("SC_CLK_TCK")


def memory_mib() -> int:
    """The memory that the machines which this process started have now."""
    kib = 0
    for pid in Path("/proc/thread-self/children").read_text().split():
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            kib += int(line.split()[1]) if line.startswith("VmRSS") else 0
    return kib >> 10


@dataclass
class Stages:
    """The stages of one cell: when each began, by the clock and in CPU-seconds, and the memory then."""

    began: list[tuple[str, float, float, int]] = field(default_factory=list)

    def enter(self, stage: str) -> None:
        """Called whenever a stage may have begun."""
        if not self.began or self.began[-1][0] != stage:
            self.began.append((stage, time.monotonic(), cpu_seconds(), memory_mib()))

    def print(self, point: str, cell: str) -> None:
        """A table row per stage."""
        for (stage, start, used, _), (_, end, used_then, mib) in pairwise(self.began):
            seconds, of_cpu = end - start, used_then - used
            print(f"| {point} | {cell} | {stage} | {seconds:.1f} | {of_cpu:.1f} | {mib} |", flush=True)


def run_cell(kernel: Kernel, target: Architecture, cpus: int, mib: int, boot: str) -> Stages:
    """One cell, as `bigiron run` has it. `boot` tells its snapshot from others, which is made if need be."""
    stages = Stages()
    with tempfile.TemporaryDirectory() as results:
        machine = vm.VirtualMachine(
            architecture=target,
            kernel=kernel.image,
            release=kernel.release,
            agent=compile.agent(workloads.find("open1"), target.compiler, time_slices=True),
            job=JOB.format(cpus),
            topology=Topology(cores=cpus),
            memory_mib=mib,
            deadline_s=DEADLINE_S,
            boot=boot,
            plugin=compile.recorder(),
            results=Path(results),
            time_slices=True,
            from_snapshot=target.resumes,
            clock_slower=_clock_slower(target, cpus),
        )
        with GuestRam(mib) as ram:
            vm.run(replace(machine, ram=ram), threading.Event(), stages.enter)
            stages.enter("end")
    return stages


def _clock_slower(target: Architecture, cpus: int) -> int:
    """As for a study."""
    slowed = target.resumes and cpus >= dilation.SLOWED_FROM
    return dilation.instructions_per_ns(cpus) if slowed else 1


def main() -> None:
    """Two cells for each point; one where each boots."""
    name, *points = sys.argv[1:] or ["debian/6.12"]
    name, _, arch = name.partition("@")
    target = architecture(arch or "x86_64")
    kernel = kernels.find(name, target.name)
    print("| CPUs:MiB | cell | stage | seconds | CPU-seconds | MiB of the host |\n|---|---|---|--:|--:|--:|")
    for point in points or POINTS:
        cpus, mib = (int(number or 0) for number in point.partition(":")[::2])
        mib = mib or vm.memory_mib(cpus)
        boot = f"benchmark={uuid.uuid4().hex}"  # so that no snapshot exists
        for cell in ("first", "second") if target.resumes else ("each",):
            run_cell(kernel, target, cpus, mib, boot).print(f"{cpus}:{mib}", cell)
        for kept in snapshot.list_snapshots():
            if kept.machine and kept.machine.boot.endswith(boot):
                print(f"| {cpus}:{mib} | snapshot: {kept.size >> 20} MiB | | | | |")
                snapshot.drop(kept.name)


if __name__ == "__main__":
    main()
