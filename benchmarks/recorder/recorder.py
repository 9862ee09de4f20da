"""What the recorder costs: the same virtual machine with it and without it.

Every figure is a ratio, with the recorder to without it, of medians; the machines run side by side.

    boot       from QEMU's start to the agent's first word: loaded, the recorder instruments nothing
    warm-up    operations before the recording: neither here (goal for both: at most 1.1)
    recording  the same operations, recorded, without what it costs once
               (goal: at most 4 for conflicts, 8 for both probes together)
    in all     the same, with what it costs once: all code is translated again, and the result written

By kind of instrumentation the same region of open1 is compared with what QEMU takes for callbacks that do
nothing (callbacks.c), to tell what they cost from what the recorder does in them.

Times are QEMU's CPU seconds: on an idle machine that is what the clock shows, as an emulator seldom waits;
on a busy one they leave out the work of others.

The architecture is an argument: `recorder.py ppc64le`; without it x86_64. A second one, `kinds`, leaves out
all but the comparison by kind.
"""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bigiron import compile, kernels, workloads
from bigiron.architectures import architecture
from bigiron.machines.vm import vm
from bigiron.machines.vm.qemu import require_qemu
from bigiron.machines.vm.topology import Topology

KERNEL = "debian/6.1"
TARGET = architecture((sys.argv[1:] or ["x86_64"])[0])
CPUS, MANY_CPUS = 8, 64
ROUNDS = 3
# Each takes about a second without the recorder.
OPERATIONS = {"open1": 12_000, "getppid1": 600_000, "page_fault1": 400}
FEW_OPERATIONS = 500  # what `bigiron run` records by default
PROBES = (("conflicts",), ("instructions",), ("conflicts", "instructions"))
EMPTY = {
    "NOTHING": "plugin without callbacks",
    "BLOCKS": "empty callbacks, blocks",
    "CALLS": "empty callbacks, calls and returns",
    "ACCESSES": "empty callbacks, accesses but to the stack",
    "ALL_ACCESSES": "empty callbacks, all accesses",
}
KINDS = (("instructions",), ("locks",), ("conflicts",), ("conflicts", "instructions", "locks"))
CONTRIB = ("libhotpages.so", "libcache.so")


@dataclass(frozen=True)
class Job:
    """What one machine does: so many operations of warm-up, then as many recorded, if there are probes."""

    workload: str
    operations: int
    cpus: int = CPUS
    probes: tuple[str, ...] = ()
    qemu: str = TARGET.qemu
    plugin: Path | None = None  # in place of the recorder


@dataclass(frozen=True)
class Cost:
    """CPU seconds of QEMU in each stage, and the most memory that it had."""

    boot: float
    warm_up: float
    recording: float
    all: float
    peak_mib: float


def measure(job: Job) -> Cost:
    """Run one machine to its end."""
    marks: list[tuple[str, float, float]] = []

    def on_stage(stage: str) -> None:
        marks.append((stage, *_qemu_usage()))

    with tempfile.TemporaryDirectory(prefix="bigiron-") as results:
        if job.plugin:  # which hears no symbols
            (Path(results) / "kallsyms").write_text("0 T _text\n")
        machine = vm.VirtualMachine(
            architecture=replace(TARGET, qemu=job.qemu),
            kernel=kernels.find(KERNEL, TARGET.name).image,
            agent=compile.agent(workloads.find(job.workload), TARGET.compiler, time_slices=True),
            job=f"mode process\ncpus {job.cpus}\ntasks {job.cpus}\nstay\n"
            f"warmup {job.operations}\nsamples 1\n"
            f"operations {job.operations}\npatience_s 200\n"
            + "".join(f"record {probe}\n" for probe in job.probes or PROBES[0]),
            topology=Topology(cores=job.cpus),
            memory_mib=vm.memory_mib(job.cpus),
            deadline_s=500,
            plugin=job.plugin or (compile.recorder() if job.probes else None),
            results=Path(results),
            time_slices=True,  # else a CPU runs for 100 ms, and chance decides which operations are recorded
        )
        vm.run(machine, threading.Event(), on_stage)
    began = {stage: seconds for stage, seconds, _ in reversed(marks)}  # the first of each stage
    _, end, peak_mib = marks[-1]
    # The sample, which lasts no time, parts what arming costs from the warm-up.
    warm_up, recording = began["in warm-up"], began["in samples"]
    return Cost(began["starting tasks"], recording - warm_up, end - recording, end, peak_mib)


def _qemu_usage() -> tuple[float, float]:
    """CPU seconds and peak MiB so far of this thread's only child, which is QEMU."""
    qemu = Path("/proc") / Path("/proc/thread-self/children").read_text().split()[0]
    fields = (qemu / "stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    status = dict(line.split(":", 1) for line in (qemu / "status").read_text().splitlines())
    return ticks / os.sysconf("SC_CLK_TCK"), int(status["VmHWM"].split()[0]) / 1024


def side_by_side(jobs: Sequence[Job]) -> list[Cost]:
    """Measure several machines, two at the same time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(measure, jobs))


def compare(workload: str) -> list[tuple[float, float, float, float, float]]:
    """For each of PROBES: ratios of boot, warm-up, recording, the same with what it costs once; that in s."""
    choices = [(), *PROBES]
    many = [Job(workload, OPERATIONS[workload], probes=probes) for probes in choices]
    rounds = [side_by_side(many) for _ in range(ROUNDS)]
    one = side_by_side([replace(job, operations=1) for job in many])
    plain, *recorded = (
        (
            median(cost.boot for cost in costs),
            median(cost.warm_up for cost in costs),
            median(cost.recording for cost in costs),
            once.recording,
        )
        for costs, once in zip(zip(*rounds, strict=True), one, strict=True)
    )
    return [
        (
            boot / plain[0],
            warm_up / plain[1],
            (recording - once) / (plain[2] - plain[3]),
            recording / plain[2],
            once - plain[3],
        )
        for boot, warm_up, recording, once in recorded
    ]


def empty_callbacks(instrument: str, folder: Path) -> Path:
    """The plugin whose callbacks do nothing, for one kind of them."""
    here = Path(__file__).parent
    recorder = here.parents[1] / "plugin"
    sources = [here / "callbacks.c", *(recorder / "arch").glob("*.c")]
    flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-iquote", str(recorder)]
    made = folder / f"{instrument}.so"
    subprocess.run(["gcc", *flags, f"-DINSTRUMENT={instrument}", *map(str, sources), "-o", made], check=True)
    return made


def compare_kinds(console: Console) -> None:
    """What the recorded operations of open1 take, by kind of instrumentation, without what it costs once."""
    plain = Job("open1", OPERATIONS["open1"])
    with tempfile.TemporaryDirectory(prefix="bigiron-") as folder:
        jobs = {"no plugin": plain}
        for instrument, name in EMPTY.items():
            jobs[name] = replace(plain, plugin=empty_callbacks(instrument, Path(folder)))
        for probes in KINDS if TARGET.name == "x86_64" else PROBES:
            jobs[f"recorder, {','.join(probes)}"] = replace(plain, probes=probes)
        rounds = [side_by_side(list(jobs.values())) for _ in range(ROUNDS)]
        once = side_by_side([replace(job, operations=1) for job in jobs.values()])
    seconds = [
        median(cost.recording for cost in costs) - first.recording
        for costs, first in zip(zip(*rounds, strict=True), once, strict=True)
    ]
    table = Table("instrumentation, open1", "recording")
    for name, taken in zip(jobs, seconds, strict=True):
        table.add_row(name, f"{taken / seconds[0]:.2f}")
    console.print(table)


def contrib_plugins() -> list[Path]:
    """QEMU's own example plugins, where a distribution has them."""
    folders = [Path("/usr/lib"), Path("/usr/libexec"), Path("/usr/local/lib")]
    return [path for folder in folders for name in CONTRIB for path in folder.glob(f"**/qemu/**/{name}")]


def compare_contrib(console: Console) -> None:
    """Whole runs, boot included, of the recorder and of QEMU's own plugins."""
    plugins = contrib_plugins()
    if not plugins:
        console.print(f"Not compared with QEMU's own plugins: Debian ships no {' nor '.join(CONTRIB)}.")
        return
    plain = Job("open1", FEW_OPERATIONS)
    with tempfile.TemporaryDirectory(prefix="bigiron-") as folder:
        jobs = [plain, replace(plain, probes=PROBES[0])]
        for plugin in plugins:
            qemu = Path(folder) / plugin.stem
            qemu.write_text(f'#!/bin/sh\nexec {TARGET.qemu} "$@" -plugin {plugin}\n')
            qemu.chmod(0o755)
            jobs.append(replace(plain, qemu=str(qemu)))
        costs = side_by_side(jobs)
    ratios = [cost.all / costs[0].all for cost in costs]
    names = ["recorder", *(plugin.stem for plugin in plugins)]
    each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in zip(names, ratios[1:], strict=True))
    console.print(f"Whole runs, boot included, of {FEW_OPERATIONS} open1: {each}")


def main() -> None:
    """Print the table."""
    # With a core for each CPU, the machine without the recorder would use more than one thread.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    console = Console()
    console.print(
        f"The recorder's cost: {KERNEL} of {TARGET.name}, {CPUS} CPUs, QEMU {require_qemu(TARGET.qemu)}, "
        f"TCG with one thread, "
        f"median of {ROUNDS}; ratio of QEMU's CPU time with the recorder to without"
    )
    if sys.argv[2:] == ["kinds"]:
        compare_kinds(console)
        return
    table = Table("workload", "probes", "boot", "warm-up", "recording", "in all", "once")
    for workload in OPERATIONS:
        for probes, (*ratios, once) in zip(PROBES, compare(workload), strict=True):
            cells = [f"{ratio:.2f}" for ratio in ratios]
            table.add_row(workload, ",".join(probes), *cells, f"{once:.2f} s")
    console.print(table)
    compare_kinds(console)
    many = Job("open1", FEW_OPERATIONS, MANY_CPUS)
    without_it, *with_it = side_by_side([many, *(replace(many, probes=probes) for probes in PROBES)])
    for probes, cost in zip(PROBES, with_it, strict=True):
        console.print(
            f"QEMU's memory at most, open1, {MANY_CPUS} CPUs, {FEW_OPERATIONS} operations per task: "
            f"{cost.peak_mib:.0f} MiB with {','.join(probes)}, {without_it.peak_mib:.0f} MiB without: "
            f"{cost.peak_mib - without_it.peak_mib:.0f} MiB (goal: under 1024)"
        )
    compare_contrib(console)


if __name__ == "__main__":
    main()
