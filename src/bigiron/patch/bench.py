"""Where all workloads run on all kernels: one study for each workload and mode, in one folder.

A study has a variant for each kernel that was ever asked about, so the counts of a base are kept for the next
patch on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from bigiron import workloads
from bigiron.analysis.comparison.model import Measurements
from bigiron.analysis.lines import conflicts
from bigiron.analysis.probes import instructions as executed
from bigiron.analysis.statistics.spread import MOST_BOOTS
from bigiron.errors import UserError
from bigiron.history.measure import Watcher
from bigiron.history.points import name_of
from bigiron.judge import second_opinion
from bigiron.kernels import Kernel
from bigiron.results import layout, measurements
from bigiron.study import caveats, store
from bigiron.study import run as runner
from bigiron.study import spec as specs
from bigiron.study.environment import measured_by
from bigiron.study.extend import extended
from bigiron.study.plan import Cell
from bigiron.study.pool import Pools, Stoppable, Threads, missing
from bigiron.study.spec import Spec, Variant, slug
from bigiron.study.store import CellRecord, Study
from bigiron.util.threads import StoppableThreads
from bigiron.workloads import Workload

REACH = ("instructions",)
"""The probe that shows which functions a workload executes: it is the fastest."""

COUNTS = ("conflicts", "locks", "instructions")
CPUS = 8

_SUITES = ("fxmark/", "hackbench/")
"""The others are there to judge reports: they repeat much of these and of will-it-scale, and take as long."""

_MODES = ("process", "thread")
_FILE_SYSTEMS = {
    "block/": "ext4",
    "drivers/block/": "ext4",
    "fs/btrfs/": "btrfs",
    "fs/direct-io.c": "ext4",
    "fs/ext4/": "ext4",
    "fs/iomap/": "xfs",
    "fs/jbd2/": "ext4",
    "fs/xfs/": "xfs",
}
"""By what a source file's path begins with: where workloads execute it."""

_Counted = TypeVar("_Counted")
_IsWanted: TypeAlias = Callable[[Cell], bool]
_Work: TypeAlias = tuple[Study, Workload | None, _IsWanted, str, int]
"""A study, its workload, which cells are wanted, the subject's title, and how many cells are missing."""


@dataclass(frozen=True)
class Subject:
    """What runs: a workload in a mode, or a program."""

    name: str  # of the workload, or the program's command
    spec: Spec  # with the probes for `REACH`, without variants
    always: bool = False  # whether it runs even if it reaches no changed function
    of_layout: bool = False  # whether the layout of objects is recorded, and nothing else

    @property
    def title(self) -> str:
        """Its name and mode."""
        mode = " (threads)" if self.spec.mode == "thread" else ""
        return f"{self.name}{mode}{', layout' if self.of_layout else ''}"

    @property
    def program(self) -> tuple[str, str, str]:
        """What is executed: a built-in workload, one in a file, or a command."""
        return self.spec.workload, self.spec.workload_file, self.spec.command

    @property
    def laid_out(self) -> Subject:
        """The same for the layout of objects: in a study of its own, as most counts do without."""
        return replace(self, of_layout=True)

    @property
    def probes(self) -> tuple[str, ...]:
        """What is recorded to compare kernels: the operations of a program have no trace."""
        if self.of_layout:
            return (layout.PROBE,)
        return COUNTS if self.spec.runs_program else (*COUNTS, "trace")


@dataclass(frozen=True)
class Wanted:
    """Cells of a subject: which boots of which kernels, how many CPUs, what is recorded."""

    subject: Subject
    boots: Sequence[tuple[Kernel, Sequence[int]]]
    cpus: Sequence[int] = (CPUS,)
    reach: bool = False  # whether only the functions are asked for


@dataclass(frozen=True)
class Executed:
    """Functions by the names that they have in all kernels, by where a workload executes them."""

    process: frozenset[str] = frozenset()  # in process context
    elsewhere: frozenset[str] = frozenset()  # only in interrupts and kernel threads


def builtin(systems: Iterable[str] = ()) -> list[Subject]:
    """The built-in workloads of will-it-scale, `_SUITES` and our own, with processes and with threads.

    Those of fxmark, and what opens files with O_DIRECT, run on each of these file systems, too.
    """
    first = [one for one in workloads.unbounded() if _is_first(one.name)]
    on_disk = [one.name for one in first if one.opens_direct or one.name.startswith("fxmark/")]
    found = [_built_in(one.name, mode) for one in first if not one.opens_direct for mode in _MODES]
    return found + [_built_in(name, mode, fs) for fs in systems for name in on_disk for mode in _MODES]


def others() -> list[Subject]:
    """All other built-in workloads, but those that open files with O_DIRECT: tmpfs refuses it before 6.6."""
    rest = [one.name for one in workloads.unbounded() if not (_is_first(one.name) or one.opens_direct)]
    return [_built_in(name, mode) for name in rest for mode in _MODES]


def file_systems_of(files: Iterable[str]) -> list[str]:
    """The file systems that these files of the kernel's source are part of, or are needed to execute them.

    >>> file_systems_of(["block/blk-mq.c", "fs/ext4/inode.c", "fs/btrfs/file.c", "fs/open.c"])
    ['btrfs', 'ext4']
    """
    return sorted({fs for file in files for folder, fs in _FILE_SYSTEMS.items() if file.startswith(folder)})


def _is_first(name: str) -> bool:
    return "/" not in name or name.startswith(_SUITES)


def _built_in(name: str, mode: str, fs: str = "") -> Subject:
    return Subject(name_of(name, fs), _spec(workload=name, mode=mode, fs=fs))


def asked(names: Iterable[str], files: Iterable[Path]) -> list[Subject]:
    """The workloads of these names and in these files, with processes and with threads."""
    found = [(workloads.find(name), "") for name in names]
    found += [(workloads.from_file(file), str(file)) for file in files]
    return [
        Subject(
            one.name, _spec(workload="" if file else one.name, workload_file=file, mode=mode), always=True
        )
        for one, file in found
        for mode in ("process", "thread")
    ]


def _spec(*, workload: str = "", workload_file: str = "", mode: str = "process", fs: str = "") -> Spec:
    return msgspec.convert(
        {
            "workload": workload,
            "workload_file": workload_file,
            "mode": mode,
            "fs": fs,
            # With the host's clock every operation sees a tick, and each tick changes file timestamps.
            "clock": "instructions" if fs else "",
            "probes": list(REACH),
            "cpus": [CPUS],
            "operations": second_opinion.operations(workload),
            "repetitions": MOST_BOOTS,
            "variant": [],
        },
        Spec,
    )


@dataclass
class Bench:
    """Measures cells that are not there yet, several studies at once."""

    folder: Path
    jobs: int
    fleet: Pools | None
    watcher: Watcher
    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    """By the title of a subject and a kernel's variant: why one of their cells with `CPUS` failed."""
    _studies: dict[str, Study] = field(default_factory=dict)
    _executed: dict[tuple[str, str], Executed] = field(default_factory=dict)

    def measure(self, wanted: Sequence[Wanted]) -> None:
        """Measure all of these cells that are missing. Failures are noted, and the others go on.

        Each is of another subject, because only one thread may write to a study.
        """
        self.count(wanted, lambda _subject: None)

    def count(self, wanted: Sequence[Wanted], then: Callable[[Subject], _Counted]) -> list[_Counted]:
        """Like `measure`, and `then` of each subject, while others are still measured."""
        found: dict[str, _Counted] = {}

        def task(subject: Subject, work: _Work | None) -> Callable[[], None]:
            if work:
                self._run(*work)()
            return partial(found.__setitem__, subject.title, then(subject))

        with StoppableThreads() as threads:
            tasks = (partial(task, one.subject, self._work(one)) for one in wanted)
            cpus = max((number for one in wanted for number in one.cpus), default=CPUS)
            threads.do_all(tasks, self._at_once(cpus))
        return [found[one.subject.title] for one in wanted]

    def why_not_run(self, subject: Subject, kernel: Kernel, *, reach: bool = False) -> str:
        """Why a kernel does not run a workload, tried alone: it may run none, one after the other."""
        self.measure([Wanted(subject, [(kernel, [1])], reach=reach)])
        why = self.why_failed(subject, kernel)
        return f"{kernel.name} does not run {subject.title}: {why}" if why else ""

    def why_failed(self, subject: Subject, kernel: Kernel) -> str:
        """Why a kernel does not run a workload with `CPUS`; empty if nothing failed."""
        return self.failed.get((subject.title, variant_name(kernel)), "")

    def has_run(self, subject: Subject, kernel: Kernel) -> bool:
        """Whether the first boot with `CPUS` was measured, whatever became of later ones."""
        return subject.title in self._studies and self._record(subject, kernel, CPUS, 1) is not None

    def functions(self, subject: Subject, kernel: Kernel) -> Executed | None:
        """The functions that a workload executed on a kernel; None if it did not run there."""
        key = subject.title, variant_name(kernel)
        if key not in self._executed and (record := self._record(subject, kernel, CPUS, 1)):
            table = self.study(subject).table(record, REACH[0])
            in_process = table["context"] == conflicts.CONTEXTS[0]
            process, others = (
                frozenset(map(executed.same_function, table.filter(mask)["function"].unique()))
                for mask in (in_process, ~in_process)
            )
            self._executed[key] = Executed(process, others - process)
        return self._executed.get(key)

    def losses(self, subject: Subject, kernels: Sequence[Kernel]) -> list[str]:
        """Which counts the recorder had no room for, in the cells with `CPUS` of these kernels."""
        records = self.alone(subject, kernels).all_records()
        return caveats.losses(one for one in records if one.cpus == CPUS)

    def measurements(
        self, subject: Subject, probe: str, variants: Mapping[str, tuple[Kernel, Sequence[int]]]
    ) -> Measurements | None:
        """The counts of these kernels and boots, by the names that the comparison has for them.

        None: a cell is missing, because it failed.
        """
        study = self.study(subject)
        cells = {}
        for name, (kernel, boots) in variants.items():
            records = [self._record(subject, kernel, CPUS, boot) for boot in boots]
            known = [one for one in records if one and probe in one.tables]
            if len(known) < len(records):
                return None
            cells[name] = [measurements.cell(study, one, probe) for one in known]
        return Measurements(
            study=study.name,
            workload=study.workload,
            probe=probe,
            time=study.time,
            operations=study.spec.operations,
            scope="kernel",
            machine="",
            points={(CPUS, CPUS): cells},
        )

    def study(self, subject: Subject) -> Study:
        """The study of a subject, which has been measured."""
        return self._studies[subject.title]

    def alone(self, subject: Subject, kernels: Sequence[Kernel]) -> Study:
        """The study of a subject as if it were of these kernels only."""
        study, names = self.study(subject), map(variant_name, kernels)
        variants = {one.name: one for one in study.spec.variant}
        return Study(study.folder, msgspec.structs.replace(study.spec, variant=[variants[n] for n in names]))

    def _at_once(self, cpus: int) -> int:
        """How many studies are measured at once, whose largest machine has this many CPUs."""
        largest = msgspec.structs.replace(_spec(workload="getppid1"), cpus=[cpus])
        return 8 if self.fleet else self.jobs or runner.default_jobs(largest)

    def _record(self, subject: Subject, kernel: Kernel, cpus: int, boot: int) -> CellRecord | None:
        study = self.study(subject)
        variant = next((one for one in study.spec.variant if one.name == variant_name(kernel)), None)
        record = study.record(Cell(variant, cpus, cpus, boot)) if variant else None
        return record if record and record.measured else None

    def _work(self, wanted: Wanted) -> _Work | None:
        """The study of a subject, extended by what is wanted; None if nothing is missing."""
        subject = wanted.subject
        boots = {
            variant_name(one): numbers for one, numbers in wanted.boots if not self.why_failed(subject, one)
        }
        if not boots:
            return None
        variants = [
            Variant(name=variant_name(one), kernel=one.name, kernel_sha256=one.sha256)
            for one, _ in wanted.boots
        ]
        question = msgspec.structs.replace(
            subject.spec,
            cpus=list(wanted.cpus),
            probes=list(REACH if wanted.reach else subject.probes),
            variant=variants,
        )
        spec, workload = runner.resolve(question)
        folder = self.folder / f"{slug(subject.title)}-{_setup(subject.spec, spec)}"
        if (folder / "study.toml").exists():
            spec = extended(store.open_study(folder).spec, spec)
        study = self._studies[subject.title] = store.create(folder, spec, workload)

        def is_wanted(cell: Cell) -> bool:
            is_boot = cell.repetition in boots.get(cell.variant.name, ())
            return is_boot and cell.cpus in wanted.cpus and cell.tasks == cell.cpus

        number = len(missing(study, is_wanted))
        return (study, workload, is_wanted, subject.title, number) if number else None

    def _run(
        self, study: Study, workload: Workload | None, is_wanted: _IsWanted, title: str, number: int
    ) -> Callable[[], None]:
        programs = runner.prepare(study.spec, workload, here=not self.fleet)
        pools = partial(Stoppable, self.fleet or partial(Threads, 1))
        tried = runner.run(study, programs, pools, self.watcher.within(title, number), is_wanted)
        return partial(self._note, title, tried)

    def _note(self, title: str, tried: Sequence[CellRecord]) -> None:
        for record in tried:
            # One of another number of CPUs is only part of a growth, which `outlook` does without.
            if record.failure and record.cpus == CPUS:
                self.failed[title, record.variant] = record.failure.reason


def variant_name(kernel: Kernel) -> str:
    """What studies call an image: a kernel that is built again under its name may be another one."""
    return f"{kernel.name}-{kernel.sha256[:8]}"


def _setup(asked: Spec, resolved: Spec) -> str:
    """A hash of all but the kernels that decides a count."""
    question = msgspec.structs.replace(asked, workload_sha256=resolved.workload_sha256)
    text = msgspec.json.encode([specs.document(question), measured_by(resolved.arch)], order="sorted")
    return hashlib.sha256(text).hexdigest()[:6]


def of_program(spec: Spec) -> Subject:
    """A program in a virtual machine; UserError if it is none."""
    if not spec.runs_program:
        raise UserError("--command runs in a virtual machine here: give --root too")
    alone = msgspec.structs.replace(spec, repetitions=MOST_BOOTS, variant=[])
    return Subject(spec.command, alone, always=True)
