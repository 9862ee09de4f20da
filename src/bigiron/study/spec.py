"""What a study asks: study.toml, or the command line's options, as one typed value."""

import hashlib
import re
import shlex
from pathlib import Path
from typing import Any, Literal

import msgspec

from bigiron import probes, workloads
from bigiron.analysis.statistics import spread, verdict
from bigiron.analysis.statistics.verdict import Look
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.machines import limits
from bigiron.machines.engine import Engine
from bigiron.machines.real import real, ssh
from bigiron.machines.vm import cgroup
from bigiron.machines.vm.file_system import MOST_DISK_MIB, FileSystem
from bigiron.probes import Options, Probe, WorkloadKind
from bigiron.probes.options import read_options, whole_number
from bigiron.simulator import machine_files
from bigiron.study import engines
from bigiron.util import decode, sanitize
from bigiron.workloads import Workload

FORMAT = 2
MOST_CPUS = 8192  # that Linux is built for, on x86; guest/affinity.h
_MOST_TASKS = 64 * MOST_CPUS
MOST_REPETITIONS = 1000
LEAST_MEMORY_MIB = 128  # Debian's kernels do not boot with 64, and do not say why

_NAME = re.compile(r"[\w.+/@:=, -]{1,80}")


class Variant(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A kernel, its boot parameters and its run-time settings: one column of a comparison."""

    name: str
    kernel: str = ""
    """On a real machine its own: filled in when the study is made."""
    boot: str = ""
    set: list[str] = []
    """Settings as PATH=VALUE, written in the guest before the workload starts. NAME=VALUE of a design."""
    kernel_sha256: str = ""
    """Of the image; filled in when the study is made, so that it can only go on with the same kernel.

    Where it is given before, only that image will do.
    """


class Simulation(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How a design is simulated, where the machine is simulated."""

    machine: str = ""
    """Of those that come with bigiron, or a file."""
    machine_sha256: str = ""
    """Of its file; filled in when the study is made."""
    warmup_ms: float = 100
    """Virtual time before anything is counted."""
    duration_ms: float = 100
    """Virtual time that is counted; 0: until the design has come to its end."""
    timeline_us: float = 0
    """For how long after the warmup a timeline is kept."""
    ranges: bool = False
    """Whether each repetition but the first has another machine, drawn from all ranges of its file."""

    @property
    def to_the_end(self) -> bool:
        """Whether the design ends by itself."""
        return self.duration_ms == 0


class Spec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A study's question. Every list multiplies the cells: variants x cpus x tasks x repetitions."""

    format: int = FORMAT
    workload: str = ""
    workload_file: str = ""
    workload_sha256: str = ""
    """Of the C file; filled in when the study is made."""
    command: str = ""
    """An external command instead of a workload; `{tasks}` in it stands for the number of tasks."""
    mode: Literal["process", "thread"] = "process"
    machine: str = "vm"
    """Where it runs: `vm`, `host` (the machine that bigiron runs on), `ssh`, as study/engines.py knows."""
    address: str = ""
    """Of the other machine: ssh://USER@HOST:PORT."""
    allow_hotplug: bool = False
    """Whether workloads of CPU hotplug may take CPUs of a real machine offline."""
    arch: str = "x86_64"
    probes: list[str] = []
    """None: those that are recorded by default, which are filled in when the study is made."""
    cpus: list[int] = []
    """None: those of the topology or of the machine that it is like, else 8; of a real machine all."""
    tasks: Literal["all"] | list[int] = "all"
    topology: str = ""
    like: str = ""
    """Of virtual machines: the machine whose shape they have, by name or file, instead of `topology`."""
    like_sha256: str = ""
    """Of its file; filled in when the study is made."""
    repetitions: int = 1
    most_boots: int = spread.MOST_BOOTS
    """Of each kernel. Each repetition has a boot of its own; more are added where counts differ by chance."""
    look: list[Look] = []
    """Repetitions that were added since, where something was undecided; each has more than the one before."""
    tolerance: float = verdict.TOLERANCE
    """A relative change of a time or a throughput up to which it counts as unchanged."""
    operations: int = 500
    """That each task does while it is recorded."""
    cpus_to_cycle: int = 0
    """How many CPUs a workload of CPU hotplug takes offline or online; 0: all but the first."""
    options: Options = msgspec.field(default_factory=Options)
    """Of the probes. In study.toml they stand among the other keys."""
    simulation: Simulation = Simulation()
    """Where the machine is simulated, the workload is a design."""
    time_slice: Literal["operation", "time"] = "operation"
    """What ends a CPU's time slice where one thread runs all CPUs of a virtual machine: each operation of
    its task, or the emulator's clock alone."""
    clock: Literal["host", "instructions"] = "host"
    """What a virtual machine's clock follows while its tasks run: the host's; or the instructions of its
    CPUs, about as many in a nanosecond as a processor's."""
    memory_mib: int = 0
    """Of a machine; 0: by its CPUs."""
    cgroup: str = ""
    """Of a virtual machine: the control group that tasks run in, as bigiron.machines.cgroup has it; `none`:
    the root group."""
    fs: str = ""
    """Of a virtual machine: the file system that the workload works on; none: the machine's tmpfs."""
    mkfs_options: str = ""
    mount_options: str = ""
    disk_mib: int = 0
    """Of the disk in memory on which it lies; 0: 16 GiB."""
    check_shape: bool = False
    """Whether each cell is measured again on machines of other shapes (bigiron.machines.shape_change)."""
    deadline_s: int = 0
    """For a cell; 0: by its CPUs."""
    variant: list[Variant]

    @property
    def interleaved(self) -> bool:
        """Whether the variants of each repetition ran beside each other, in random order."""
        return not (self.engine.is_model or self.engine.is_imported)

    @property
    def has_metrics(self) -> bool:
        """Whether it measures something that has noise, and more or less of which is better."""
        return any(probe.samples for probe in probes.named(self.probes))

    @property
    def is_booted_again(self) -> bool:
        """Whether its repetitions are boots that are added where counts of two variants differ by chance."""
        counts = any(probe.has_verdicts for probe in probes.named(self.probes))
        return self.engine.emulated and counts and not self.measures_time

    @property
    def measures_time(self) -> bool:
        """Whether machines that run side by side would change what it measures."""
        return any(probe.measures_time for probe in probes.named(self.probes))

    @property
    def changes_code(self) -> bool:
        """Whether a kernel changes its own code for what it measures."""
        return any(probe.changes_code for probe in probes.named(self.probes))

    @property
    def engine(self) -> Engine:
        """What runs its cells."""
        return engines.engine(self)

    @property
    def file_system(self) -> FileSystem | None:
        """What the workload works on, if it is asked for."""
        if not self.fs:
            return None
        return FileSystem(self.fs, self.mkfs_options, self.mount_options, self.disk_mib)


_AS_THEY_ARE = ("set", "command")  # they go to a machine; who shows them makes them visible


def read(path: Path) -> Spec:
    """Read a study.toml; UserError says what is wrong and where."""
    try:
        return from_toml(path.read_bytes(), str(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def from_toml(content: bytes, name: str) -> Spec:
    """Read the content of a study.toml that is called `name`."""
    try:
        document = msgspec.toml.decode(content)
        options, rest = read_options(probes.option_kinds(), sanitize.everywhere(document, _AS_THEY_ARE))
        spec = msgspec.structs.replace(decode.convert(rest, Spec), options=options)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: {_in_words(str(error))}") from None
    if spec.format != FORMAT:
        raise UserError(
            f"{name} has format {spec.format} and this bigiron reads {FORMAT}: use the version that made it"
        )
    try:
        engines.engine(spec)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return spec


def document(spec: Spec) -> dict[str, Any]:
    """What study.toml says, as plain values."""
    found: dict[str, Any] = msgspec.to_builtins(spec, enc_hook=_flat)
    options: dict[str, Any] = found.pop("options")
    return found | options


def _flat(options: object) -> dict[str, Any]:
    assert isinstance(options, Options)
    return {
        key: value
        for kind in probes.option_kinds()
        for key, value in msgspec.structs.asdict(options[kind]).items()
    }


def to_toml(spec: Spec) -> bytes:
    """The content of study.toml."""
    return msgspec.toml.encode(document(spec))


def _in_words(message: str) -> str:
    """What msgspec says: `Expected `int`, got `str` - at `$.cpus[0]``, with the place in TOML's own words."""
    return message.replace("$.", "").replace("Object", "The study")


def resolve(spec: Spec) -> tuple[Spec, Workload | None]:
    """Check everything that can be checked before a machine boots, and fix what names can change.

    A workload file's path becomes absolute, hashes are filled in; kernels are fetched. UserError for what
    cannot be run.
    """
    if bool(spec.address) != (spec.machine == "ssh"):
        raise UserError('address is that of a machine by ssh: give both, machine = "ssh" and address')
    if spec.address:
        ssh.check(spec.address)
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
        if lacking := not_recorded(probe, spec.arch):
            raise UserError(f"{lacking}: use --arch {' or '.join(probe.only_on)}")
    check_options(spec)
    _check_names(spec)
    return (
        msgspec.structs.replace(
            spec,
            workload=workload.name,
            workload_file=str(workload.source) if spec.workload_file else "",
            workload_sha256=workload.sha256,
            variant=[_resolve_variant(variant, spec.engine) for variant in spec.variant],
        ),
        workload,
    )


def _with_probes(spec: Spec, workload: Workload) -> Spec:
    """With those that are recorded by default, where none are asked for."""
    kind: WorkloadKind = "bounded" if workload.has_rounds else "unbounded"
    engine = spec.engine
    default = probes.by_default(kind, engine.arch(spec.arch), in_vm=engine.emulated)
    return msgspec.structs.replace(spec, probes=spec.probes or default)


def not_recorded(probe: Probe, arch: str) -> str:
    """A sentence where a probe does not know an architecture; else ""."""
    target = architecture(arch).name
    known = not probe.only_on or target in probe.only_on
    return "" if known else f"probe {probe.name} is not recorded on {target} yet"


def _resolve_command(spec: Spec) -> Spec:
    """The same for an external command: on a real machine, and nothing is recorded but what it prints."""
    if not spec.engine.has_programs:
        raise UserError(
            "a command runs on a real machine, as a virtual one has no programs: "
            "give --machine host or ssh://USER@HOST"
        )
    reading = [probe.name for probe in probes.probes() if "command" in probe.measures]
    if spec.workload_file or spec.probes not in ([], reading):
        raise UserError("a command has no workload file and no probe: only what it prints is read")
    spec = msgspec.structs.replace(spec, probes=reading)
    check_options(spec)
    if not spec.command.isprintable():
        raise UserError(f"command {spec.command!r}: use one printable line")
    words = command_words(spec.command, 1)
    command_words(spec.command, _MOST_TASKS)  # of which it is the longest
    if "{tasks}" not in spec.command and spec.tasks not in ("all", [1]):
        raise UserError("the command has no {tasks}: how many there are is not for it to know")
    check_numbers(spec)
    spec = _on_engine(spec)
    _check_names(spec)
    return msgspec.structs.replace(
        spec,
        workload=Path(words[0]).name,
        workload_sha256=real.program_sha256(spec.address, words[0]),
        tasks=spec.tasks if "{tasks}" in spec.command else [1],
        variant=[_resolve_variant(variant, spec.engine) for variant in spec.variant],
    )


def command_words(command: str, tasks: int) -> list[str]:
    """A command's words with the number of tasks in them; no shell has a part in it.

    >>> command_words("fio --name='my job' --numjobs={tasks}", 4)
    ['fio', '--name=my job', '--numjobs=4']
    >>> command_words("fio --numjobs={cpus}", 4)
    Traceback (most recent call last):
    bigiron.errors.UserError: command: {cpus} is unknown: only {tasks} is filled in
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"command {command!r}: {error}") from None
    for unknown in re.findall(r"\{\w+\}", command.replace("{tasks}", "")):
        raise UserError(f"command: {unknown} is unknown: only {{tasks}} is filled in")
    if not words or not all(word.isprintable() for word in words):
        raise UserError("command: use one printable line")
    words = [word.replace("{tasks}", str(tasks)) for word in words]
    limits.check("the command's words", words, limits.MAX_WORDS)
    if "/" in words[0] and not words[0].startswith("/"):
        raise UserError(f"command: it runs in a folder of its own: give the whole path of {words[0]}")
    return words


def check_cpus(cpus: list[int]) -> None:
    """UserError for numbers of CPUs that no study can have."""
    _checked("cpus", cpus, MOST_CPUS)


def check_numbers(spec: Spec) -> None:
    """UserError for numbers that no study can have."""
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
        _checked("memory_mib", [spec.memory_mib], 1 << 30, least=LEAST_MEMORY_MIB)
    if spec.deadline_s:
        _checked("deadline_s", [spec.deadline_s], 1 << 30)


def _check_names(spec: Spec) -> None:
    names = [variant.name for variant in spec.variant]
    if not names or len({slug(name) for name in names}) < len(names):
        raise UserError(f"variants need names that differ, and these are {names}" if names else "no variant")


def _on_engine(spec: Spec) -> Spec:
    """With the CPUs that the engine has, or can have, and its architecture."""
    engine = spec.engine
    if not engine.emulated and (spec.topology or spec.memory_mib or spec.like):
        raise UserError(f"topology and memory are a virtual machine's: {real.name(spec.address)} has its own")
    if not engine.emulated and spec.cgroup:
        raise UserError(
            f"cgroup = {spec.cgroup!r} is of virtual machines: on {real.name(spec.address)} tasks run in the "
            "control group that bigiron is started in"
        )
    spec = msgspec.structs.replace(spec, cgroup=str(cgroup.parse(spec.cgroup)))
    _check_file_system(spec, engine)
    _check_clock(spec, engine)
    if spec.check_shape and probes.DEFAULT not in spec.probes:
        raise UserError(f"check_shape is of shared lines: record the probe {probes.DEFAULT} too")
    if spec.check_shape and not engine.emulated:
        raise UserError("check_shape is of virtual machines: a real one has the shape that it has")
    if spec.like and spec.topology:
        raise UserError(f"both like = {spec.like!r} and topology = {spec.topology!r}: give one of them")
    if spec.like:
        digest = hashlib.sha256(machine_files.text(spec.like).encode()).hexdigest()
        spec = msgspec.structs.replace(spec, like=whole("like", spec.like), like_sha256=digest)
    return msgspec.structs.replace(spec, cpus=engine.cpus(spec.cpus), arch=engine.arch(spec.arch))


def whole(key: str, value: Any) -> Any:
    """A key's value with the whole path of the file that it names, if it names one."""
    names_file = key == "workload_file" or (key == "like" and value.endswith(".toml"))
    return str(Path(value).resolve()) if names_file and value else value


def _check_clock(spec: Spec, engine: Engine) -> None:
    if spec.clock == "host":
        return
    if not (engine.emulated and architecture(spec.arch).counter):
        raise UserError(f"clock = {spec.clock!r} is of virtual machines of x86_64: leave it out")
    if long := [probe.name for probe in probes.named(spec.probes) if probe.lasts_seconds]:
        raise UserError(
            f"clock = {spec.clock!r}: {long[0]} measures for seconds of the machine's clock, each of which "
            "would take minutes: leave one of them out"
        )


def _check_file_system(spec: Spec, engine: Engine) -> None:
    asked = spec.file_system
    if not asked and (spec.mkfs_options or spec.mount_options or spec.disk_mib):
        raise UserError("mkfs and mount options and a disk are a file system's: give --fs too")
    if asked and not engine.emulated:
        raise UserError(
            f"fs = {spec.fs!r}: a file system is made in virtual machines only; on {real.name(spec.address)} "
            "workloads work in /tmp: mount there what is to be measured, and leave out --fs"
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
    """The options of the probes that are recorded; of another one, none may be given."""
    for probe in probes.probes():
        if probe.options and probe.name in spec.probes:
            spec.options[probe.options].check()
        elif probe.options and probe.options in spec.options:
            raise UserError(spec.options[probe.options].refusal(probe.name))


def _check_workload(probe: Probe, workload: Workload) -> None:
    """UserError if the probe does not measure workloads of that kind."""
    if ("bounded" if workload.has_rounds else "unbounded") in probe.measures:
        return
    if workload.has_rounds and "unbounded" in probe.measures:
        instead = [one.name for one in probes.probes() if one.measures == ("bounded",)]
        raise UserError(
            f"probe {probe.name} is for workloads that go on for ever: "
            f"measure {workload.name} with {' or '.join(instead)}"
        )
    if "command" in probe.measures:
        raise UserError(f"probe {probe.name} reads what an external command prints: give --command")
    raise UserError(f"probe {probe.name} measures workloads of CPU hotplug, not {workload.name}")


def _for_rounds(spec: Spec, workload: Workload) -> Spec:
    """A workload of CPU hotplug: its one task does as many operations as there are CPUs to cycle."""
    if spec.tasks not in ("all", [1]) or spec.mode != "process":
        raise UserError(f"{workload.name} is done by one process: leave out --tasks and --mode")
    most = min(spec.cpus) - 1
    if not 0 <= spec.cpus_to_cycle <= most:
        raise UserError(f"cpus_to_cycle = {spec.cpus_to_cycle}: of {most + 1} CPUs at most {most} can go")
    return msgspec.structs.replace(spec, tasks=[1])


def tasks_at(spec: Spec, cpus: int) -> list[int]:
    """The numbers of tasks to run on so many CPUs: one a CPU unless the study says otherwise."""
    return [cpus] if spec.tasks == "all" else list(spec.tasks)


def points(spec: Spec) -> list[tuple[int, int]]:
    """CPUs and tasks of all cells: small machines first."""
    return [(cpus, tasks) for cpus in spec.cpus for tasks in tasks_at(spec, cpus)]


def looks(spec: Spec) -> list[Look]:
    """After how many repetitions its comparisons are judged, and where: the first time everywhere."""
    return [Look(spec.repetitions, points(spec)), *spec.look]


def repetitions_at(spec: Spec, cpus: int, tasks: int) -> int:
    """How many repetitions so many CPUs and tasks have."""
    return max(look.repetitions for look in looks(spec) if (cpus, tasks) in look.points)


def slug(name: str) -> str:
    """A name as part of a file name.

    >>> slug("debian/6.1 expedited=1")
    'debian-6.1-expedited-1'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")


def check_variant_name(name: str) -> str:
    """The name; UserError if it cannot be that of a variant."""
    if not _NAME.fullmatch(name) or not slug(name):
        raise UserError(f"variant {name!r}: use letters, digits and a few signs, 80 at most")
    return name


def _checked(what: str, numbers: list[int], most: int, least: int = 1) -> list[int]:
    for number in numbers or [0]:
        whole_number(what, number, most, least)
        if numbers.count(number) > 1:
            raise UserError(f"{what} = {number} twice: use --reps to measure a cell again")
    return numbers


def _resolve_variant(variant: Variant, engine: Engine) -> Variant:
    check_variant(variant)
    if engine.emulated and not variant.kernel:
        raise UserError(f"variant {variant.name} has no kernel: name one, such as debian/6.12")
    kernel = engine.kernel(variant.kernel, variant.boot)
    if variant.kernel_sha256 not in ("", kernel.sha256):
        raise UserError(
            f"variant {variant.name}: the kernel {variant.kernel} is another image here "
            f"({kernel.sha256[:12]}) than the study asks for ({variant.kernel_sha256[:12]})"
        )
    return msgspec.structs.replace(variant, kernel=kernel.name, kernel_sha256=kernel.sha256)


def check_variant(variant: Variant) -> None:
    """UserError for a variant's name, boot parameters or settings that no machine can be given."""
    check_variant_name(variant.name)
    if not variant.boot.isprintable() or len(variant.boot) > 1500:
        raise UserError(f"variant {variant.name}: boot parameters must be one printable line of 1500 at most")
    limits.check(f"variant {variant.name}: settings", variant.set, limits.MAX_SETTINGS)
    for setting in variant.set:
        path, equals, _value = setting.partition("=")
        if not equals or not path.startswith("/"):
            raise UserError(f"setting {setting!r}: use PATH=VALUE, for instance /sys/kernel/rcu_expedited=1")
