"""Measures the missing points of a history: one study for each workload and file system."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec

from bigiron import kernels, workloads
from bigiron.errors import UserError
from bigiron.history import points, predict
from bigiron.history.collect import PROBES
from bigiron.history.database import FILE, History, create
from bigiron.history.records import KernelRecord, PointRecord
from bigiron.kernels import Kernel
from bigiron.machines.vm.dilation import SLOWED_FROM, instructions_per_ns
from bigiron.machines.vm.vm import memory_mib
from bigiron.study import run as runner
from bigiron.study import store
from bigiron.study.environment import measured_by
from bigiron.study.extend import extended
from bigiron.study.plan import Cell
from bigiron.study.pool import Pools, Progress, Stoppable, Threads, missing
from bigiron.study.resolve import check_cpus
from bigiron.study.spec import MOST_CPUS, Spec, Variant, slug
from bigiron.study.store import CellRecord, Study
from bigiron.util.cache_dir import locked
from bigiron.util.english import plural
from bigiron.util.threads import StoppableThreads
from bigiron.workloads import Workload

_SUITES = ("fxmark/",)
_BY_DEFAULT = (
    "brk1", "context_switch1", "counters_packed", "counters_padded", "counters_paired", "dup1", "eventfd1",
    "futex1", "getppid1", "lseek1", "mmap1", "open1", "open2", "page_fault1", "page_fault3", "pipe1",
    "posix_semaphore1", "pread1", "pwrite1", "sched_yield", "signal1", "spin", "spin-ls", "unlink1",
    "fxmark/*", "hackbench/*",
)  # fmt: skip
"""What a history has unless others are asked for.

The rest of will-it-scale's tests and the suites that judge reports repeat much of it, and take long.
"""
_FILE_SYSTEMS = ("ext4", "btrfs")  # besides the machine's tmpfs
_OURS = {FILE, f"{FILE}-journal", points.STUDIES, ".lock"}
_OPERATIONS = 200  # of each task; enough, because most counts repeat exactly, and there are many cells
_STUDIES_ON_A_FLEET = 8  # at once, because one study has too few cells for a fleet


@dataclass(frozen=True)
class WorkloadOnFs:
    """A workload on a file system; empty: the machine's own tmpfs."""

    workload: Workload
    fs: str = ""

    @property
    def name(self) -> str:
        """Its name in the history."""
        return points.name_of(self.workload.name, self.fs)


def catalogue() -> list[WorkloadOnFs]:
    """The workloads that a history can have: those that run until they are stopped.

    CPU-hotplug workloads are left out, because no probe of a history measures them.
    """
    built_in = workloads.unbounded()
    suites = [one for one in built_in if one.name.startswith(_SUITES)]
    return [*map(WorkloadOnFs, built_in), *(WorkloadOnFs(one, fs) for fs in _FILE_SYSTEMS for one in suites)]


def chosen(globs: Sequence[str]) -> list[WorkloadOnFs]:
    """The workloads of the catalogue that match one of the globs. UserError if a glob matches none.

    Without globs: those of `_BY_DEFAULT`.

    >>> [asked.name for asked in chosen(["open?", "fxmark/DWA*@ext4"])]
    ['open1', 'open2', 'open3', 'fxmark/DWAL@ext4', 'fxmark/DWAL-direct@ext4']
    """
    known = catalogue()
    for glob in globs:
        if not any(fnmatchcase(asked.name, glob) for asked in known):
            names = ", ".join(asked.name for asked in known[:4])
            raise UserError(
                f"--workloads {glob!r} matches no workload ({names}, ...): see `bigiron workload list`"
            )
    wanted = globs or _BY_DEFAULT
    return [asked for asked in known if any(fnmatchcase(asked.name, glob) for glob in wanted)]


@dataclass(frozen=True)
class _StudyWork:
    """A workload's study, and the cells to measure."""

    asked: WorkloadOnFs
    study: Study
    missing: int
    wanted: Callable[[Cell], bool]


class Watcher(Protocol):
    """Receives the progress of a history."""

    def within(self, name: str, cells: int) -> Progress:
        """The receiver for a workload, which has `cells` additional cells to measure."""

    def note(self, line: str) -> None:
        """A message that is not about a single cell."""


@dataclass(frozen=True)
class HistoryRequest:
    """The kernels, CPUs and workloads to add to a history."""

    kernels: Sequence[str]
    cpus: list[int]
    workloads: Sequence[WorkloadOnFs]
    arch: str = "x86_64"


@dataclass
class Totals:
    """How many cells were measured, failed, or were refused."""

    measured: int = 0
    failed: int = 0
    refused: int = 0


def add(folder: Path, question: HistoryRequest, jobs: int, fleet: Pools | None, watcher: Watcher) -> Totals:
    """Measure what a history lacks of some kernels, and update its database.

    KeyboardInterrupt stops the running machines; finished measurements are in the history.
    """
    check_cpus(question.cpus)  # otherwise each workload would be recorded as refused
    images = [kernels.find(name, question.arch) for name in question.kernels]
    with _writing(folder) as history:
        _refuse_another_architecture(history, question.arch)
        with history.writing():
            for image in images:
                points.kernel(history, image.name, image.release, image.version, image.arch, image.sha256)
        return _Adding(history, folder, question, images, watcher).measure(jobs, fleet)


@contextmanager
def _writing(folder: Path) -> Iterator[History]:
    """The history, locked for writing. UserError if it is locked, or if the folder is not a history."""
    if folder.exists() and not (folder.is_dir() and _OURS.issuperset(path.name for path in folder.iterdir())):
        raise UserError(f"{folder} exists and is not a history: give another folder with -o")
    folder.mkdir(parents=True, exist_ok=True)

    def refuse() -> None:
        raise UserError(f"another bigiron is adding to history {folder}: wait until it ends")

    with locked(folder, refuse):
        yield create(folder)


def _refuse_another_architecture(history: History, arch: str) -> None:
    for known in history.select(KernelRecord):
        if known.architecture != arch:
            raise UserError(
                f"the history has kernels for {known.architecture}, but these are for {arch}: "
                "give another folder with -o"
            )


class _Adding:
    """One addition to a history."""

    def __init__(
        self,
        history: History,
        folder: Path,
        question: HistoryRequest,
        images: Sequence[Kernel],
        watcher: Watcher,
    ) -> None:
        self._history, self._folder, self._question = history, folder, question
        self._images, self._watcher = images, watcher
        self._totals = Totals()
        self._whole = points.whole(history)

    def measure(self, jobs: int, fleet: Pools | None) -> Totals:
        """Measure the workloads, several at once, each on one machine or on the fleet."""
        spec = self._spec(self._question.workloads[0], self._images)
        at_once = _STUDIES_ON_A_FLEET if fleet else jobs or runner.default_jobs(spec)
        pools = partial(Stoppable, fleet or partial(Threads, 1))
        works = filter(None, map(self._work, self._asked(fleet)))
        # First count what an interrupted addition has measured but not counted.
        left = (partial(self._count, study) for study in points.studies(self._folder))
        asked = (partial(self._run, work, pools, here=not fleet) for work in works)
        with StoppableThreads() as threads:
            threads.do_all(left, at_once)
            threads.do_all(asked, at_once)
            unpredicted = predict.missing(self._history)
            if unpredicted:
                machines = " and ".join(predict.MACHINES)
                self._watcher.note(f"predicting for {machines} from {plural(len(unpredicted), 'point')}")
            threads.do_all((partial(self._predict, point) for point in unpredicted), at_once)
        return self._totals

    def _asked(self, fleet: Pools | None) -> list[WorkloadOnFs]:
        """The workloads to measure. A fleet cannot measure those on other file systems."""
        asked = [one for one in self._question.workloads if not (fleet and one.fs)]
        if left_out := len(self._question.workloads) - len(asked):
            self._watcher.note(
                f"{plural(left_out, 'workload')} on other file systems left out, not possible on a fleet: "
                "run this again without --fleet"
            )
        return asked

    def _spec(self, asked: WorkloadOnFs, images: Sequence[Kernel]) -> Spec:
        return Spec(
            workload=asked.workload.name,
            fs=asked.fs,
            arch=self._question.arch,
            probes=list(PROBES),
            cpus=list(self._question.cpus),
            operations=_OPERATIONS,
            # With the host's clock every operation sees a tick, and each tick changes file timestamps.
            clock="instructions" if asked.fs else "host",
            variant=[Variant(name=image.name, kernel=image.name) for image in images],
        )

    def _work(self, asked: WorkloadOnFs) -> _StudyWork | None:
        """The study of a workload, extended by the request; None if nothing is missing."""
        spec, refused = self._resolved(asked)
        self._totals.refused += len(refused)
        points.refuse(self._history, self._spec(asked, self._images), refused)
        if not spec:
            return None
        folder = self._folder / points.STUDIES / slug(asked.name) / _setup_hash(spec)
        names = [variant.name for variant in spec.variant]
        if (folder / "study.toml").exists():
            spec = extended(store.open_study(folder).spec, spec)
        study = store.create(folder, spec, asked.workload)

        def wanted(cell: Cell) -> bool:
            if cell.variant.name not in names or cell.cpus not in self._question.cpus:
                return False
            record = study.record(cell)
            return not (record and record.failure and record.failure.kind == "input")

        number = len(missing(study, wanted))
        return _StudyWork(asked, study, number, wanted) if number else None

    def _resolved(self, asked: WorkloadOnFs) -> tuple[Spec | None, dict[str, str]]:
        """The question without the kernels that cannot run the workload, and why they cannot."""
        try:
            return runner.resolve(self._spec(asked, self._images))[0], {}
        except UserError as error:
            if len(self._images) == 1:
                return None, {self._images[0].name: str(error)}
        resolved: list[Spec] = []
        refused = {}
        for image in self._images:
            try:
                resolved.append(runner.resolve(self._spec(asked, [image]))[0])
            except UserError as error:
                refused[image.name] = str(error)
        if not resolved:
            return None, refused
        variants = [variant for spec in resolved for variant in spec.variant]
        return msgspec.structs.replace(resolved[0], variant=variants), refused

    def _run(self, work: _StudyWork, pools: Pools, *, here: bool) -> Callable[[], None]:
        programs = runner.prepare(work.study.spec, work.asked.workload, here=here)
        progress = self._watcher.within(work.asked.name, work.missing)
        tried = runner.run(work.study, programs, pools, progress, work.wanted)
        write = self._count(work.study.folder)
        return partial(self._written, tried, write)

    def _count(self, study: Path) -> Callable[[], None]:
        """Count in this thread, so that the main thread, which only writes, can start other machines."""
        return partial(self._write, study, points.count(self._folder, study, self._whole))

    def _write(self, study: Path, counted: points.AllCounted) -> None:
        points.update(self._history, self._folder, study, counted)
        self._whole |= counted.keys()

    def _written(self, tried: Sequence[CellRecord], write: Callable[[], None]) -> None:
        failures = [record.failure for record in tried if record.failure]
        self._totals.measured += len(tried) - len(failures)
        self._totals.failed += sum(failure.kind == "machine" for failure in failures)
        self._totals.refused += sum(failure.kind == "input" for failure in failures)
        write()

    def _predict(self, point: PointRecord) -> Callable[[], None]:
        predicted = predict.predict(self._folder, point)
        return partial(predict.write, self._history, point, predicted)


def _setup_hash(spec: Spec) -> str:
    """A hash of the setup, as far as it is known before measuring. Each setup has its own studies."""
    sizes = [memory_mib(1 << power) for power in range(MOST_CPUS.bit_length())]
    clocks = SLOWED_FROM, instructions_per_ns(MOST_CPUS)
    asked = (spec.workload_sha256, spec.mode, spec.operations, spec.time_slice, spec.clock,
             spec.probes, spec.arch, spec.cgroup)  # fmt: skip
    return sha256(repr((measured_by(spec.arch), sizes, clocks, *asked)).encode()).hexdigest()[:12]
