"""`bigiron run`: measure a workload."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer

from bigiron import probes, workloads
from bigiron.analysis.statistics.spread import MOST_BOOTS, PROGRAM_BOOTS
from bigiron.analysis.statistics.verdict import FIRST_LOOK, TOLERANCE
from bigiron.commands.common import explicit
from bigiron.commands.common.measure import measure_study
from bigiron.commands.common.options import (
    KERNELS,
    MACHINE,
    PROGRAM,
    RECORD,
    RESULTS,
    STATISTICS,
    WORKLOAD,
    Jobs,
    grouped,
    numbers,
    probe_names,
)
from bigiron.commands.setup.fleet import Certificates, FleetAddress, pools
from bigiron.errors import UserError
from bigiron.kernels import shown
from bigiron.machines.vm import cgroup
from bigiron.machines.vm import topology as topologies
from bigiron.machines.vm.file_system import KINDS
from bigiron.probes import AllProbeOptions, ProbeOptions
from bigiron.study import extend
from bigiron.study import spec as specs
from bigiron.study.spec import Spec, Variant
from bigiron.study.sweep import sweep

_PROBES = ", ".join(one.name for one in probes.probes() if one.measures != ("command",))
_DEFAULT = ",".join(one.name for one in probes.probes() if one.by_default == "vm")


class Clock(StrEnum):
    """What drives a virtual machine's clock."""

    host = "host"
    instructions = "instructions"


class Mode(StrEnum):
    """Whether tasks are processes or threads."""

    process = "process"
    thread = "thread"


@dataclass(frozen=True)
class WorkloadOptions:
    """What to run, and what to record of it."""

    panel: ClassVar[str] = WORKLOAD

    workload: Annotated[
        str | None,
        typer.Argument(help="a built-in workload, a STUDY.toml, or the folder of a study to continue"),
    ] = None
    workload_file: Annotated[
        Path | None, typer.Option(help="run the testcase() of this C file (will-it-scale's interface)")
    ] = None
    command: Annotated[
        str | None,
        typer.Option(help="run this command: 'fio --numjobs={tasks} ...'; in a virtual machine with --root"),
    ] = None
    probe: Annotated[
        str | None,
        typer.Option(
            help=f"what to record, separated by commas: {_PROBES}. A probe that a study lacks is added by "
            f"measuring its cells again  [default: {_DEFAULT}; on real machines: throughput]",
            rich_help_panel=RECORD,
        ),
    ] = None
    operations: Annotated[
        int, typer.Option(help="operations of each task that are recorded", rich_help_panel=RECORD)
    ] = 500
    cpus: Annotated[
        str | None,
        typer.Option(
            help="CPU counts, separated by commas: 2,4,8  [default: 8; on real machines: all CPUs]",
            rich_help_panel=MACHINE,
        ),
    ] = None
    tasks: Annotated[str, typer.Option(help="task counts: 'all' (one per CPU), or numbers: 1,8")] = "all"
    mode: Annotated[Mode, typer.Option(help="run the tasks as processes or as threads")] = Mode.process
    cpus_to_cycle: Annotated[
        int,
        typer.Option(min=0, help="CPUs to take offline and online (CPU-hotplug workloads); 0: all but one"),
    ] = 0
    allow_hotplug: Annotated[
        bool, typer.Option("--allow-hotplug", help="permit CPU hotplug on a real machine")
    ] = False


@dataclass(frozen=True)
class ProgramOptions:
    """A command in a virtual machine: where it runs, beside what, and which part of it is recorded."""

    panel: ClassVar[str] = PROGRAM

    root: Annotated[
        str,
        typer.Option(
            help="root file system that the command runs in: debian:trixie+stress-ng, a folder or an archive"
        ),
    ] = ""
    service: Annotated[
        list[str] | None, typer.Option(help="start this server before the command; may be repeated")
    ] = None
    ready: Annotated[
        list[str] | None,
        typer.Option(help="run this command until it succeeds: then the service is ready; one per --service"),
    ] = None
    ready_port: Annotated[
        list[int] | None, typer.Option(help="wait until something listens on this port; may be repeated")
    ] = None
    env: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the command and its services; may be repeated")
    ] = None
    user: Annotated[str, typer.Option(help="user of the root that they run as  [default: root]")] = ""
    folder: Annotated[str, typer.Option(help="folder of the root that they work in  [default: /]")] = ""
    command_cpus: Annotated[str, typer.Option(help="CPUs that the command may use, as in 0-3,8")] = ""
    service_cpus: Annotated[str, typer.Option(help="CPUs that the services may use")] = ""
    begin_at: Annotated[
        str, typer.Option(help="record from the first line of the command's output that this matches")
    ] = ""
    end_at: Annotated[str, typer.Option(help="record up to the first later line that this matches")] = ""
    warm_up: Annotated[
        float, typer.Option(help="seconds after the command's start at which recording begins (VM time)")
    ] = 0
    for_: Annotated[float, typer.Option("--for", help="seconds of the command to record (VM time)")] = 0
    marked: Annotated[
        bool, typer.Option("--marked", help="record between `bigiron-mark begin` and `bigiron-mark end`")
    ] = False
    per: Annotated[
        str,
        typer.Option(
            help="count per system-call, per instruction (a million in user mode) or per call of the system "
            "call NAME; without it `run` counts per operation of --metric"
        ),
    ] = ""

    time_slice_instructions: Annotated[
        int,
        typer.Option(
            help="instructions after which the emulator's next CPU runs; 0: 5000", rich_help_panel=RECORD
        ),
    ] = 0

    @property
    def question(self) -> dict[str, Any]:
        """The keys of study.toml."""
        return {
            "time_slice_instructions": self.time_slice_instructions,
            "root": self.root and specs.whole("root", self.root),
            "service": self.service or [],
            "ready": self.ready or [],
            "ready_port": self.ready_port or [],
            "env": self.env or [],
            "user": self.user,
            "folder": self.folder,
            "command_cpus": self.command_cpus,
            "service_cpus": self.service_cpus,
            "begin_at": self.begin_at,
            "end_at": self.end_at,
            "warm_up_s": self.warm_up,
            "record_s": self.for_,
            "marked": self.marked,
            "per": self.per,
        }


@dataclass(frozen=True)
class Variants:
    """What is compared."""

    panel: ClassVar[str] = KERNELS

    kernel: Annotated[
        list[str] | None,
        typer.Option(help="debian/6.1, fedora/43, a name, a path or TREE@REF; may be repeated"),
    ] = None
    boot: Annotated[str, typer.Option(help="additional kernel parameters")] = ""
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="PATH=VALUE: write VALUE to PATH before the workload starts; may be repeated"
        ),
    ] = None
    boot_sweep: Annotated[
        list[str] | None, typer.Option(help="NAME=V1,V2: one variant for each value of a kernel parameter")
    ] = None
    set_sweep: Annotated[
        list[str] | None,
        typer.Option(help="PATH=V1,V2: one variant for each value of a setting; may be repeated"),
    ] = None

    def all(self, machine: str) -> list[Variant]:
        """A variant for each kernel and each swept value."""
        kernels = [
            Variant(name=shown(name) or machine, kernel=name, boot=self.boot, set=self.set_ or [])
            for name in self.kernel or [""]
        ]
        return sweep(kernels, self.boot_sweep or [], self.set_sweep or [])


@dataclass(frozen=True)
class MachineOptions:
    """The machines that run the workload."""

    panel: ClassVar[str] = MACHINE

    machine: Annotated[
        str,
        typer.Option(help="vm, host (this machine) or ssh://USER@HOST:PORT (another machine)"),
    ] = "vm"
    arch: Annotated[str, typer.Option(help="architecture of the kernels: x86_64, aarch64 or ppc64le")] = (
        "x86_64"
    )
    topology: Annotated[
        str,
        typer.Option(
            help="topology of the virtual machine, all or part of sockets=2,nodes=2,cores=4,threads=1"
        ),
    ] = ""
    like: Annotated[
        str, typer.Option(help="take CPUs, nodes and memory from this machine (`bigiron machine list`)")
    ] = ""
    check_shape: Annotated[
        bool,
        typer.Option(
            "--check-shape",
            help="repeat with other memory, nodes, time slice and boot to find results that depend on them",
        ),
    ] = False
    clock: Annotated[
        Clock | None,
        typer.Option(
            help="drive the virtual machine's clock by the host's time, or by executed instructions  "
            "[default: host; instructions for a program]"
        ),
    ] = None
    memory: Annotated[int, typer.Option(help="MiB of memory of a virtual machine; 0: by its CPU count")] = 0
    cgroup: Annotated[
        str,
        typer.Option(
            help="control group of the tasks: none, or its depth and limits, as in depth=3,memory.max=1G  "
            "[default: depth=2]"
        ),
    ] = ""
    deadline: Annotated[
        int, typer.Option(help="seconds that a cell may take; 0: by its CPU count", rich_help_panel=RESULTS)
    ] = 0

    @property
    def kind(self) -> Literal["vm", "host", "ssh"]:
        """How the machine is reached."""
        if self.machine.startswith("ssh://"):
            return "ssh"
        if self.machine == "vm":
            return "vm"
        if self.machine == "host":
            return "host"
        raise UserError(f"--machine {self.machine!r}: use vm, host or ssh://USER@HOST")


@dataclass(frozen=True)
class FileSystems:
    """The file system that a workload uses in virtual machines."""

    panel: ClassVar[str] = WORKLOAD

    fs: Annotated[
        str, typer.Option(help=f"make a file system of this kind in memory for /tmp: {', '.join(KINDS)}")
    ] = ""
    mkfs_options: Annotated[str, typer.Option(help="additional mkfs options: '-O ^has_journal'")] = ""
    mount_options: Annotated[str, typer.Option(help="mount options: noatime,nobarrier")] = ""
    disk: Annotated[int, typer.Option(min=0, help="MiB of the in-memory disk of --fs; 0: 16384")] = 0


@dataclass(frozen=True)
class RepetitionOptions:
    """How often a cell is measured."""

    panel: ClassVar[str] = STATISTICS

    reps: Annotated[
        int | None,
        typer.Option(
            help="repetitions of every cell, each after a boot of its own  [default: 1, and up to "
            f"{MOST_BOOTS} where the counts of two kernels may differ by chance; 8 with --until-decided]"
        ),
    ] = None
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help="add repetitions until the throughput of the variants is known to differ or not",
        ),
    ] = False
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="the largest change of throughput that does not matter  [default: 0.02, which is 2 %]"
        ),
    ] = None
    max_time: Annotated[
        int | None, typer.Option(min=1, help="seconds after which --until-decided stops adding repetitions")
    ] = None


@dataclass(frozen=True)
class ExecutionOptions:
    """How cells are run, and where results go."""

    panel: ClassVar[str] = RESULTS

    jobs: Jobs = 0
    fleet: FleetAddress = ""
    certificates: Certificates = None
    fresh_boot: Annotated[
        bool,
        typer.Option(
            "--fresh-boot", help="boot a virtual machine for each cell instead of resuming a snapshot"
        ),
    ] = False
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the study's folder: a new one, or one to continue")
    ] = None


@grouped(*probes.option_kinds(), panel=RECORD)
def run(
    workload: WorkloadOptions,
    program: ProgramOptions,
    file_systems: FileSystems,
    variants: Variants,
    machine: MachineOptions,
    repetitions: RepetitionOptions,
    execution: ExecutionOptions,
    *options: ProbeOptions,
) -> None:
    """Run a workload in virtual machines or on real ones, and keep the results in a study.

    The same command again runs only the cells that are missing or failed.

    Example: `bigiron run open1 --kernel debian/6.1 --kernel debian/6.12 --cpus 8 -o s`
    """
    output = execution.output
    if file := _study_file(workload.workload or ""):
        spec = extend.with_options(specs.read(file), explicit.question(), str(workload.workload))
        output = output or (file.parent if Path(str(workload.workload)).is_dir() else None)
    else:
        spec = question(
            workload, program, variants, machine, file_systems, repetitions, AllProbeOptions(*options)
        )
    if output is None:
        raise UserError("no folder for the study: give -o FOLDER")
    if repetitions.until_decided != (repetitions.max_time is not None):
        raise UserError("--until-decided and --max-time SECONDS need each other: give both")
    with pools(execution.fleet, execution.certificates, execution.jobs) as fleet:
        measure_study(
            spec,
            output,
            execution.jobs,
            repetitions.max_time,
            fresh_boot=execution.fresh_boot,
            fleet=fleet,
        )


def _study_file(word: str) -> Path | None:
    """The study file that the word names, or that lies in the folder of that name; None: a workload's name.

    A folder with the name of a workload can be given with a path: ./open1.
    """
    if word.endswith(".toml"):
        return Path(word)
    file = Path(word) / "study.toml"
    return file if word and word not in workloads.names() and file.is_file() else None


def question(
    workload: WorkloadOptions,
    program: ProgramOptions,
    variants: Variants,
    machine: MachineOptions,
    file_systems: FileSystems,
    repetitions: RepetitionOptions,
    options: AllProbeOptions,
) -> Spec:
    """The study that the options describe; UserError where they contradict each other."""
    if not (workload.workload or workload.workload_file or workload.command):
        raise UserError("no workload: name one (`bigiron workload list`), or give --workload-file F.c")
    if workload.command and workload.workload:
        raise UserError(f"both a workload ({workload.workload}) and --command: give one of them")
    kind = machine.kind
    if not variants.kernel and kind == "vm" and (program.root or not workload.command):
        raise UserError("no kernel: give --kernel debian/6.12, or one of `bigiron kernel list`")
    if variants.kernel and kind != "vm":
        raise UserError("the kernel of a real machine cannot be chosen: leave out --kernel, or --machine")
    if workload.workload and workload.workload_file:
        raise UserError(f"both a workload ({workload.workload}) and --workload-file: give one of them")
    shape = topologies.parse(machine.topology)
    first = FIRST_LOOK if repetitions.until_decided else 1
    most = PROGRAM_BOOTS if program.root else MOST_BOOTS
    return Spec(
        workload=workload.workload or "",
        workload_file=str(workload.workload_file) if workload.workload_file else "",
        command=workload.command or "",
        **program.question,
        mode=workload.mode.value,
        arch=machine.arch,
        probes=[] if workload.probe is None else probe_names(workload.probe),
        machine=kind,
        address=machine.machine if kind == "ssh" else "",
        allow_hotplug=workload.allow_hotplug,
        cpus=numbers("--cpus", workload.cpus) if workload.cpus is not None else [],
        tasks="all" if workload.tasks == "all" else numbers("--tasks", workload.tasks),
        topology=str(shape),
        like=machine.like,
        check_shape=machine.check_shape,
        clock=machine.clock.value if machine.clock else "",
        repetitions=first if repetitions.reps is None else repetitions.reps,
        most_boots=most if repetitions.reps is None else repetitions.reps,
        tolerance=TOLERANCE if repetitions.tolerance is None else repetitions.tolerance,
        operations=workload.operations,
        cpus_to_cycle=workload.cpus_to_cycle,
        options=options,
        memory_mib=machine.memory,
        cgroup=str(cgroup.parse(machine.cgroup)),
        fs=file_systems.fs,
        mkfs_options=file_systems.mkfs_options,
        mount_options=file_systems.mount_options,
        disk_mib=file_systems.disk,
        deadline_s=machine.deadline,
        variant=variants.all(kind),
    )
