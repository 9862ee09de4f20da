"""`bigiron run`: measure a workload."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from bigiron import probes, workloads
from bigiron.analysis.statistics.spread import MOST_BOOTS
from bigiron.analysis.statistics.verdict import FIRST_LOOK, TOLERANCE
from bigiron.commands import explicit
from bigiron.commands.fleet import Certificates, FleetAddress, pools
from bigiron.commands.measure import measure_study
from bigiron.commands.options import Jobs, grouped, numbers, probe_names
from bigiron.errors import UserError
from bigiron.machines.vm import cgroup
from bigiron.machines.vm import topology as topologies
from bigiron.machines.vm.file_system import KINDS
from bigiron.probes import Options, ProbeOptions
from bigiron.study import extend
from bigiron.study import spec as specs
from bigiron.study.spec import Spec, Variant
from bigiron.study.sweep import sweep

_PROBES = ", ".join(one.name for one in probes.probes() if one.measures != ("command",))
_DEFAULT = ",".join(one.name for one in probes.probes() if one.by_default == "vm")


class Clock(StrEnum):
    """What a virtual machine's clock follows."""

    host = "host"
    instructions = "instructions"


class Mode(StrEnum):
    """What tasks are."""

    process = "process"
    thread = "thread"


@dataclass(frozen=True)
class What:
    """What is measured of what."""

    workload: Annotated[
        str | None, typer.Argument(help="a built-in workload, a STUDY.toml, or a study to go on with")
    ] = None
    workload_file: Annotated[
        Path | None, typer.Option(help="a C file with will-it-scale's testcase() instead of a workload")
    ] = None
    command: Annotated[
        str | None, typer.Option(help="an external command instead: 'fio --numjobs={tasks} ...'")
    ] = None
    probe: Annotated[
        str | None,
        typer.Option(
            help=f"what to record, of {_PROBES}; a study gets more by measuring its cells again  "
            f"[default: {_DEFAULT}; on a real machine throughput]"
        ),
    ] = None
    operations: Annotated[int, typer.Option(help="operations a task does while recorded")] = 500
    cpus: Annotated[
        str | None, typer.Option(help="numbers of CPUs: 2,4,8  [default: 8; real machines: all]")
    ] = None
    tasks: Annotated[str, typer.Option(help="'all' (one a CPU), or numbers: 1,8")] = "all"
    mode: Annotated[Mode, typer.Option(help="whether tasks are processes or threads")] = Mode.process
    cpus_to_cycle: Annotated[
        int, typer.Option(min=0, help="CPUs that go or come, in workloads of CPU hotplug; 0: all but one")
    ] = 0
    allow_hotplug: Annotated[
        bool, typer.Option("--allow-hotplug", help="let them do so on a real machine")
    ] = False


@dataclass(frozen=True)
class Variants:
    """What is compared."""

    kernel: Annotated[list[str] | None, typer.Option(help="debian/6.1, a name or a path; repeat it")] = None
    boot: Annotated[str, typer.Option(help="more kernel parameters")] = ""
    set_: Annotated[list[str] | None, typer.Option("--set", help="PATH=VALUE to write first; repeat")] = None
    boot_sweep: Annotated[
        list[str] | None, typer.Option(help="NAME=V1,V2: a variant for each value of a kernel parameter")
    ] = None
    set_sweep: Annotated[
        list[str] | None, typer.Option(help="PATH=V1,V2: a variant for each value of a setting; repeat")
    ] = None

    def all(self, machine: str) -> list[Variant]:
        """A variant for each kernel and each value of what is swept."""
        kernels = [
            Variant(name=name or machine, kernel=name, boot=self.boot, set=self.set_ or [])
            for name in self.kernel or [""]
        ]
        return sweep(kernels, self.boot_sweep or [], self.set_sweep or [])


@dataclass(frozen=True)
class Where:
    """The machines."""

    machine: Annotated[
        str,
        typer.Option(help="vm, host (the machine that bigiron runs on), or another: ssh://USER@HOST:PORT"),
    ] = "vm"
    arch: Annotated[str, typer.Option(help="architecture of the kernels")] = "x86_64"
    topology: Annotated[str, typer.Option(help="sockets=2,nodes=2,cores=4,threads=1, any of them")] = ""
    like: Annotated[
        str, typer.Option(help="a machine whose CPUs, nodes and memory it has: see bigiron machine list")
    ] = ""
    check_shape: Annotated[
        bool,
        typer.Option(
            "--check-shape",
            help="measure again with other memory, nodes, time slices and boot: what depends?",
        ),
    ] = False
    clock: Annotated[
        Clock, typer.Option(help="its clock: the host's, or the instructions that its CPUs execute")
    ] = Clock.host
    memory: Annotated[int, typer.Option(help="MiB a machine has; 0: by its CPUs")] = 0
    cgroup: Annotated[
        str,
        typer.Option(
            help="the control group of the tasks: none, or its depth and limits: depth=3,memory.max=1G  "
            "[default: depth=2]"
        ),
    ] = ""
    deadline: Annotated[int, typer.Option(help="seconds a cell may take; 0: by its CPUs")] = 0

    @property
    def kind(self) -> Literal["vm", "host", "ssh"]:
        """How they are reached."""
        if self.machine.startswith("ssh://"):
            return "ssh"
        if self.machine == "vm":
            return "vm"
        if self.machine == "host":
            return "host"
        raise UserError(f"--machine {self.machine!r}: use vm, host or ssh://USER@HOST")


@dataclass(frozen=True)
class FileSystems:
    """What a workload works on, in virtual machines."""

    fs: Annotated[str, typer.Option(help=f"a fresh file system for /tmp, in memory: {', '.join(KINDS)}")] = ""
    mkfs_options: Annotated[str, typer.Option(help="more options for its mkfs: '-O ^has_journal'")] = ""
    mount_options: Annotated[str, typer.Option(help="with which it is mounted: noatime,nobarrier")] = ""
    disk: Annotated[int, typer.Option(min=0, help="MiB of its disk in memory  [default: 16384]")] = 0


@dataclass(frozen=True)
class Repetitions:
    """How often a cell is measured."""

    reps: Annotated[
        int | None,
        typer.Option(
            help="repetitions of every cell, each on a boot of its own  [default: 1, and up to "
            f"{MOST_BOOTS} where counts of two kernels may differ by chance; 8 with --until-decided]"
        ),
    ] = None
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided", help="add repetitions until it is known whether throughput differs or not"
        ),
    ] = False
    tolerance: Annotated[
        float | None, typer.Option(help="a change that does not matter  [default: 0.02, which is 2 %]")
    ] = None
    max_time: Annotated[
        int | None, typer.Option(min=1, help="seconds after which --until-decided adds nothing more")
    ] = None


@dataclass(frozen=True)
class Running:
    """How it is run, and where its results go."""

    jobs: Jobs = 0
    fleet: FleetAddress = ""
    certificates: Certificates = None
    fresh_boot: Annotated[
        bool,
        typer.Option("--fresh-boot", help="boot a machine for each cell, instead of resuming a snapshot"),
    ] = False
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the study's folder; made, or gone on with")
    ] = None


@grouped(*probes.option_kinds())
def run(
    what: What,
    variants: Variants,
    where: Where,
    file_systems: FileSystems,
    repetitions: Repetitions,
    running: Running,
    *options: ProbeOptions,
) -> None:
    """Run a workload in virtual machines or on real ones, and keep what was recorded in a study.

    Run it again and only missing or failed cells run.

    Example: `bigiron run open1 --kernel debian/6.1 --kernel debian/6.12 --cpus 8 -o s`
    """
    output = running.output
    if file := _study_file(what.workload or ""):
        spec = extend.with_options(specs.read(file), explicit.question(), str(what.workload))
        output = output or (file.parent if Path(str(what.workload)).is_dir() else None)
    else:
        spec = question(what, variants, where, file_systems, repetitions, Options(*options))
    if output is None:
        raise UserError("no folder for the study: give -o FOLDER")
    if repetitions.until_decided != (repetitions.max_time is not None):
        raise UserError("--until-decided and --max-time SECONDS go together: the one ends with the other")
    with pools(running.fleet, running.certificates, running.jobs) as fleet:
        measure_study(
            spec,
            output,
            running.jobs,
            repetitions.max_time,
            fresh_boot=running.fresh_boot,
            fleet=fleet,
        )


def _study_file(word: str) -> Path | None:
    """The study file that a word names itself, or by its study's folder; None: it is a workload's name.

    A folder that is called like a workload can be named with its path: ./open1.
    """
    if word.endswith(".toml"):
        return Path(word)
    file = Path(word) / "study.toml"
    return file if word and word not in workloads.names() and file.is_file() else None


def question(
    what: What,
    variants: Variants,
    where: Where,
    file_systems: FileSystems,
    repetitions: Repetitions,
    options: Options,
) -> Spec:
    """The question that the options ask; UserError where they contradict each other."""
    if not (what.workload or what.workload_file or what.command):
        raise UserError("no workload: name one (`bigiron workload list`), or give --workload-file F.c")
    if what.command and what.workload:
        raise UserError(f"both a workload ({what.workload}) and --command: give one of them")
    kind = where.kind
    if not variants.kernel and kind == "vm" and not what.command:
        raise UserError("no kernel: give --kernel debian/6.12, or another (`bigiron kernel list`)")
    if variants.kernel and kind != "vm":
        raise UserError("a real machine runs the kernel that it runs: leave out --kernel, or --machine")
    if what.workload and what.workload_file:
        raise UserError(f"both a workload ({what.workload}) and --workload-file: give one of them")
    shape = topologies.parse(where.topology)
    first = FIRST_LOOK if repetitions.until_decided else 1
    return Spec(
        workload=what.workload or "",
        workload_file=str(what.workload_file) if what.workload_file else "",
        command=what.command or "",
        mode=what.mode.value,
        arch=where.arch,
        probes=[] if what.probe is None else probe_names(what.probe),
        machine=kind,
        address=where.machine if kind == "ssh" else "",
        allow_hotplug=what.allow_hotplug,
        cpus=numbers("--cpus", what.cpus) if what.cpus is not None else [],
        tasks="all" if what.tasks == "all" else numbers("--tasks", what.tasks),
        topology=str(shape),
        like=where.like,
        check_shape=where.check_shape,
        clock=where.clock.value,
        repetitions=first if repetitions.reps is None else repetitions.reps,
        most_boots=MOST_BOOTS if repetitions.reps is None else repetitions.reps,
        tolerance=TOLERANCE if repetitions.tolerance is None else repetitions.tolerance,
        operations=what.operations,
        cpus_to_cycle=what.cpus_to_cycle,
        options=options,
        memory_mib=where.memory,
        cgroup=str(cgroup.parse(where.cgroup)),
        fs=file_systems.fs,
        mkfs_options=file_systems.mkfs_options,
        mount_options=file_systems.mount_options,
        disk_mib=file_systems.disk,
        deadline_s=where.deadline,
        variant=variants.all(kind),
    )
