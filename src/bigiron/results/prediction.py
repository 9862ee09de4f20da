"""Replays the recordings of a study on a described machine (docs/explanation/prediction-model.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from bigiron import _sim
from bigiron.analysis.lines.line_costs import LineCosts
from bigiron.analysis.replay import callbacks, prediction, synthetic_operation, trace
from bigiron.analysis.replay.extrapolate import VariantCounts, extrapolate
from bigiron.analysis.replay.extrapolated import NOTHING, Extrapolated
from bigiron.analysis.replay.prediction import PredictedCurve, PredictedRatio
from bigiron.analysis.replay.program import ReplayProgram
from bigiron.analysis.statistics import growth
from bigiron.errors import UserError
from bigiron.readers.measured_points import MeasuredPoints
from bigiron.results import measurements
from bigiron.simulator import machine_files
from bigiron.simulator.fitted import FITTED, Constants
from bigiron.simulator.replay import KnownRate, Replayed, ReplayOptions, Source, replay
from bigiron.study.caveats import clock_step
from bigiron.study.store import CellRecord, Study
from bigiron.util.lazy import numpy as np
from bigiron.util.lazy import polars as pl

PROBES = ("conflicts", "locks", "instructions")
"""The probes from which a prediction is made if there is no trace."""

_EXTRAPOLATED_FROM = (
    "instructions",
    "conflicts",
)  # the probes from which counts are extrapolated to more CPUs

SAMPLES = 64
"""Machines that are sampled from the ranges of all unknowns."""

_SAMPLED = 32  # operations of a trace in one sample
_UNEVEN = (
    1.0  # relative standard deviation of instructions per operation above which samples have all of them
)

_ALONE = "it was recorded with one task, which shares nothing: record it with at least 8 CPUs"

_SLEEPS = 0.05  # share of the instructions that the scheduler may execute for other reasons than locks

_FEWEST = 50  # kernel instructions per operation; entering and leaving the kernel takes more than 100
_OUTSIDE = (
    "most of its operations never enter the kernel, and user-space instructions are not recorded: use a "
    "workload that makes at least one system call or page fault per operation"
)


@dataclass(frozen=True)
class Refused:
    """A variant that cannot be predicted."""

    variant: str
    why: str


class NothingPredictedError(UserError):
    """No variant of a study can be predicted."""

    def __init__(self, study: Study, refused: Sequence[Refused]) -> None:
        self.why = f"{refused[0].variant}: {refused[0].why}"
        super().__init__(f"{study.folder} cannot be predicted: {self.why}")


@dataclass(frozen=True)
class VariantRecording:
    """A variant's recording, from which its programs are made."""

    variant: str
    cpus: int
    instructions: float  # per operation
    source: Source
    extrapolated: Extrapolated = NOTHING
    is_trace: bool = False
    not_extrapolated: str = ""  # why it could not be extrapolated to more CPUs


@dataclass(frozen=True)
class Prediction:
    """The predicted throughput of a study's variants on a machine."""

    study: str
    workload: str
    machine: str
    machine_file: str  # the machine's name or file, as given
    description: str
    tasks: list[int]
    first: str  # the study's first variant, to which `one_task` and `measured` belong
    one_task: float | None  # operations per second, if given
    measured: MeasuredPoints | None
    lock: str
    samples: int
    unknowns: int
    recordings: list[VariantRecording]
    curves: list[PredictedCurve]
    ratios: list[PredictedRatio]
    refused: list[Refused]
    costs: LineCosts  # at the largest number of tasks
    missed: int  # samples that miss the rate of one task
    recorded_on: str  # the architecture of the recorded kernels
    architecture: str  # that of the machine's


def predict(
    study: Study,
    machine: str,
    tasks: Sequence[int],
    *,
    one_task: float | None = None,
    measured: MeasuredPoints | None = None,
    samples: int = SAMPLES,
    seed: int = 1,
    lock: str | None = None,
    spread: bool = False,
    constants: Constants = FITTED,
    traces: bool = True,
    extrapolated: Mapping[str, Extrapolated] | None = None,
    longer: Mapping[str, Mapping[str, float]] | None = None,
) -> Prediction:
    """Predict every variant at each number of tasks. Default: powers of two up to the machine's CPUs.

    `one_task`: operations per second of one task of the study's first variant on the machine. `measured`:
    the measured throughput of that variant; its numbers of tasks are predicted too. Without `traces`
    everything is predicted from counts. `lock`: the kind of spinlock, instead of the machine's.
    `extrapolated`: the additional counts per operation of each variant on a machine with more CPUs;
    default: extrapolated from the study. `longer`: by how many instructions the operations of each variant
    take longer than those they execute, by function.
    """
    model = _machine(machine, study.spec.arch)
    tasks = sorted({*(tasks or doublings(machine)), *(measured.throughput if measured else ())})
    if max(tasks) > model.cpus:
        raise UserError(f"{max(tasks)} tasks: {model.name} has {model.cpus} CPUs")
    recordings, refused = record(study, max(tasks), traces, extrapolated, model.cpus, longer)
    if not recordings:
        raise NothingPredictedError(study, refused)
    first = study.spec.variant[0].name
    _refuse_without_first(first, refused, {"--one-task": one_task, "--measured": measured})
    known = KnownRate(first, 1, one_task) if one_task else None
    options = ReplayOptions(model, tasks, samples, seed, known, lock, spread, constants)
    found = replay({one.variant: one.source for one in recordings}, options)
    return Prediction(
        study.name,
        study.spec.workload,
        model.name,
        machine,
        model.description,
        tasks,
        first,
        one_task,
        measured,
        lock or model.spinlocks,
        samples,
        len(found.unknowns),
        recordings,
        _curves(found, tasks),
        _ratios(found),
        refused,
        _costs(found, options, refused),
        found.missed,
        study.spec.arch,
        model.architecture,
    )


def _refuse_without_first(first: str, refused: Sequence[Refused], given: Mapping[str, object]) -> None:
    """UserError if an option belongs to the first variant and that variant cannot be predicted."""
    options = " and ".join(option for option, value in given.items() if value)
    for one in refused:
        if options and one.variant == first:
            raise UserError(
                f"{options}: of {first}, the study's first variant, which cannot be predicted: {one.why}; "
                f"leave out {options}"
            )


def line_costs(study: Study, machine: str) -> LineCosts:
    """What share of the tasks' time each shared cache line takes with a task on every CPU of the machine."""
    return predict(study, machine, [_machine(machine, study.spec.arch).cpus]).costs


def _machine(name: str, arch: str) -> _sim.Machine:
    model = machine_files.load(name, arch)
    if not model.has_processor:
        raise UserError(
            f"{name} does not describe its processors: add the table [processor] "
            "(docs/reference/machine-files.md)"
        )
    return model


def doublings(machine: str) -> list[int]:
    """1, 2, 4 and so on, up to the number of CPUs of the machine."""
    most = machine_files.load(machine).cpus
    return sorted({*(1 << power for power in range(most.bit_length())), most})


def _curves(found: Replayed, asked: Sequence[int]) -> list[PredictedCurve]:
    return [
        prediction.curve(variant, found.tasks, samples.throughput, samples.shares, found.unknowns, asked)
        for variant, samples in found.variants.items()
    ]


def _costs(found: Replayed, options: ReplayOptions, refused: Sequence[Refused]) -> LineCosts:
    most = max(options.tasks)
    column = found.tasks.index(most)
    by_variant = {
        variant: prediction.costs(samples.line_costs(column)) for variant, samples in found.variants.items()
    }
    return LineCosts(options.machine.name, most, by_variant, {one.variant: one.why for one in refused})


def _ratios(found: Replayed) -> list[PredictedRatio]:
    (base, of_base), *others = found.variants.items()
    return [
        prediction.ratio(base, variant, found.tasks, of_base.throughput, samples.throughput)
        for variant, samples in others
    ]


def record(
    study: Study,
    most_tasks: int,
    traces: bool = True,
    extrapolated: Mapping[str, Extrapolated] | None = None,
    cpus: int = 0,
    longer: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[list[VariantRecording], list[Refused]]:
    """The recording of every variant at its largest number of CPUs; or why the variant has none.

    `extrapolated`: the additional counts of each variant; default: extrapolated from the study up to `cpus`.
    `longer`: as in `predict`.
    """
    if study.spec.engine.is_model or study.spec.engine.is_imported:
        raise UserError(f"{study.folder} has no recording of a kernel: record one with `bigiron run`")
    found: list[VariantRecording] = []
    measured = [one for one in study.records() if one.measured]
    by_variant = {
        variant.name: [one for one in measured if one.variant == variant.name]
        for variant in study.spec.variant
    }
    refused = [
        Refused(name, "none of its cells was measured") for name, records in by_variant.items() if not records
    ]
    by_variant = {name: records for name, records in by_variant.items() if records}
    adds, why_not = _extrapolated(study, by_variant, cpus) if extrapolated is None else (extrapolated, "")
    for name, records in by_variant.items():
        most = max((one.tasks, one.cpus) for one in records)
        repeated = [one for one in records if (one.tasks, one.cpus) == most]
        of_trace = traces and all("trace" in one.tables for one in repeated)
        more = adds.get(name, NOTHING).and_more((longer or {}).get(name, {}))
        recorded = [
            _traced(study, one, more) if of_trace else _counted(study, one, most_tasks, more)
            for one in repeated
        ]
        if refusals := [one for one in recorded if isinstance(one, Refused)]:
            refused.append(refusals[0])
        else:
            whole = [
                _with_callbacks(one, _callbacks(study, of, most_tasks))
                for one, of in zip(recorded, repeated, strict=True)
                if isinstance(one, VariantRecording)
            ]
            found.append(replace(_any_of(whole), not_extrapolated=why_not))
    return found, refused


def _extrapolated(
    study: Study, variants: Mapping[str, Sequence[CellRecord]], cpus: int
) -> tuple[dict[str, Extrapolated], str]:
    """The additional counts of each variant on a machine with `cpus` CPUs, from cells with one task per CPU.

    If there are enough such cells but they cannot be extrapolated, the counts are empty, with the reason.
    """
    one_per_cpu = {
        name: [one for one in records if one.tasks == one.cpus > 1] for name, records in variants.items()
    }
    numbers = sorted({one.cpus for records in one_per_cpu.values() for one in records})
    most = max((one.cpus for records in variants.values() for one in records), default=0)
    if len(numbers) < growth.FEWEST or numbers[-1] < most or most >= cpus:
        return {}, ""
    every = [one for records in one_per_cpu.values() for one in records]
    if not all({one.cpus for one in records} == set(numbers) for records in one_per_cpu.values()):
        return {}, "not all variants have the same numbers of CPUs"
    if not all(set(_EXTRAPOLATED_FROM) <= set(one.tables) for one in every):
        return (
            {},
            f"not all cells have the probes {' and '.join(_EXTRAPOLATED_FROM)}: "
            f"{study.recording(*_EXTRAPOLATED_FROM)}",
        )
    if any(_lost(one) for one in every):
        return {}, "counts were lost while it was recorded"
    if step := clock_step(every):
        return {}, step.partition(":")[0]
    counts = {
        name: VariantCounts(
            *(
                {
                    at: [measurements.cell(study, one, probe) for one in records if one.cpus == at]
                    for at in numbers
                }
                for probe in _EXTRAPOLATED_FROM
            )
        )
        for name, records in one_per_cpu.items()
    }
    return extrapolate(counts, cpus), ""


def _any_of(repeated: Sequence[VariantRecording]) -> VariantRecording:
    """A recording whose samples each take one repetition, as addresses differ from boot to boot."""
    if len(repeated) == 1:
        return repeated[0]

    def source(chance: np.random.Generator) -> ReplayProgram:
        return repeated[int(chance.integers(len(repeated)))].source(chance)

    instructions = fmean(one.instructions for one in repeated)
    return replace(repeated[0], instructions=instructions, source=source)


def _lost(record: CellRecord) -> list[str]:
    """The counts that were lost in the recording, except names."""
    return [what for what, count in record.lost.items() if count and "lacks a name" not in what]


def _why_not(study: Study, record: CellRecord) -> str:
    missing = [probe for probe in PROBES if probe not in record.tables]
    if missing:
        return f"it was not recorded with {' and '.join(missing)}: {study.recording(*missing)}"
    if record.tasks < 2:
        return _ALONE
    if lost := _lost(record):
        return f"counts were lost while it was recorded ({lost[0]}): record fewer operations"
    return ""


def _traced(study: Study, record: CellRecord, extrapolated: Extrapolated) -> VariantRecording | Refused:
    table = study.table(record, "trace")
    if lost := [what for what, count in record.lost.items() if count and "trace" in what]:
        return Refused(record.variant, f"its trace is incomplete: {lost[0]}")
    if record.tasks < 2:
        return Refused(record.variant, _ALONE)
    if why := _lock_of_user_space(study, record):
        return Refused(record.variant, why)
    operations = table.select(pl.struct("task", "operation").n_unique()).item()
    if 2 * operations < record.operations("trace"):
        return Refused(record.variant, _OUTSIDE)
    try:
        checked = trace.whole(table)
        if why := trace.why_not_whole(checked):
            return Refused(record.variant, why)
        followed = trace.followed(checked)
        whole = trace.program_of_followed(followed, extrapolated, _nodes(record))
    except trace.CutTraceError as error:
        return Refused(record.variant, str(error))

    each = followed.group_by("task", "operation").agg(pl.col("instructions").sum())
    executed = each["instructions"].to_numpy()
    # A rare, long operation would be in few samples and dominate them: average over all operations instead.
    is_uneven = bool(executed.std() > _UNEVEN * executed.mean())

    def source(chance: np.random.Generator) -> ReplayProgram:
        most = len(whole.operations)
        chosen = chance.choice(most, most if is_uneven else min(most, _SAMPLED), replace=is_uneven)
        return replace(whole, operations=[whole.operations[number] for number in chosen])

    instructions = float(executed.mean())
    return VariantRecording(record.variant, record.cpus, instructions, source, extrapolated, is_trace=True)


def _nodes(record: CellRecord) -> int:
    return int(record.environment.get("nodes", 1))


def _lock_of_user_space(study: Study, record: CellRecord) -> str:
    if "conflicts" not in record.tables:
        return ""
    function = synthetic_operation.lock_of_user_space(study.table(record, "conflicts"))
    if not function:
        return ""
    return f"its tasks wait for each other in {function}: replay cannot model a user-space lock"


def _counted(
    study: Study, record: CellRecord, most_tasks: int, extrapolated: Extrapolated
) -> VariantRecording | Refused:
    if why := _why_not(study, record):
        return Refused(record.variant, why)
    conflicts, locks, executed = (study.table(record, probe) for probe in PROBES)
    operations = record.operations("instructions")
    asleep = synthetic_operation.share_of_sleep(executed)
    if asleep > _SLEEPS:
        why = (
            f"{asleep:.0%} of its instructions put tasks to sleep and wake them, not for locks: counts do "
            "not show which task waits for which; record a trace"
        )
        return Refused(record.variant, why)
    if why := _lock_of_user_space(study, record):
        return Refused(record.variant, why)
    threads = study.spec.mode == "thread"
    counted = synthetic_operation.count(
        *(conflicts, locks, executed, operations, record.tasks, most_tasks, threads),
        extrapolated=extrapolated,
        nodes=_nodes(record),
    )
    if counted.instructions < _FEWEST:
        return Refused(record.variant, _OUTSIDE)

    def source(chance: np.random.Generator) -> ReplayProgram:
        return counted.program(chance)

    return VariantRecording(record.variant, record.cpus, counted.instructions, source, extrapolated)


def _with_callbacks(
    recording: VariantRecording, done: synthetic_operation.Reconstruction | None
) -> VariantRecording:
    """The recording with the work of RCU callbacks added to its programs."""
    if done is None:
        return recording

    def source(chance: np.random.Generator) -> ReplayProgram:
        return callbacks.with_callbacks(recording.source(chance), done, chance)

    return replace(recording, source=source)


def _callbacks(
    study: Study, record: CellRecord, most_tasks: int
) -> synthetic_operation.Reconstruction | None:
    """The work of RCU callbacks per operation on shared cache lines; None if it was not counted."""
    operations = record.operations("instructions")
    if _why_not(study, record) or not operations:
        return None
    counted = [study.table(record, probe) for probe in PROBES]
    conflicts, locks, executed = callbacks.of_operations(*counted)
    if conflicts.is_empty():
        return None
    found = synthetic_operation.count(
        conflicts,
        locks,
        executed,
        operations,
        record.tasks,
        most_tasks,
        threads=False,
        beside=synthetic_operation.without_waiting(counted[0].filter(context="process")),
        nodes=_nodes(record),
    )
    return found if found.lines else None
