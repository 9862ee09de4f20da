"""Where the cells of a study are measured: several at once, on threads of this process or on a fleet."""

import math
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import groupby
from time import monotonic, sleep
from types import TracebackType
from typing import Protocol

from bigiron.machines.engine import Programs
from bigiron.machines.vm import cgroup
from bigiron.study.cell import measure_cell
from bigiron.study.environment import SameMachine
from bigiron.study.plan import Cell
from bigiron.study.store import CellRecord, Study
from bigiron.util.threads import LOOK_S, StoppableThreads, StoppedError, ended, is_stopped


class Progress(Protocol):
    """Receives the progress of a study."""

    def started(self, cell: Cell) -> None: ...
    def stage(self, cell: Cell, stage: str) -> None: ...
    def ended(self, cell: Cell, record: CellRecord) -> None: ...
    def added(self, cells: list[Cell], why: str) -> None: ...
    def note(self, line: str) -> None: ...


class Pool(Protocol):
    """Measures several cells at once: on threads of this process, or on a fleet's workers."""

    def __enter__(self) -> "Pool": ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def room(self) -> int:
        """How many cells it can measure at once."""

    def submit(self, cell: Cell) -> Future[CellRecord]:
        """Measure a cell and write its record."""


Pools = Callable[[Study, Programs | None, Progress], Pool]
"""Makes a pool for a study."""


def any_cell(_cell: Cell) -> bool:
    return True


def missing(study: Study, wanted: Callable[[Cell], bool] = any_cell) -> list[Cell]:
    """The wanted cells that failed or lack a probe, in the order in which they run."""
    cells = [cell for cell in study.plan() if wanted(cell)]
    if study.spec.measures_time:
        blocks = groupby(cells, key=lambda cell: cell.block)
        cells = [cell for _, block in blocks for cell in _counterbalanced(list(block))]
    return [cell for cell in cells if not study.is_measured(cell)]


def _counterbalanced(block: list[Cell]) -> list[Cell]:
    """The variants of a repetition in a fixed random order, and those of the next repetition in reverse.

    So drift affects all variants equally, and no variant comes first more often than another: the first one
    may find the machine cooler, or its memory less fragmented.
    """
    repetition, cpus, tasks = block[0].block
    random.Random(str(((repetition + 1) // 2, cpus, tasks))).shuffle(block)
    return block if repetition % 2 else block[::-1]


def measure_missing(
    study: Study,
    programs: Programs | None,
    jobs: int | Pools,
    progress: Progress,
    until: float = math.inf,
    wanted: Callable[[Cell], bool] = any_cell,
) -> list[CellRecord]:
    """Measure every missing cell; the caller holds `study.writing()`.

    `until`: a time of the monotonic clock after which no block starts.
    """
    records: list[CellRecord] = []
    noted: set[str] = set()
    waiting, block = deque(missing(study, wanted)), None
    pools = partial(Threads, jobs) if isinstance(jobs, int) else jobs
    with pools(study, programs, progress) as pool:
        running: dict[Future[CellRecord], Cell] = {}
        while waiting or running:
            room = pool.room
            while waiting and len(running) < room and (waiting[0].block == block or monotonic() < until):
                cell = waiting.popleft()
                block = cell.block
                running[pool.submit(cell)] = cell
            if not running and room:
                break
            if not running:
                sleep(LOOK_S)
            for future in ended(running):
                records.append(future.result())
                progress.ended(running.pop(future), records[-1])
                _note_lacking(records[-1], noted, progress)
    return records


def _note_lacking(record: CellRecord, noted: set[str], progress: Progress) -> None:
    """Report once for each variant which cgroup controllers its kernel lacks."""
    if (lacking := cgroup.lacking(record.environment)) and record.variant not in noted:
        noted.add(record.variant)
        progress.note(f"{record.variant}: {lacking}")


class Threads:
    """A pool of threads in this process; each thread runs one machine."""

    def __init__(self, jobs: int, study: Study, programs: Programs | None, progress: Progress) -> None:
        self.room = jobs
        self._study, self._programs, self._progress = study, programs, progress
        self._threads, self._same = StoppableThreads(), SameMachine(study)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.__exit__(kind, error, trace)

    def submit(self, cell: Cell) -> Future[CellRecord]:
        """Measure the cell in one of the threads."""
        return self._threads.submit(self._measure, cell)

    def _measure(self, cell: Cell) -> CellRecord:
        self._progress.started(cell)
        return measure_cell(
            self._study,
            cell,
            self._programs,
            self._same.of(cell),
            self._threads.stop,
            lambda stage: self._progress.stage(cell, stage),
        )


class Stoppable:
    """A pool for one of several threads. Raises StoppedError when that thread is to stop."""

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
        """How many cells it can measure at once."""
        if is_stopped():
            raise StoppedError
        return self._pool.room

    def submit(self, cell: Cell) -> Future[CellRecord]:
        """Measure a cell and write its record."""
        return self._pool.submit(cell)
