"""Measuring what a history lacks: a study for each workload and file system."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Protocol

import msgspec

from bigiron import compile, kernels, workloads
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.history import points, predict
from bigiron.history.collect import PROBES
from bigiron.history.database import FILE, History, create
from bigiron.history.records import Kernel, Point
from bigiron.kernels import Kernel as Image
from bigiron.machines.engine import Programs
from bigiron.machines.vm.dilation import SLOWED_FROM, instructions_per_ns
from bigiron.machines.vm.qemu import require_qemu
from bigiron.machines.vm.vm import memory_mib
from bigiron.study import run as runner
from bigiron.study import store
from bigiron.study.plan import Cell
from bigiron.study.run import Pool, Pools, Progress
from bigiron.study.spec import MOST_CPUS, Spec, Variant, check_cpus, slug
from bigiron.study.store import CellRecord, Study
from bigiron.util.cache_dir import locked
from bigiron.util.english import plural
from bigiron.util.threads import StoppableThreads, StoppedError, is_stopped
from bigiron.workloads import Workload

_SUITES = ("fxmark/",)
_FILE_SYSTEMS = ("ext4", "btrfs")  # besides the machine's tmpfs
_OURS = {FILE, f"{FILE}-journal", points.STUDIES, ".lock"}
_OPERATIONS = 200  # of each task: most counts repeat exactly with fewer, and there are many cells
_STUDIES_ON_A_FLEET = 8  # beside each other: one study has too few cells for it


@dataclass(frozen=True)
class Asked:
    """A workload on a file system; none: the machine's own tmpfs."""

    workload: Workload
    fs: str = ""

    @property
    def name(self) -> str:
        """As it stands in the history."""
        return points.name_of(self.workload.name, self.fs)


def catalogue() -> list[Asked]:
    """All that a history has unless it is told otherwise: workloads whose operations go on for ever.

    Those that take CPUs offline are left out: no probe that is recorded here measures them.
    """
    built_in = [one for one in workloads.builtin() if not one.has_rounds]
    suites = [one for one in built_in if one.name.startswith(_SUITES)]
    return [*map(Asked, built_in), *(Asked(one, fs) for fs in _FILE_SYSTEMS for one in suites)]


def chosen(globs: Sequence[str]) -> list[Asked]:
    """Those of the catalogue that any of the globs names; UserError for one that names none.

    >>> [asked.name for asked in chosen(["open?", "fxmark/DWA*@ext4"])]
    ['open1', 'open2', 'fxmark/DWAL@ext4', 'fxmark/DWAL-direct@ext4']
    """
    known = catalogue()
    for glob in globs:
        if not any(fnmatchcase(asked.name, glob) for asked in known):
            names = ", ".join(asked.name for asked in known[:4])
            raise UserError(
                f"--workloads {glob!r} names none of them ({names}, ...): `bigiron workload list`"
            )
    return [asked for asked in known if not globs or any(fnmatchcase(asked.name, glob) for glob in globs)]


@dataclass(frozen=True)
class _Work:
    """A workload's study, and which of its cells are to be measured."""

    asked: Asked
    study: Study
    missing: int
    wanted: Callable[[Cell], bool]


class Watcher(Protocol):
    """Hears how a history gets on."""

    def within(self, name: str, cells: int) -> Progress:
        """What hears how the cells of a workload get on, so many more than were known of."""

    def note(self, line: str) -> None:
        """Something that concerns no cell alone."""


@dataclass(frozen=True)
class Question:
    """What is asked of a history."""

    kernels: Sequence[str]
    cpus: list[int]
    workloads: Sequence[Asked]
    arch: str = "x86_64"


@dataclass
class Done:
    """What came of it."""

    measured: int = 0
    failed: int = 0
    refused: int = 0


def add(folder: Path, question: Question, jobs: int, fleet: Pools | None, watcher: Watcher) -> Done:
    """Measure what the history lacks of some kernels, and bring its database up to date.

    KeyboardInterrupt ends the machines that run; what was measured by then is in the history.
    """
    check_cpus(question.cpus)  # or each workload would stand there as refused for them
    images = [kernels.find(name, question.arch) for name in question.kernels]
    with _writing(folder) as history:
        _refuse_another_architecture(history, question.arch)
        with history.writing():
            for image in images:
                points.kernel(history, image.name, image.release, image.version, image.arch, image.sha256)
        return _Adding(history, folder, question, images, watcher).measure(jobs, fleet)


@contextmanager
def _writing(folder: Path) -> Iterator[History]:
    """The history, of which this is the only writer; UserError where there is another, or something else."""
    if folder.exists() and not (folder.is_dir() and _OURS.issuperset(path.name for path in folder.iterdir())):
        raise UserError(f"{folder} is there already and is no history: give another folder with -o")
    folder.mkdir(parents=True, exist_ok=True)

    def refuse() -> None:
        raise UserError(f"another bigiron adds to the history {folder}: wait for it")

    with locked(folder, refuse):
        yield create(folder)


def _refuse_another_architecture(history: History, arch: str) -> None:
    for known in history.select(Kernel):
        if known.architecture != arch:
            raise UserError(
                f"the history has kernels for {known.architecture}, and these are for {arch}: "
                "give another folder with -o"
            )


class _Adding:
    """What is asked of a history, and where."""

    def __init__(
        self,
        history: History,
        folder: Path,
        question: Question,
        images: Sequence[Image],
        watcher: Watcher,
    ) -> None:
        self._history, self._folder, self._question = history, folder, question
        self._images, self._watcher = images, watcher
        self._done = Done()
        self._whole = points.whole(history)

    def measure(self, jobs: int, fleet: Pools | None) -> Done:
        """One workload after the other, several beside each other: each has a machine, or the fleet."""
        spec = self._spec(self._question.workloads[0], self._images)
        beside = _STUDIES_ON_A_FLEET if fleet else jobs or runner.default_jobs(spec)
        pools = partial(_Stoppable, fleet or partial(runner.Threads, 1))
        works = filter(None, map(self._work, self._asked(fleet)))
        # What an add that was ended had not counted, before its studies go on.
        left = (partial(self._count, study) for study in points.studies(self._folder))
        asked = (partial(self._run, work, pools, here=not fleet) for work in works)
        with StoppableThreads() as threads:
            threads.do_all(left, beside)
            threads.do_all(asked, beside)
            unpredicted = predict.missing(self._history)
            if unpredicted:
                machines = " and ".join(predict.MACHINES)
                self._watcher.note(f"predicting for {machines} from {plural(len(unpredicted), 'point')}")
            threads.do_all((partial(self._predict, point) for point in unpredicted), beside)
        return self._done

    def _asked(self, fleet: Pools | None) -> list[Asked]:
        """What is asked of these machines: a fleet's workers are given no file systems."""
        asked = [one for one in self._question.workloads if not (fleet and one.fs)]
        if left_out := len(self._question.workloads) - len(asked):
            self._watcher.note(
                f"{plural(left_out, 'workload')} on other file systems left out, which no fleet measures: "
                "run this again without --fleet"
            )
        return asked

    def _spec(self, asked: Asked, images: Sequence[Image]) -> Spec:
        return Spec(
            workload=asked.workload.name,
            fs=asked.fs,
            arch=self._question.arch,
            probes=list(PROBES),
            cpus=list(self._question.cpus),
            operations=_OPERATIONS,
            # By the host's clock ticks come with every operation, and each gives a file another time.
            clock="instructions" if asked.fs else "host",
            variant=[Variant(name=image.name, kernel=image.name) for image in images],
        )

    def _work(self, asked: Asked) -> _Work | None:
        """The study of a workload, asked what is asked now; None if nothing of that is missing."""
        spec, refused = self._resolved(asked)
        self._done.refused += len(refused)
        points.refuse(self._history, self._spec(asked, self._images), refused)
        if not spec:
            return None
        folder = self._folder / points.STUDIES / slug(asked.name) / _maker(spec)
        names = [variant.name for variant in spec.variant]
        if (folder / "study.toml").exists():
            spec = _widened(store.open_study(folder).spec, spec)
        study = store.create(folder, spec, asked.workload)

        def wanted(cell: Cell) -> bool:
            if cell.variant.name not in names or cell.cpus not in self._question.cpus:
                return False
            record = study.record(cell)
            return not (record and record.failure and record.failure.kind == "input")

        missing = len(runner.missing(study, wanted))
        return _Work(asked, study, missing, wanted) if missing else None

    def _resolved(self, asked: Asked) -> tuple[Spec | None, dict[str, str]]:
        """The question without the kernels that the workload or its file system refuses, and why it does."""
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

    def _run(self, work: _Work, pools: Pools, *, here: bool) -> Callable[[], None]:
        programs = runner.prepare(work.study.spec, work.asked.workload, here=here)
        progress = self._watcher.within(work.asked.name, work.missing)
        tried = runner.run(work.study, programs, pools, progress, work.wanted)
        write = self._count(work.study.folder)
        return partial(self._written, tried, write)

    def _count(self, study: Path) -> Callable[[], None]:
        """Not where it is written: the main thread would have no other machine begin meanwhile."""
        return partial(self._write, study, points.count(self._folder, study, self._whole))

    def _write(self, study: Path, counted: points.AllCounted) -> None:
        points.update(self._history, self._folder, study, counted)
        self._whole |= counted.keys()

    def _written(self, tried: Sequence[CellRecord], write: Callable[[], None]) -> None:
        failures = [record.failure for record in tried if record.failure]
        self._done.measured += len(tried) - len(failures)
        self._done.failed += sum(failure.kind == "machine" for failure in failures)
        self._done.refused += sum(failure.kind == "input" for failure in failures)
        write()

    def _predict(self, point: Point) -> Callable[[], None]:
        predicted = predict.predict(self._folder, point)
        return partial(predict.write, self._history, point, predicted)


def _maker(spec: Spec) -> str:
    """What of an identity is known before anything is measured: studies of another one are kept apart."""
    sizes = [memory_mib(1 << power) for power in range(MOST_CPUS.bit_length())]
    qemu = require_qemu(architecture(spec.arch).qemu)
    clocks = SLOWED_FROM, instructions_per_ns(MOST_CPUS)
    asked = (spec.workload_sha256, spec.mode, spec.operations, spec.time_slice, spec.clock,
             spec.probes, spec.arch, spec.cgroup)  # fmt: skip
    return sha256(repr((compile.recorder_source(), qemu, sizes, clocks, *asked)).encode()).hexdigest()[:12]


def _widened(old: Spec, asked: Spec) -> Spec:
    """A study's question with what is asked besides."""
    known = {variant.name for variant in old.variant}
    return msgspec.structs.replace(
        asked,
        cpus=[*old.cpus, *(cpus for cpus in asked.cpus if cpus not in old.cpus)],
        variant=[*old.variant, *(variant for variant in asked.variant if variant.name not in known)],
    )


class _Stoppable:
    """A pool on one of several threads: what asks it for room is stopped with that thread's work."""

    def __init__(self, pools: Pools, study: Study, programs: Programs | None, progress: Progress) -> None:
        self._pool = pools(study, programs, progress)

    def __enter__(self) -> Pool:
        self._pool.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.__exit__(kind, error, trace)

    @property
    def room(self) -> int:
        """How many cells it takes at once."""
        if is_stopped():
            raise StoppedError
        return self._pool.room

    def submit(self, cell: Cell) -> Future[CellRecord]:
        """Try a cell, and write what comes of it."""
        return self._pool.submit(cell)
