"""Checking a study's question before anything runs, and filling in hashes, kernels and defaults."""

import hashlib
import re
from pathlib import Path

import msgspec

from bigiron import kernels, probes, workloads
from bigiron.architectures import architecture, architectures
from bigiron.errors import UserError
from bigiron.machines import limits
from bigiron.machines.engine import Engine
from bigiron.machines.real import real, ssh
from bigiron.machines.vm import cgroup
from bigiron.machines.vm.file_system import MOST_DISK_MIB
from bigiron.probes import Probe, WorkloadKind
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.probes.metrics import MetricsOptions
from bigiron.probes.options import whole_number
from bigiron.simulator import machine_files
from bigiron.study import program
from bigiron.study.spec import MOST_CPUS, MOST_REPETITIONS, Spec, Variant, slug, whole
from bigiron.util.english import join_and
from bigiron.workloads import Workload

_MOST_TASKS = 64 * MOST_CPUS
_LEAST_MEMORY_MIB = 128  # Debian's kernels do not boot with 64 MiB, and do not print why

_NAME = re.compile(r"[\w.+/@:=, -]{1,80}")


def resolve(spec: Spec) -> tuple[Spec, Workload | None]:
    """Check everything that can be checked before a machine boots, and fill in what names can change.

    The path of a workload file becomes absolute, hashes are filled in, kernels are fetched. UserError if the
    study cannot run.
    """
    if bool(spec.address) != (spec.machine == "ssh"):
        raise UserError('address and machine = "ssh" belong together: give both or neither')
    if spec.address:
        ssh.check(spec.address)
    program.refuse_without_root(spec)
    if spec.command:
        return _resolve_command(spec), None
    workload = (
        workloads.from_file(Path(spec.workload_file)) if spec.workload_file else workloads.find(spec.workload)
    )
    check_numbers(spec)
    spec = _on_engine(_with_probes(spec, workload))
    chosen = [probes.probe(name) for name in spec.probes]
    if workload.has_rounds:
        spec = _for_rounds(spec, workload)
    elif spec.cpus_to_cycle:
        raise UserError(
            f"cpus_to_cycle = {spec.cpus_to_cycle}: {workload.name} takes no CPU offline or online"
        )
    for probe in chosen:
        _check_workload(probe, workload)
        if probe.needs_recorder and not spec.engine.emulated:
            raise UserError(f"probe {probe.name} is recorded in virtual machines only (--machine vm)")
        refuse_unknown(probe, spec.arch)
    check_options(spec)
    if spec.options[ConflictsOptions].scope == "user" and not architecture(spec.arch).user_memory:
        raise UserError(
            f"--scope user is not supported on {spec.arch} yet: leave it out, or use --arch x86_64 or ppc64le"
        )
    check_names(spec)
    return (
        msgspec.structs.replace(
            spec,
            workload=workload.name,
            workload_file=str(workload.source) if spec.workload_file else "",
            workload_sha256=workload.sha256,
            variant=[_resolve_variant(variant, spec) for variant in spec.variant],
        ),
        workload,
    )


def _with_probes(spec: Spec, workload: Workload) -> Spec:
    """The question with the default probes, if it names none."""
    kind: WorkloadKind = "bounded" if workload.has_rounds else "unbounded"
    engine = spec.engine
    default = probes.by_default(kind, engine.arch(spec.arch), in_vm=engine.emulated)
    return msgspec.structs.replace(spec, probes=spec.probes or default)


def not_recorded(probe: Probe, arch: str) -> str:
    """A sentence if a probe does not support an architecture, else ""."""
    target = architecture(arch).name
    known = not probe.only_on or target in (*probe.only_on, *probe.if_asked_on)
    return "" if known else f"probe {probe.name} is not supported on {target} yet"


def refuse_unknown(probe: Probe, arch: str) -> None:
    """UserError for a probe that does not support an architecture."""
    if lacking := not_recorded(probe, arch):
        raise UserError(f"{lacking}: use --arch {' or '.join(probe.only_on)}")


def _resolve_command(spec: Spec) -> Spec:
    """Like `resolve`, for an external command.

    On a real machine only its output is recorded; in a virtual one all that the machine does.
    """
    if not spec.engine.has_programs:
        raise UserError(
            "a command in a virtual machine needs a root file system: give --root debian:trixie+PACKAGE, or "
            "--machine host or ssh://USER@HOST"
        )
    if spec.root:
        spec = program.checked(spec)
    else:
        reading = [probe.name for probe in probes.probes() if "command" in probe.measures]
        if spec.workload_file or spec.probes not in ([], reading):
            raise UserError(
                "--command excludes --workload-file and --probe: only the command's output is read"
            )
        spec = msgspec.structs.replace(spec, probes=reading)
    for probe in probes.named(spec.probes):
        refuse_unknown(probe, spec.arch)
    check_options(spec)
    words = command_words(spec, 1)
    if not spec.takes_tasks and spec.tasks not in ("all", [1]):
        raise UserError(
            "--tasks needs {tasks} in --command, --service, --ready or --env, where the number is filled in"
        )
    check_numbers(spec)
    spec = _on_engine(spec)
    check_names(spec)
    if spec.root_disk:
        program.check_cpus(spec)
        program.check_times(spec)
        root = spec.root_disk.root
        spec = msgspec.structs.replace(spec, root=whole("root", spec.root), root_sha256=root.sha256)
    else:
        sha256 = real.program_sha256(spec.address, words[0])
        spec = msgspec.structs.replace(spec, workload_sha256=sha256)
    return msgspec.structs.replace(
        spec,
        workload=Path(words[0]).name,
        tasks=spec.tasks if spec.runs_program or spec.takes_tasks else [1],
        variant=[_resolve_variant(variant, spec) for variant in spec.variant],
    )


def command_words(spec: Spec, tasks: int) -> list[str]:
    """The words of the command with the number of tasks filled in. No shell interprets it.

    >>> command_words(Spec(command="fio --name='my job' --numjobs={tasks}", variant=[]), 4)
    ['fio', '--name=my job', '--numjobs=4']
    >>> command_words(Spec(command="fio --numjobs={cpus}", variant=[]), 4)
    Traceback (most recent call last):
    bigiron.errors.UserError: command: {cpus} is not filled in: write {tasks} for the number of tasks
    """
    words = program.with_tasks(program.words_of("command", spec.command), tasks)
    if "/" in words[0] and not words[0].startswith("/"):
        where = spec.folder or "/" if spec.root else "a temporary folder"
        raise UserError(f"command: it runs in {where}: give the absolute path of {words[0]}")
    return program.with_needed_option(spec, words)


def check_cpus(cpus: list[int]) -> None:
    """UserError if a number of CPUs is out of range or given twice."""
    _checked("cpus", cpus, MOST_CPUS)


def check_numbers(spec: Spec) -> None:
    """UserError if a number of the question is out of range."""
    if spec.cpus:
        check_cpus(spec.cpus)
    if spec.tasks != "all":
        _checked("tasks", spec.tasks, _MOST_TASKS)
    _check_repetitions(spec)
    _checked("most_boots", [spec.most_boots], MOST_REPETITIONS)
    _checked("operations", [spec.operations], 1 << 30)
    if spec.disk_mib:
        _checked("disk_mib", [spec.disk_mib], MOST_DISK_MIB)
    if spec.memory_mib:
        _checked("memory_mib", [spec.memory_mib], 1 << 30, least=_LEAST_MEMORY_MIB)
    if spec.deadline_s:
        _checked("deadline_s", [spec.deadline_s], 1 << 30)


def check_names(spec: Spec) -> None:
    """UserError if two variants would have the same cells' folders, or there is none."""
    names = [variant.name for variant in spec.variant]
    if not names or len({slug(name) for name in names}) < len(names):
        raise UserError(f"variants need different names: {', '.join(names)}" if names else "no variant")


def _on_engine(spec: Spec) -> Spec:
    """The question with the CPUs and the architecture of the engine."""
    engine = spec.engine
    if not engine.emulated and (spec.topology or spec.memory_mib or spec.like):
        raise UserError(
            f"topology, memory and like are for virtual machines: {real.name(spec.address)} is a real one"
        )
    if not engine.emulated and spec.cgroup:
        raise UserError(
            f"cgroup = {spec.cgroup!r} is for virtual machines: on {real.name(spec.address)} tasks run in "
            "the control group in which bigiron was started"
        )
    spec = msgspec.structs.replace(spec, cgroup=str(cgroup.parse(spec.cgroup)))
    _check_file_system(spec, engine)
    spec = _with_clock(spec)
    _check_clock(spec, engine)
    if spec.check_shape and probes.DEFAULT not in spec.probes:
        raise UserError(f"check_shape compares shared cache lines: add --probe {probes.DEFAULT}")
    if spec.check_shape and not engine.emulated:
        raise UserError(
            "check_shape works only in virtual machines: a real machine's memory and nodes cannot be changed"
        )
    if spec.like and spec.topology:
        raise UserError(f"both like = {spec.like!r} and topology = {spec.topology!r}: give one of them")
    if spec.like:
        digest = hashlib.sha256(machine_files.text(spec.like).encode()).hexdigest()
        spec = msgspec.structs.replace(spec, like=whole("like", spec.like), like_sha256=digest)
    spec = msgspec.structs.replace(spec, cpus=engine.cpus(spec.cpus), arch=engine.arch(spec.arch))
    if spec.like and (found := machine_files.load(spec.like, spec.arch).architecture) != spec.arch:
        raise UserError(
            f"{spec.like} is a machine of {found}, but the kernels are of {spec.arch}: "
            f"give --arch {found}, or another machine"
        )
    return spec


def _with_clock(spec: Spec) -> Spec:
    """The question with a clock. By the host's, a program would mostly be interrupted by ticks."""
    by_instructions = spec.runs_program and architecture(spec.arch).clock
    return msgspec.structs.replace(spec, clock=spec.clock or ("instructions" if by_instructions else "host"))


def _check_clock(spec: Spec, engine: Engine) -> None:
    if spec.clock == "host":
        return
    if not (engine.emulated and architecture(spec.arch).clock):
        able = join_and([one.name for one in architectures() if one.clock])
        raise UserError(f"clock = {spec.clock!r} is only for virtual machines of {able}: leave it out")
    if long := [probe.name for probe in probes.named(spec.probes) if probe.lasts_seconds]:
        raise UserError(
            f"clock = {spec.clock!r}: {long[0]} measures for seconds of the machine's clock, and each second "
            "would take minutes: leave one of the two out"
        )


def _check_file_system(spec: Spec, engine: Engine) -> None:
    asked = spec.file_system
    if not asked and (spec.mkfs_options or spec.mount_options or spec.disk_mib):
        raise UserError("mkfs options, mount options and a disk size need a file system: give --fs too")
    if asked and not engine.emulated:
        raise UserError(
            f"fs = {spec.fs!r} is only for virtual machines; on {real.name(spec.address)} workloads use "
            "/tmp: mount the file system there, and leave out --fs"
        )
    if asked:
        asked.check()


def _check_repetitions(spec: Spec) -> None:
    most = _checked("repetitions", [spec.repetitions], MOST_REPETITIONS)[0]
    for look in spec.look:
        most = _checked("look.repetitions", [look.repetitions], MOST_REPETITIONS, least=most + 1)[0]
    if not 0 < spec.tolerance < 1:
        raise UserError(f"tolerance = {spec.tolerance}: use a share between 0 and 1, 0.02 for 2 %")


def check_options(spec: Spec) -> None:
    """Check the options of the recorded probes. UserError for an option of another probe."""
    for probe in probes.probes():
        if spec.runs_program and probe.options is MetricsOptions:
            continue  # it names the operations of the program
        if probe.options and probe.name in spec.probes:
            spec.options[probe.options].check()
        elif probe.options and probe.options in spec.options:
            raise UserError(spec.options[probe.options].refusal(probe.name))


def _check_workload(probe: Probe, workload: Workload) -> None:
    """UserError if the probe cannot measure this kind of workload."""
    if ("bounded" if workload.has_rounds else "unbounded") in probe.measures:
        return
    if workload.has_rounds and "unbounded" in probe.measures:
        instead = [one.name for one in probes.probes() if one.measures == ("bounded",)]
        raise UserError(
            f"probe {probe.name} is for workloads that run until they are stopped: "
            f"measure {workload.name} with {' or '.join(instead)}"
        )
    if "command" in probe.measures:
        raise UserError(f"probe {probe.name} reads the output of an external command: give --command")
    raise UserError(f"probe {probe.name} measures CPU-hotplug workloads, not {workload.name}")


def _for_rounds(spec: Spec, workload: Workload) -> Spec:
    """Check a CPU-hotplug workload, which has one task with one operation per CPU to cycle."""
    if spec.tasks not in ("all", [1]) or spec.mode != "process":
        raise UserError(f"{workload.name} runs as one process: leave out --tasks and --mode")
    most = min(spec.cpus) - 1
    if not 0 <= spec.cpus_to_cycle <= most:
        raise UserError(
            f"cpus_to_cycle = {spec.cpus_to_cycle}: at most {most} of {most + 1} CPUs can go offline"
        )
    return msgspec.structs.replace(spec, tasks=[1])


def check_variant_name(name: str) -> str:
    """Returns the name. UserError if it is not a valid name of a variant."""
    if not _NAME.fullmatch(name) or not slug(name):
        raise UserError(f"variant {name!r}: use at most 80 letters, digits and signs of . + / @ : = , -")
    return name


def _checked(what: str, numbers: list[int], most: int, least: int = 1) -> list[int]:
    for number in numbers or [0]:
        whole_number(what, number, most, least)
        if numbers.count(number) > 1:
            raise UserError(f"{what} = {number} is given twice: use --reps to repeat a measurement")
    return numbers


def _resolve_variant(variant: Variant, spec: Spec) -> Variant:
    engine = spec.engine
    check_variant(variant)
    if engine.emulated and not variant.kernel:
        raise UserError(f"variant {variant.name} has no kernel: name one, such as debian/6.12")
    kernel = engine.kernel(variant.kernel, variant.boot)
    if variant.kernel_sha256 not in ("", kernel.sha256):
        raise UserError(
            f"variant {variant.name}: the image of kernel {variant.kernel} here ({kernel.sha256[:12]}) is "
            f"not the one that the study asks for ({variant.kernel_sha256[:12]})"
        )
    checks = [probe.check_kernel for probe in probes.named(spec.probes) if probe.check_kernel]
    if checks and engine.emulated:
        found = kernels.find(kernel.name, spec.arch)
        for check in checks:
            check(found)
    return msgspec.structs.replace(variant, kernel=kernel.name, kernel_sha256=kernel.sha256)


def check_variant(variant: Variant) -> None:
    """UserError if a variant's name, boot parameters or settings are invalid."""
    check_variant_name(variant.name)
    if not variant.boot.isprintable() or len(variant.boot) > 1500:
        raise UserError(
            f"variant {variant.name}: boot parameters must be one printable line of at most 1500 characters"
        )
    limits.check(f"variant {variant.name}: settings", variant.set, limits.MAX_SETTINGS)
    for setting in variant.set:
        path, equals, _value = setting.partition("=")
        if not equals or not path.startswith("/"):
            raise UserError(f"setting {setting!r}: use PATH=VALUE, for instance /sys/kernel/rcu_expedited=1")
