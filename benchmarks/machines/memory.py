"""What a virtual machine's memory costs the host: what a kernel touches of it, and how long it takes to boot.

`.venv/bin/python benchmarks/machines/memory.py [KERNEL] [CPUS:MIB ...]` prints a table.
"""

import os
import resource
import sys
import tempfile
import threading
from pathlib import Path

from bigiron import compile, kernels, workloads
from bigiron.architectures import X86_64
from bigiron.introspect.memory import GuestRam
from bigiron.machines.vm import vm
from bigiron.machines.vm.topology import Topology

POINTS = ("1:1024", "1:4096", "8:1024", "8:2048", "8:8192", "8:32768", "64:9216", "64:65536")


def cpu_seconds() -> float:
    """What the machines that have ended took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """A machine for each point."""
    kernel, *points = sys.argv[1:] or ["debian/6.12"]
    print(
        "| kernel | CPUs | memory, MiB | touched, MiB | expected at most | CPU time to the agent's end, s |"
    )
    print("|---|--:|--:|--:|--:|--:|")
    for point in points or POINTS:
        cpus, mib = map(int, point.split(":"))
        with tempfile.TemporaryDirectory() as results, GuestRam(mib) as ram:
            machine = vm.VirtualMachine(
                architecture=X86_64,
                kernel=kernels.find(kernel, "x86_64").image,
                agent=compile.agent(workloads.find("getppid1"), "gcc"),
                job=f"cpus {cpus}\ntasks {cpus}\nwarmup 100\npatience_s 600\n",
                topology=Topology(cores=cpus),
                memory_mib=mib,
                deadline_s=1800,
                plugin=compile.recorder(),
                results=Path(results),
                ram=ram,
            )
            before = cpu_seconds()
            vm.run(machine, threading.Event(), lambda _stage: None)
            took, touched = cpu_seconds() - before, os.fstat(ram.fd).st_blocks >> 11
        expected = vm.touched_mib(mib, cpus)
        print(f"| {kernel} | {cpus} | {mib:,} | {touched:,} | {expected:,} | {took:.1f} |", flush=True)


if __name__ == "__main__":
    main()
