"""Running a study: every cell that is missing or failed, several machines side by side."""

import math
import os
import platform
import random
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Protocol

from bigiron import compile, libbpf, probes
from bigiron.architectures import architecture
from bigiron.errors import KernelCrashError, MachineError, UserError
from bigiron.machines.engine import Job, Programs
from bigiron.machines.outcome import Outcome
from bigiron.machines.vm import cgroup
from bigiron.machines.vm.shape_change import change
from bigiron.study import simulated, store
from bigiron.study import spec as study_spec
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec, command_words
from bigiron.study.store import CellRecord, Collected, Failure, Study
from bigiron.util.sanitize import sanitize
from bigiron.util.threads import LOOK_S, StoppableThreads, StoppedError, ended, result
from bigiron.workloads import Workload

_WARM_UP = 100  # operations of each task before anything is measured


class Progress(Protocol):
    """Hears how a study gets on."""

    def started(self, cell: Cell) -> None: ...
    def stage(self, cell: Cell, stage: str) -> None: ...
    def ended(self, cell: Cell, record: CellRecord) -> None: ...
    def added(self, cells: list[Cell], why: str) -> None: ...
    def note(self, line: str) -> None: ...


class Pool(Protocol):
    """Where cells are tried, several side by side: on threads of this process, or on a fleet's workers."""

    def __enter__(self) -> "Pool": ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def room(self) -> int:
        """How many cells it takes at once."""

    def submit(self, cell: Cell) -> Future[CellRecord]:
        """Try a cell, and write what comes of it."""


Pools = Callable[[Study, Programs | None, Progress], Pool]
"""What makes one for a study."""


def _any(_cell: Cell) -> bool:
    return True


def missing(study: Study, wanted: Callable[[Cell], bool] = _any) -> list[Cell]:
    """The wanted cells that were not measured yet with all probes, or failed, in the order of their runs."""
    cells = [cell for cell in study.plan() if wanted(cell)]
    if study.spec.measures_time:
        blocks = groupby(cells, key=lambda cell: cell.block)
        cells = [cell for _, block in blocks for cell in _counterbalanced(list(block))]
    return [cell for cell in cells if not study.is_measured(cell)]


def _counterbalanced(block: list[Cell]) -> list[Cell]:
    """The variants of a repetition in random order, the same each time; of the next one in the reverse order.

    So whatever drifts meanwhile hits all alike, and no variant comes first more often than another: what is
    measured first may find the machine colder, or its memory more in order.
    """
    repetition, cpus, tasks = block[0].block
    random.Random(str(((repetition + 1) // 2, cpus, tasks))).shuffle(block)
    return block if repetition % 2 else block[::-1]


def default_jobs(spec: Spec) -> int:
    """How many machines run side by side.

    Where time is measured, they run alone: machines would take each other's time.
    """
    return 1 if spec.measures_time else spec.engine.side_by_side(max(spec.cpus))


def resolve(spec: Spec) -> tuple[Spec, Workload | None]:
    """Check what a study asks, and fix what names can change: before anything runs."""
    return (simulated.resolve(spec), None) if spec.engine.is_model else study_spec.resolve(spec)


def prepare(
    spec: Spec, workload: Workload | None, *, here: bool = True, fresh_boot: bool = False
) -> Programs | None:
    """Compile what the study needs, if it runs programs; UserError if it is to run here and cannot."""
    if fresh_boot and not spec.engine.emulated:
        raise UserError("--fresh-boot is for virtual machines: no other is booted")
    with StoppableThreads() as aside:  # QEMU and each compiler take long to tell their versions
        prepared = aside.submit(spec.engine.prepare, spec.cpus) if here else None
        try:
            programs = None if spec.engine.is_model else _programs(spec, workload, fresh_boot, aside)
        except UserError:
            if prepared:
                result(prepared)  # what it lacks is said first
            raise
        if prepared:
            result(prepared)
        return programs


def _programs(spec: Spec, workload: Workload | None, fresh_boot: bool, aside: StoppableThreads) -> Programs:
    target = architecture(spec.arch)
    programs = [name for name in spec.probes if probes.probe(name).needs_bpf]
    # What is done in rounds is done by one task, most of it in the kernel.
    turns = (
        spec.engine.emulated and spec.time_slice == "operation" and bool(workload and not workload.has_rounds)
    )
    recorder = aside.submit(compile.recorder) if probes.needs_recorder(spec.probes) else None
    boot = aside.submit(compile.boot, target.compiler) if spec.engine.emulated else None
    return Programs(
        compile.agent(workload, target.compiler, libbpf.flags(target) if programs else (), time_slices=turns),
        result(recorder) if recorder else None,
        tuple(compile.bpf(name) for name in programs),
        turns,
        result(boot) if boot else None,
        fresh_boot,
    )


def run(
    study: Study,
    programs: Programs | None,
    jobs: int | Pools,
    progress: Progress,
    wanted: Callable[[Cell], bool] = _any,
) -> list[CellRecord]:
    """Measure every missing cell, so many side by side, or elsewhere; the records of those tried now.

    A cell that fails is written as failed, and the others go on. KeyboardInterrupt ends the machines that
    run and leaves their cells missing.
    """
    with study.writing():
        return measure_missing(study, programs, jobs, progress, wanted=wanted)


def measure_missing(
    study: Study,
    programs: Programs | None,
    jobs: int | Pools,
    progress: Progress,
    until: float = math.inf,
    wanted: Callable[[Cell], bool] = _any,
) -> list[CellRecord]:
    """The same for whoever is `study.writing()`. After `until`, by the monotonic clock, no block is begun."""
    records: list[CellRecord] = []
    noted: set[str] = set()
    waiting, begun = deque(missing(study, wanted)), None
    pools = partial(Threads, jobs) if isinstance(jobs, int) else jobs
    with pools(study, programs, progress) as pool:
        running: dict[Future[CellRecord], Cell] = {}
        while waiting or running:
            room = pool.room
            while waiting and len(running) < room and (waiting[0].block == begun or monotonic() < until):
                cell = waiting.popleft()
                begun = cell.block
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
    """Say once of each variant what its kernel lacks."""
    if (lacking := cgroup.lacking(record.environment)) and record.variant not in noted:
        noted.add(record.variant)
        progress.note(f"{record.variant}: {lacking}")


class Threads:
    """So many threads of this process, each with a machine of its own."""

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
        """Run it in one of the threads."""
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


def measure_cell(
    study: Study,
    cell: Cell,
    programs: Programs | None,
    same: Mapping[str, object],
    stop: threading.Event,
    on_stage: Callable[[str], None],
) -> CellRecord:
    """Run one cell here and write what came of it."""
    record, collected = run_cell(study.spec, cell, programs, same, stop, on_stage)
    study.add(record, collected.tables, collected.files)
    return record


def run_cell(
    spec: Spec,
    cell: Cell,
    programs: Programs | None,
    same: Mapping[str, object],
    stop: threading.Event,
    on_stage: Callable[[str], None],
) -> tuple[CellRecord, Collected]:
    """Run one cell. Whatever happens to it is its failure, and not the study's.

    `same` is what of its environment must be as in the study's other cells.
    """
    engine = spec.engine
    record, collected = store.new_record(cell, spec.machine), Collected({})
    times = _Stopwatch(on_stage)

    def collect(outcome: Outcome) -> Collected:
        times.stage("making tables")
        return _collect(spec, cell, programs, outcome)

    try:
        job = job_of(spec, cell, programs)
        record.environment |= _environment(spec, cell, job)
        _refuse_another_machine(record, same)
        collected = engine.run(job, collect, stop, times.stage)
        record.seconds, record.seconds_to_agent = collected.seconds, collected.seconds_to_agent
        record.recorded_ns = collected.recorded_ns
        record.lost = dict(collected.lost)
        record.environment |= collected.environment
        if collected.clock_slower > 1:
            record.environment[_CLOCK] = collected.clock_slower
        _refuse_another_clock(record, same)
    except StoppedError:
        raise
    except UserError as error:
        record.failure = Failure("input", sanitize(str(error)))
    except MachineError as error:
        record.failure = Failure(
            "machine",
            sanitize(error.reason),
            sanitize(error.console_tail),
            kernel_crashed=isinstance(error, KernelCrashError),
        )
    except Exception as error:
        record.failure = Failure("machine", _in_one_line(error))
    times.stage("writing them")
    record.times = times.seconds
    return record, collected


class _Stopwatch:
    """How long each stage takes, of those that are shown."""

    def __init__(self, on_stage: Callable[[str], None]) -> None:
        self.seconds: dict[str, float] = {}
        self._on_stage = on_stage
        self._stage, self._since = "preparing", monotonic()

    def stage(self, name: str) -> None:
        now = monotonic()
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        if name != self._stage:
            self._on_stage(name)
        self._stage, self._since = name, now


def _in_one_line(error: Exception) -> str:
    """What went wrong that nobody foresaw, and where."""
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"
    if isinstance(error, MemoryError):
        return "this machine has not memory enough"
    last = traceback.extract_tb(error.__traceback__)[-1]
    what = sanitize(" ".join(str(error).split()))
    return f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}: {what}"


def _collect(spec: Spec, cell: Cell, programs: Programs | None, outcome: Outcome) -> Collected:
    """What the cell's probes found, while what it left is still there."""
    if not programs:
        collected = simulated.collect(outcome)
    else:
        raw = probes.RawOutput(
            outcome.messages,
            outcome.results,
            architecture(spec.arch),
            programs.agent,
            _request(spec, cell),
            outcome.ram,
        )
        collected = Collected({name: probes.probe(name).collect(raw) for name in spec.probes})
    return replace(
        collected,
        lost=outcome.lost,
        seconds=outcome.seconds,
        seconds_to_agent=outcome.seconds_to_agent,
        recorded_ns=outcome.recorded_ns,
        clock_slower=outcome.clock_slower,
        environment=outcome.environment,
    )


def _request(spec: Spec, cell: Cell) -> probes.CellRequest:
    return probes.CellRequest(
        cell.cpus,
        cell.tasks,
        spec.operations,
        spec.mode,
        spec.options,
        files_at=spec.engine.files_at,
        in_vm=spec.engine.emulated,
        slow_clock=spec.clock == "instructions",
        command=tuple(command_words(spec.command, cell.tasks)) if spec.command else (),
    )


def job_of(spec: Spec, cell: Cell, programs: Programs | None) -> Job:
    variant = cell.variant
    return Job(
        kernel=variant.kernel,
        boot=variant.boot,
        settings=tuple(variant.set),
        cpus=cell.cpus,
        tasks=cell.tasks,
        repetition=cell.repetition,
        agent_job=agent_job(spec, cell) if programs else "",
        programs=programs,
        change=change(cell.change),
    )


def agent_job(spec: Spec, cell: Cell) -> str:
    """What the agent is to do (docs/protocol.md)."""
    request, engine = _request(spec, cell), spec.engine
    lines = [
        f"mode {spec.mode}",
        *([f"cpus {cell.cpus}"] if engine.emulated or spec.command else []),  # that must be there
        f"tasks {cell.tasks}",
        f"warmup {_WARM_UP}",
        f"patience_s {engine.deadline_s(cell.cpus) // (1 if spec.command else 2)}",
        f"cpus_to_cycle {spec.cpus_to_cycle}",
        *(["allow_hotplug"] if spec.allow_hotplug else []),
        *(f"set {setting}" for setting in cell.variant.set),
    ]
    for name in spec.probes:
        # Two probes may want the same. What one of them says twice it means twice: a command's words.
        wanted = frozenset(lines)
        lines += [line for line in probes.probe(name).job(request) if line not in wanted]
    return "\n".join(lines) + "\n"


def _environment(spec: Spec, cell: Cell, job: Job) -> dict[str, object]:
    """All that produced the cell: what was asked, and where it ran."""
    asked: dict[str, object] = {}
    if job.programs:
        asked = {
            "workload": spec.workload,
            "workload_sha256": spec.workload_sha256,
            **({"command": spec.command} if spec.command else _of_workload(spec)),
            **_of_probes(spec),
            "kernel_sha256": cell.variant.kernel_sha256,
            "set": cell.variant.set,
            **({"recorder": compile.recorder_source()} if job.programs.recorder else {}),
            "arch": spec.arch,
            "host": f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs",
        }
    return asked | spec.engine.environment(job)


class SameMachine:
    """What a study's cells must have in common with those that are measured: counts of others do not compare.

    The first measured cell of a shape tells it, and is read once.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._cells: dict[tuple[object, ...], list[Cell]] = {}
        self._first: dict[tuple[object, ...], CellRecord] = {}
        for cell in study.plan() if study.spec.engine.emulated else ():
            for place in _shape(cell), _shape_of_variant(cell):
                self._cells.setdefault(place, []).append(cell)

    def of(self, cell: Cell) -> dict[str, object]:
        """What a cell must have; nothing where none of its shape is measured yet."""
        if not (first := self._measured(_shape(cell))):
            return {}
        same: dict[str, object] = {what: first.environment.get(what, "unknown") for what in _MUST_MATCH}
        # A kernel that does not tell how its clock is slowed down has one as fast as the host's.
        own = self._measured(_shape_of_variant(cell))
        return same | ({_CLOCK: own.clock_slower} if own else {})

    def _measured(self, place: tuple[object, ...]) -> CellRecord | None:
        if place not in self._first:
            records = map(self._study.record, self._cells.get(place, ()))
            if first := next((record for record in records if record and record.measured), None):
                self._first[place] = first
        return self._first.get(place)


def _shape(cell: Cell) -> tuple[object, ...]:
    return cell.cpus, cell.change


def _shape_of_variant(cell: Cell) -> tuple[object, ...]:
    return cell.cpus, cell.change, cell.variant.name


_MUST_MATCH = ("time_slice", "memory_mib", "cgroup")
_CLOCK = "clock_slower"


def _refuse_another_machine(record: CellRecord, same: Mapping[str, object]) -> None:
    """UserError if the study has cells of another kind of machine."""
    for what in _MUST_MATCH:
        _refuse_another(what, record.environment.get(what, "unknown"), same)


def _refuse_another_clock(record: CellRecord, same: Mapping[str, object]) -> None:
    """The same of the clock, which is known once the cell has run."""
    _refuse_another(_CLOCK, record.clock_slower, same)


def _refuse_another(what: str, now: object, same: Mapping[str, object]) -> None:
    was = same.get(what, now)
    if was != now:
        raise UserError(
            f"the study's other cells have {what} {was} and this one {now}: "
            "counts of the two are not compared; give another -o"
        )


def _of_workload(spec: Spec) -> dict[str, object]:
    return {
        "mode": spec.mode,
        "operations": spec.operations,
        "cpus_to_cycle": spec.cpus_to_cycle,
    }


def _of_probes(spec: Spec) -> dict[str, object]:
    """The options of all probes that a workload, or a command, can be measured by."""
    return {
        key: value
        for probe in probes.probes()
        if probe.options and ("command" in probe.measures) == bool(spec.command)
        for key, value in spec.options[probe.options].environment().items()
    }
