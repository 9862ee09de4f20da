"""Measuring one cell: the job for its machine, the tables of its probes, and its record."""

import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic

from bigiron import probes
from bigiron.architectures import architecture
from bigiron.errors import KernelCrashError, MachineError, UserError
from bigiron.machines.engine import Job, Programs
from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.shape_change import change
from bigiron.study import program, simulated, store
from bigiron.study.environment import CLOCK, environment, refuse_another_clock, refuse_another_machine
from bigiron.study.plan import Cell
from bigiron.study.resolve import command_words
from bigiron.study.spec import Spec
from bigiron.study.store import CellRecord, Collected, Failure, Study
from bigiron.util.sanitize import sanitize
from bigiron.util.threads import StoppedError

_WARM_UP = 100  # operations of each task before anything is measured


def measure_cell(
    study: Study,
    cell: Cell,
    programs: Programs | None,
    same: Mapping[str, object],
    stop: threading.Event,
    on_stage: Callable[[str], None],
) -> CellRecord:
    """Run one cell on this host and write its record."""
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
    """Run one cell. An error is recorded as the cell's failure; the study continues.

    `same`: what the cell's environment must have in common with the study's other cells.
    """
    engine = spec.engine
    record, collected = store.new_record(cell, spec.machine), Collected({})
    times = _Stopwatch(on_stage)

    def collect(outcome: MachineOutcome) -> Collected:
        times.stage("making tables")
        return _collect(spec, cell, programs, outcome)

    try:
        job = job_of(spec, cell, programs)
        record.environment |= environment(spec, cell, job)
        refuse_another_machine(record, same)
        collected = engine.run(job, collect, stop, times.stage)
        record.seconds, record.seconds_to_agent = collected.seconds, collected.seconds_to_agent
        record.recorded_ns = collected.recorded_ns
        record.lost = dict(collected.lost)
        record.environment |= collected.environment
        if collected.clock_slower > 1:
            record.environment[CLOCK] = collected.clock_slower
        refuse_another_clock(record, same)
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
    times.stage("writing tables")
    record.times = times.seconds
    return record, collected


class _Stopwatch:
    """Measures how long each displayed stage takes."""

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
    """An unexpected error, and where it was raised."""
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"
    if isinstance(error, MemoryError):
        return "out of memory on this host"
    last = traceback.extract_tb(error.__traceback__)[-1]
    what = sanitize(" ".join(str(error).split()))
    return f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}: {what}"


def _collect(spec: Spec, cell: Cell, programs: Programs | None, outcome: MachineOutcome) -> Collected:
    """The tables of the cell's probes, made while the machine's output still exists."""
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
        tables = {name: probes.probe(name).collect(raw) for name in spec.probes}
        more = {f"{name}_{one}": rows for name, table in tables.items() for one, rows in table.more.items()}
        collected = Collected(tables | {name: probes.ProbeTable(rows) for name, rows in more.items()})
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
        command=tuple(command_words(spec, cell.tasks)) if spec.command else (),
        per=spec.per,
        begin_at=spec.begin_at,
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
    """The job for the agent (docs/contributing/protocol.md)."""
    request, engine = _request(spec, cell), spec.engine
    lines = [
        f"mode {spec.mode}",
        *([f"cpus {cell.cpus}"] if engine.emulated or spec.command else []),  # that must be online
        f"tasks {cell.tasks}",
        f"warmup {_WARM_UP}",
        f"patience_s {program.patience_s(spec, cell.cpus)}",
        f"cpus_to_cycle {spec.cpus_to_cycle}",
        *(["allow_hotplug"] if spec.allow_hotplug else []),
        *(f"set {setting}" for setting in cell.variant.set),
    ]
    for name in spec.probes:
        # Drop lines that another probe already sent, but keep a probe's own duplicates: a command may repeat
        # a word.
        wanted = frozenset(lines)
        lines += [line for line in probes.probe(name).job(request) if line not in wanted]
    if spec.runs_program:
        lines += program.job(spec, request.command, cell.tasks)
    return "\n".join(lines) + "\n"
