"""Running a matrix: what its folder lacks of the tests on some kernels, several machines side by side."""

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from bigiron import compile, kernels
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.machines.file_system import KINDS, FileSystem
from bigiron.machines.qemu import require_qemu
from bigiron.matrix.calls import Test
from bigiron.matrix.outcomes import Outcome
from bigiron.study import matrix_machine
from bigiron.study.matrix_folder import Column, Matrix
from bigiron.study.matrix_machine import Place

ARCH = "x86_64"
_LOOK_S = 0.25  # how soon a Ctrl-C is noticed


@dataclass(frozen=True)
class Progress:
    """How far a matrix is."""

    place: str
    done: int  # tests, of it
    all: int
    stage: str


def identity() -> str:
    """Of what counts: the recorder, and the agent that makes the calls."""
    parts = [compile.recorder(), compile.matrix_agent(architecture(ARCH).compiler)]
    settings = (matrix_machine.CPUS, matrix_machine.RUNS, matrix_machine.WARM_UP)
    contents = b"".join(hashlib.sha256(part.read_bytes()).digest() for part in parts)
    return hashlib.sha256(contents + repr(settings).encode()).hexdigest()


def places(names: Sequence[str], fs: str, on_step: Callable[[str], None]) -> list[Place]:
    """Where tests are to run; UserError for a kernel or a file system that is not to be had."""
    if fs not in KINDS:
        raise UserError(f"--fs {fs}: use one of {', '.join(KINDS)}")
    require_qemu(architecture(ARCH).qemu)
    found = []
    for name in names:
        kernel, file_system = kernels.find(name, ARCH, on_step), FileSystem(fs)
        file_system.check_kernel(kernel)
        if file_system.size_mib:
            file_system.made()
        found.append(Place(kernel, file_system))
    return found


@dataclass(frozen=True)
class _Work:
    place: Place
    column: Column
    batch: int
    tests: list[Test]


def run_missing(
    matrix: Matrix, wanted: Sequence[Place], jobs: int, on_progress: Callable[[Progress], None]
) -> int:
    """Run every batch that is missing of those places; how many there were.

    What is measured is kept batch by batch: who runs it again goes on there. KeyboardInterrupt ends machines.
    """
    batches = matrix.batches
    columns = [(place, matrix.column(place.kernel, place.file_system.name)) for place in wanted]
    missing = [
        _Work(place, column, number, tests)
        for number, tests in enumerate(batches)  # each everywhere: what there is can be compared at any time
        for place, column in columns
        if not column.has(number)
    ]
    done = {
        column.place.name: sum(len(tests) for number, tests in enumerate(batches) if column.has(number))
        for _, column in columns
    }
    with _ended_on_error() as stop, ThreadPoolExecutor(jobs) as threads:
        running: dict[Future[list[Outcome]], _Work] = {}
        waiting = iter(missing)
        while True:
            while len(running) < jobs and (work := next(waiting, None)):
                name = work.column.place.name

                def on_stage(stage: str, name: str = name) -> None:
                    on_progress(Progress(name, done[name], len(matrix.tests), stage))

                future = threads.submit(
                    matrix_machine.run, work.place, work.tests, work.batch, stop, on_stage
                )
                running[future] = work
            if not running:
                return len(missing)
            for future in wait(running, _LOOK_S, FIRST_COMPLETED).done:
                work = running.pop(future)
                work.column.keep(work.batch, future.result())
                done[work.column.place.name] += len(work.tests)
                on_progress(
                    Progress(work.column.place.name, done[work.column.place.name], len(matrix.tests), "kept")
                )


@contextmanager
def _ended_on_error() -> Iterator[threading.Event]:
    """What ends the machines that run, where this one does not go on."""
    stop = threading.Event()
    try:
        yield stop
    except BaseException:
        stop.set()
        raise
