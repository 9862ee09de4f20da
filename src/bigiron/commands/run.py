"""`bigiron run`: measure a workload."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from bigiron.analysis.verdict import FIRST_LOOK, TOLERANCE
from bigiron.commands import explicit
from bigiron.commands.measure import measure_study
from bigiron.commands.options import numbers, words
from bigiron.errors import UserError
from bigiron.machines import topology as topologies
from bigiron.study import extend
from bigiron.study import spec as specs
from bigiron.study.spec import Spec, Variant
from bigiron.study.sweep import sweep


class Scope(StrEnum):
    """Whose memory is recorded."""

    kernel = "kernel"
    user = "user"


class Mode(StrEnum):
    """What tasks are."""

    process = "process"
    thread = "thread"


def run(
    workload: Annotated[
        str | None, typer.Argument(help="a built-in workload, a STUDY.toml, or a study to go on with")
    ] = None,
    kernel: Annotated[list[str] | None, typer.Option(help="debian/6.1, a name or a path; repeat it")] = None,
    workload_file: Annotated[
        Path | None, typer.Option(help="a C file with will-it-scale's testcase() instead of a workload")
    ] = None,
    command: Annotated[
        str | None, typer.Option(help="an external command instead: 'fio --numjobs={tasks} ...'")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="what to read in what it prints: fio, json:PATH, a regular expression with a group"
        ),
    ] = "",
    unit: Annotated[str, typer.Option(help="of the metric")] = "",
    less_is_better: Annotated[bool, typer.Option("--less-is-better", help="of the metric")] = False,
    machine: Annotated[
        str,
        typer.Option(help="vm, host (the machine that bigiron runs on), or another: ssh://USER@HOST:PORT"),
    ] = "vm",
    cpus: Annotated[str | None, typer.Option(help="numbers of CPUs: 2,4,8  [default: 8]")] = None,
    tasks: Annotated[str, typer.Option(help="'all' (one a CPU), or numbers: 1,8")] = "all",
    mode: Annotated[Mode, typer.Option(help="whether tasks are processes or threads")] = Mode.process,
    topology: Annotated[str, typer.Option(help="sockets=2,nodes=2,cores=4,threads=1, any of them")] = "",
    boot: Annotated[str, typer.Option(help="more kernel parameters")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help="PATH=VALUE to write first; repeat")] = None,
    boot_sweep: Annotated[
        list[str] | None, typer.Option(help="NAME=V1,V2: a variant for each value of a kernel parameter")
    ] = None,
    set_sweep: Annotated[
        list[str] | None, typer.Option(help="PATH=V1,V2: a variant for each value of a setting; repeat")
    ] = None,
    reps: Annotated[
        int | None, typer.Option(help="repetitions of every cell  [default: 1; 8 with --until-decided]")
    ] = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided", help="add repetitions until it is known whether throughput differs or not"
        ),
    ] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="a change that does not matter  [default: 0.02, which is 2 %]")
    ] = None,
    max_time: Annotated[
        int | None, typer.Option(min=1, help="seconds after which --until-decided adds nothing more")
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            help="what to record: conflicts,locks,work,functions,blocked,operations,efficiency,throughput  "
            "[default: conflicts; on a real machine throughput]"
        ),
    ] = None,
    scope: Annotated[
        Scope, typer.Option(help="conflicts in the kernel's memory, or the tasks' too")
    ] = Scope.kernel,
    operations: Annotated[int, typer.Option(help="operations a task does while recorded")] = 500,
    functions: Annotated[str, typer.Option(help="kernel functions to trace: NAME,NAME*, or 'auto'")] = "",
    depth: Annotated[int, typer.Option(help="how deep to trace; 1: without what they call")] = 2,
    blocked_min_us: Annotated[
        int, typer.Option(help="microseconds: leave shorter times off the CPU out of the probe blocked")
    ] = 0,
    cpus_to_cycle: Annotated[
        int, typer.Option(min=0, help="CPUs that go or come, in workloads of CPU hotplug; 0: all but one")
    ] = 0,
    allow_hotplug: Annotated[
        bool, typer.Option("--allow-hotplug", help="let them do so on a real machine")
    ] = False,
    arch: Annotated[str, typer.Option(help="architecture of the kernels")] = "x86_64",
    memory: Annotated[int, typer.Option(help="MiB a machine has; 0: by its CPUs")] = 0,
    deadline: Annotated[int, typer.Option(help="seconds a cell may take; 0: by its CPUs")] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="machines side by side; 0: by cores and memory")] = 0,
    live: Annotated[
        bool, typer.Option("--live", help="show the growing report to this machine's browsers meanwhile")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the study's folder; made, or gone on with")
    ] = None,
) -> None:
    """Run a workload in virtual machines or on real ones, and keep what was recorded in a study.

    Run it again and only missing or failed cells run.

    Example: `bigiron run open1 --kernel debian/6.1 --kernel debian/6.12 --cpus 8 -o s`
    """
    given = Path(workload) if workload else None
    if given and (given.suffix == ".toml" or (given / "study.toml").is_file()):
        file = given if given.suffix == ".toml" else given / "study.toml"
        spec = extend.with_options(specs.read(file), explicit.question(), str(given))
        output = output or (given if given.is_dir() else None)
    else:
        if not (workload or workload_file or command):
            raise UserError("no workload: name one (`bigiron workload list`), or give --workload-file F.c")
        if command and workload:
            raise UserError(f"both a workload ({workload}) and --command: give one of them")
        kind = _machine_kind(machine)
        if not kernel and kind == "vm" and not command:
            raise UserError("no kernel: give --kernel debian/6.12, or another (`bigiron kernel list`)")
        if kernel and kind != "vm":
            raise UserError("a real machine runs the kernel that it runs: leave out --kernel, or --machine")
        if workload and workload_file:
            raise UserError(f"both a workload ({workload}) and --workload-file: give one of them")
        shape = topologies.parse(topology)
        spec = Spec(
            workload=workload or "",
            workload_file=str(workload_file) if workload_file else "",
            command=command or "",
            metric=metric,
            unit=unit,
            less_is_better=less_is_better,
            mode=mode.value,
            arch=arch,
            probes=words(probe or ("metrics" if command else "conflicts" if kind == "vm" else "throughput")),
            machine=kind,
            address=machine if kind == "ssh" else "",
            allow_hotplug=allow_hotplug,
            cpus=numbers("--cpus", cpus) if cpus is not None else [shape.cpus or 8],
            tasks="all" if tasks == "all" else numbers("--tasks", tasks),
            topology=str(shape),
            repetitions=(FIRST_LOOK if until_decided else 1) if reps is None else reps,
            tolerance=TOLERANCE if tolerance is None else tolerance,
            operations=operations,
            scope=scope.value,
            cpus_to_cycle=cpus_to_cycle,
            functions=words(functions),
            depth=depth,
            blocked_min_us=blocked_min_us,
            memory_mib=memory,
            deadline_s=deadline,
            variant=sweep(
                [
                    Variant(name=name or kind, kernel=name, boot=boot, set=set_ or [])
                    for name in kernel or [""]
                ],
                boot_sweep or [],
                set_sweep or [],
            ),
        )
    if output is None:
        raise UserError("no folder for the study: give -o FOLDER")
    if until_decided != (max_time is not None):
        raise UserError("--until-decided and --max-time SECONDS go together: the one ends with the other")
    measure_study(spec, output, jobs, max_time, live)


def _machine_kind(machine: str) -> Literal["vm", "host", "ssh"]:
    if machine.startswith("ssh://"):
        return "ssh"
    if machine == "vm":
        return "vm"
    if machine == "host":
        return "host"
    raise UserError(f"--machine {machine!r}: use vm, host or ssh://USER@HOST")
