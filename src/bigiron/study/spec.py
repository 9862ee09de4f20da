"""The question of a study: study.toml, or the options of the command line, as one typed value."""

import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from bigiron import probes
from bigiron.analysis.statistics import spread, verdict
from bigiron.analysis.statistics.verdict import Look
from bigiron.errors import UserError
from bigiron.machines.engine import Engine
from bigiron.machines.vm.file_system import FileSystem
from bigiron.machines.vm.root_disk import RootDisk
from bigiron.probes import AllProbeOptions
from bigiron.probes.options import read_options
from bigiron.study import engines
from bigiron.util import decode, sanitize

FORMAT = 3
MOST_CPUS = 8192  # the most that Linux on x86 can be built for; also in guest/machine/affinity.h
MOST_REPETITIONS = 1000
MOST_CELLS = 1_000_000


class Variant(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A kernel, its boot parameters and its run-time settings: one column of a comparison."""

    name: str
    kernel: str = ""
    """On a real machine, its running kernel: filled in when the study is created."""
    boot: str = ""
    set: list[str] = []
    """PATH=VALUE settings, written in the guest before the workload starts; for a design, NAME=VALUE."""
    kernel_sha256: str = ""
    """Of the image. Filled in when the study is created, so that it can only continue with the same kernel.

    If it is given, only that image is accepted.
    """


class Simulation(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How a design is simulated, if the machine is simulated."""

    machine: str = ""
    """The name of a machine that comes with bigiron, or a file."""
    machine_sha256: str = ""
    """Of the machine's file; filled in when the study is created."""
    warmup_ms: float = 100
    """Virtual time before counting starts."""
    duration_ms: float = 100
    """Virtual time that is counted; 0: until the design ends."""
    timeline_us: float = 0
    """How long a timeline is recorded after the warmup."""
    ranges: bool = False
    """Whether each repetition but the first runs on another machine, sampled from the ranges of the file."""

    @property
    def to_the_end(self) -> bool:
        """Whether the design ends by itself."""
        return self.duration_ms == 0


class Spec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A study's question. Its cells are all combinations of variants, cpus, tasks and repetitions."""

    format: int = FORMAT
    workload: str = ""
    workload_file: str = ""
    workload_sha256: str = ""
    """Of the C file; filled in when the study is created."""
    command: str = ""
    """An external command instead of a workload; `{tasks}` in it, in `service`, `ready` and `env` becomes the
    number of tasks."""
    root: str = ""
    """For virtual machines: the root file system that the command runs in (bigiron.roots)."""
    root_sha256: str = ""
    """Of its image; filled in when the study is created."""
    service: list[str] = []
    """Commands of servers that run beside the command in a virtual machine, started in this order."""
    ready: list[str] = []
    """A command for each service, which succeeds once the service is ready; empty: it is ready at once."""
    ready_port: list[int] = []
    """Ports of loopback at which something must listen before the command runs."""
    env: list[str] = []
    """NAME=VALUE: environment variables of the command and its services."""
    user: str = ""
    """As which user of the root they run; empty: root."""
    folder: str = ""
    """The folder of the root in which they work; empty: `/`."""
    command_cpus: str = ""
    """CPUs that the command may use, as in 0-3,8; empty: all."""
    service_cpus: str = ""
    begin_at: str = ""
    """The recorded part begins when the command prints a line that matches this POSIX regular expression."""
    end_at: str = ""
    warm_up_s: float = 0
    """How long the command runs before its recorded part begins, by the machine's clock."""
    record_s: float = 0
    """How long the recorded part is; 0: until the command ends, or `end_at`."""
    marked: bool = False
    """Whether the program marks its recorded parts itself, with bigiron-mark or as bigiron.h does."""
    per: str = ""
    """What counts are divided by: the number of system calls (`system-call`), of millions of instructions
    in user mode (`instruction`) or of system calls of this name; empty: of what `metric` reads."""
    mode: Literal["process", "thread"] = "process"
    machine: str = "vm"
    """Where it runs: `vm`, `host` (the machine that bigiron runs on), `ssh`, ... (study/engines.py)."""
    address: str = ""
    """Of the machine of `ssh`: ssh://USER@HOST:PORT."""
    allow_hotplug: bool = False
    """Whether CPU-hotplug workloads may take CPUs of a real machine offline."""
    arch: str = "x86_64"
    probes: list[str] = []
    """Empty: the default ones, which are filled in when the study is created."""
    cpus: list[int] = []
    """Empty: those of `topology` or `like`, else 8; on a real machine all of its CPUs."""
    tasks: Literal["all"] | list[int] = "all"
    topology: str = ""
    like: str = ""
    """For virtual machines: the machine whose shape they copy, by name or file, instead of `topology`."""
    like_sha256: str = ""
    """Of the machine's file; filled in when the study is created."""
    repetitions: int = 1
    most_boots: int = spread.MOST_BOOTS
    """Of each kernel. Each repetition boots; more are added where counts may differ by chance."""
    look: list[Look] = []
    """Repetitions that were added later, where something was undecided; each look has more than the last."""
    tolerance: float = verdict.TOLERANCE
    """The relative change up to which a time or a throughput counts as unchanged."""
    operations: int = 500
    """Recorded operations of each task."""
    cpus_to_cycle: int = 0
    """How many CPUs a CPU-hotplug workload takes offline or online; 0: all but the first."""
    options: AllProbeOptions = msgspec.field(default_factory=AllProbeOptions)
    """Of the probes. In study.toml they are keys like the others."""
    simulation: Simulation = Simulation()
    """For simulated machines, where the workload is a design."""
    time_slice: Literal["operation", "time"] = "operation"
    """What ends a CPU's time slice while one thread runs all CPUs of a virtual machine.

    Each operation of its task, or only the emulator's clock.
    """
    time_slice_instructions: int = 0
    """The same for a program: so many instructions of the CPU. Filled in when the study is created."""
    clock: Literal["", "host", "instructions"] = ""
    """What a virtual machine's clock follows while its tasks run: the host's clock, or executed instructions.

    In the latter case about as many instructions make a nanosecond as a processor executes in it. Empty:
    instructions for a program on x86_64, else the host's clock; filled in when the study is created.
    """
    memory_mib: int = 0
    """Memory of a virtual machine; 0: depends on its CPUs."""
    cgroup: str = ""
    """For virtual machines: the control group of the tasks, from cgroup.py; `none`: the root group."""
    fs: str = ""
    """For virtual machines: the file system that the workload uses; empty: the machine's tmpfs."""
    mkfs_options: str = ""
    mount_options: str = ""
    disk_mib: int = 0
    """Size of the RAM disk under the file system; 0: 16 GiB."""
    check_shape: bool = False
    """Whether each cell is measured again on machines of changed shapes (machines/shape_change.py)."""
    deadline_s: int = 0
    """Time limit of a cell; 0: depends on its CPUs."""
    variant: list[Variant]

    @property
    def interleaved(self) -> bool:
        """Whether the variants of each repetition ran one after the other, in random order."""
        return not (self.engine.is_model or self.engine.is_imported)

    @property
    def has_metrics(self) -> bool:
        """Whether it measures noisy metrics, of which more or less is better."""
        return any(probe.samples for probe in probes.named(self.probes))

    @property
    def is_booted_again(self) -> bool:
        """Whether boots are added as repetitions where counts of two variants may differ by chance."""
        counts = any(probe.has_verdicts for probe in probes.named(self.probes))
        return self.engine.emulated and counts and not self.measures_time

    @property
    def measures_time(self) -> bool:
        """Whether machines that run at once would change its results."""
        return any(probe.measures_time for probe in probes.named(self.probes))

    @property
    def changes_code(self) -> bool:
        """Whether a probe makes the kernel patch its own code."""
        return any(probe.changes_code for probe in probes.named(self.probes))

    @property
    def engine(self) -> Engine:
        """Runs its cells."""
        return engines.engine(self)

    @property
    def root_disk(self) -> RootDisk | None:
        """The requested root file system, if any."""
        return RootDisk(self.root, self.arch, self.root_sha256) if self.root else None

    @property
    def runs_program(self) -> bool:
        """Whether the workload is a program in a virtual machine."""
        return bool(self.root and self.command)

    @property
    def takes_tasks(self) -> bool:
        """Whether the number of tasks is filled in anywhere."""
        return any("{tasks}" in text for text in (self.command, *self.service, *self.ready, *self.env))

    @property
    def knows_tasks(self) -> bool:
        """Whether the number of tasks is what runs: a program that is not told makes as many as it likes."""
        return not self.runs_program or self.tasks != "all" or self.takes_tasks

    def known_tasks(self, tasks: int) -> int | None:
        """The number of tasks of a cell, as results name it; None where it is not known."""
        return tasks if self.knows_tasks else None

    @property
    def file_system(self) -> FileSystem | None:
        """The requested file system that the workload uses, if any."""
        if not self.fs:
            return None
        return FileSystem(self.fs, self.mkfs_options, self.mount_options, self.disk_mib)


_UNSANITIZED_KEYS = ("set", "command", "service", "ready", "env", "begin_at", "end_at")
"""They are sent to a machine: code that prints them must sanitize them."""


def read(path: Path) -> Spec:
    """Read a study.toml. UserError names the error and its place."""
    try:
        return from_toml(path.read_bytes(), str(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def from_toml(content: bytes, name: str) -> Spec:
    """Read the content of a study.toml; `name` is its path for errors."""
    try:
        document = msgspec.toml.decode(content)
        options, rest = read_options(probes.option_kinds(), sanitize.everywhere(document, _UNSANITIZED_KEYS))
        spec = msgspec.structs.replace(decode.convert(rest, Spec), options=options)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: {_in_words(str(error))}") from None
    if spec.format != FORMAT:
        raise UserError(
            f"{name} has format {spec.format} and this bigiron reads {FORMAT}: use the version that made it"
        )
    try:
        engines.engine(spec)
        check_size(spec)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return spec


def check_size(spec: Spec) -> None:
    """UserError if a study, which may be from anybody, has too many cells to list, or too large machines."""
    tasks = [] if spec.tasks == "all" else spec.tasks
    for what, numbers, most in ("cpus", spec.cpus, MOST_CPUS), ("tasks", tasks, 64 * MOST_CPUS):
        if max(numbers, default=0) > most:
            raise UserError(f"{what} = {max(numbers)}: use whole numbers up to {most}")
    repetitions = max(spec.repetitions, *(look.repetitions for look in spec.look), 1)
    number = len(spec.variant) * len(spec.cpus) * max(len(tasks), 1) * repetitions
    if number > MOST_CELLS:
        raise UserError(f"{number:,} cells are more than the {MOST_CELLS:,} that a study can have")


def document(spec: Spec) -> dict[str, Any]:
    """The content of study.toml as plain values."""
    found: dict[str, Any] = msgspec.to_builtins(spec, enc_hook=_flat)
    options: dict[str, Any] = found.pop("options")
    return found | options


def _flat(options: object) -> dict[str, Any]:
    assert isinstance(options, AllProbeOptions)
    return {
        key: value
        for kind in probes.option_kinds()
        for key, value in msgspec.structs.asdict(options[kind]).items()
    }


def to_toml(spec: Spec) -> bytes:
    """The content of study.toml."""
    return msgspec.toml.encode(document(spec))


def _in_words(message: str) -> str:
    """Rewrite the place in an error of msgspec, such as `$.cpus[0]`, as TOML writes it."""
    return message.replace("$.", "").replace("Object", "The study")


def whole(key: str, value: Any) -> Any:
    """A key's value; if it names a file, its absolute path."""
    names_file = (
        key == "workload_file"
        or (key == "like" and value.endswith(".toml"))
        or (key == "root" and value != "host" and not value.startswith("debian:"))
    )
    return str(Path(value).resolve()) if names_file and value else value


def tasks_at(spec: Spec, cpus: int) -> list[int]:
    """The numbers of tasks on a number of CPUs: one per CPU unless the study lists others."""
    return [cpus] if spec.tasks == "all" else list(spec.tasks)


def points(spec: Spec) -> list[tuple[int, int]]:
    """CPUs and tasks of all cells: small machines first."""
    return [(cpus, tasks) for cpus in spec.cpus for tasks in tasks_at(spec, cpus)]


def looks(spec: Spec) -> list[Look]:
    """After how many repetitions comparisons are judged, and where: the first time at all points."""
    return [Look(spec.repetitions, points(spec)), *spec.look]


def repetitions_at(spec: Spec, cpus: int, tasks: int) -> int:
    """How many repetitions a point has."""
    return max(look.repetitions for look in looks(spec) if (cpus, tasks) in look.points)


def slug(name: str) -> str:
    """A name as part of a file name.

    >>> slug("debian/6.1 expedited=1")
    'debian-6.1-expedited-1'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")
