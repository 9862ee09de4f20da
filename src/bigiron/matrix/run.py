"""Running a matrix: what its folder lacks of the tests on some kernels, several machines side by side."""

import hashlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event

from bigiron import compile, kernels
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.machines.vm.file_system import KINDS, FileSystem
from bigiron.machines.vm.qemu import require_qemu
from bigiron.matrix import listing, machine
from bigiron.matrix.machine import KeepsCrashingError, MatrixPlace
from bigiron.matrix.model.calls import Test
from bigiron.matrix.outcomes import MatrixOutcome
from bigiron.matrix.store import PAIR, Matrix, PlaceOutcomes
from bigiron.util.english import plural
from bigiron.util.threads import StoppableThreads

MOST_CPUS = 64  # that make calls: guest/pairs/workers.h
_MOST_GIVEN_UP = 3  # batches of one place in a row: then it is the place

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MatrixProgress:
    """How far a matrix is."""

    place: str
    done: int  # tests, of it
    all: int
    stage: str


def identity(arch: str) -> str:
    """Of what counts: the recorder, and the agent that makes the calls on an architecture."""
    parts = [compile.recorder(), compile.matrix_agent(architecture(arch).compiler)]
    settings = (
        machine.OTHER_CPUS,
        machine.RUNS,
        machine.MORE_RUNS,
        machine.WARM_UP,
        machine.CGROUP.environment,
        listing.MOVED,
    )
    contents = b"".join(hashlib.sha256(part.read_bytes()).digest() for part in parts)
    return hashlib.sha256(contents + repr(settings).encode()).hexdigest()


def places(
    names: Sequence[str], arch: str, fs: str, on_step: Callable[[str], None], cpus: int = PAIR
) -> list[MatrixPlace]:
    """Where tests are to run; UserError for a kernel or a file system that is not to be had."""
    if cpus % 2 or not PAIR <= cpus <= MOST_CPUS:
        raise UserError(f"--cpus {cpus}: a test needs two CPUs, so use an even number up to {MOST_CPUS}")
    if fs not in KINDS:
        raise UserError(f"--fs {fs}: use one of {', '.join(KINDS)}")
    require_qemu(architecture(arch).qemu)
    found = []
    for name in names:
        kernel, file_system = kernels.find(name, arch, on_step), FileSystem(fs)
        file_system.check_kernel(kernel)
        if file_system.size_mib:
            file_system.made()
        found.append(MatrixPlace(kernel, file_system, cpus))
    return found


@dataclass(frozen=True)
class _PlaceWork:
    place: MatrixPlace
    column: PlaceOutcomes
    batch: int
    tests: list[Test]


def run_missing(
    matrix: Matrix, wanted: Sequence[MatrixPlace], jobs: int, on_progress: Callable[[MatrixProgress], None]
) -> int:
    """Run every batch that is missing of those places; how many tests were left out, as their machines end.

    What is measured is kept batch by batch: who runs it again goes on there. KeyboardInterrupt ends machines.
    """
    columns = [(place, matrix.column(place.kernel, place.file_system.name, place.cpus)) for place in wanted]
    missing = _Missing(matrix, columns, on_progress)
    with StoppableThreads() as threads:
        tasks = (partial(missing.run, work, threads.stop) for work in iter(missing.next, None))
        threads.do_all(tasks, jobs)
    return missing.left_out


class _Missing:
    """The batches that are to run, and how far that is."""

    def __init__(
        self,
        matrix: Matrix,
        columns: Sequence[tuple[MatrixPlace, PlaceOutcomes]],
        on_progress: Callable[[MatrixProgress], None],
    ) -> None:
        self._on_progress = on_progress
        self._all: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._given_up: Counter[str] = Counter()  # batches since one was kept
        self._waiting: deque[_PlaceWork] = deque()
        self.left_out = 0
        # Each batch everywhere: what there is can be compared at any time.
        wanted = [{test.number for test in matrix.tests_of(column, matrix.tests)} for _, column in columns]
        for number, batch in enumerate(matrix.batches):
            for (place, column), of_column in zip(columns, wanted, strict=True):
                tests = [test for test in batch if test.number in of_column]
                self._all[column.place.name] += len(tests)
                if column.has(number):
                    self._done[column.place.name] += len(tests)
                else:
                    self._waiting.append(_PlaceWork(place, column, number, tests))

    def next(self) -> _PlaceWork | None:
        """Nothing more of a place whose machines end whatever they run."""
        while self._waiting:
            work = self._waiting.popleft()
            if self._given_up[work.column.place.name] < _MOST_GIVEN_UP:
                return work
            self.left_out += len(work.tests)
        return None

    def run(self, work: _PlaceWork, stop: Event) -> Callable[[], None]:
        """Run a batch, on any thread; what is returned keeps what came of it."""
        try:
            outcomes = machine.run(work.place, work.tests, work.batch, stop, partial(self._show, work))
        except KeepsCrashingError as error:
            return partial(self._leave_out, work, error.reason)
        return partial(self._keep, work, outcomes)

    def _show(self, work: _PlaceWork, stage: str) -> None:
        name = work.column.place.name
        self._on_progress(MatrixProgress(name, self._done[name], self._all[name], stage))

    def _keep(self, work: _PlaceWork, outcomes: list[MatrixOutcome]) -> None:
        name = work.column.place.name
        work.column.keep(work.batch, outcomes)
        self._done[name] += len(work.tests)
        self._given_up[name] = 0
        self._show(work, "kept")

    def _leave_out(self, work: _PlaceWork, why: str) -> None:
        """It has not run, and is missing the next time."""
        name = work.column.place.name
        self._given_up[name] += 1
        self.left_out += len(work.tests)
        what = "no more tests run there" if self._given_up[name] == _MOST_GIVEN_UP else "the others go on"
        _log.warning("%s: left out %s, %s: %s", name, plural(len(work.tests), "test"), what, why)
