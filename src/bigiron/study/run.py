"""Running a study: resolve what it asks, prepare its programs, measure the cells that are missing."""

from collections.abc import Callable

from bigiron import compile, libbpf, probes
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.machines.engine import Programs
from bigiron.study import resolve as study_resolve
from bigiron.study import simulated
from bigiron.study.plan import Cell
from bigiron.study.pool import Pools, Progress, any_cell, measure_missing
from bigiron.study.spec import Spec
from bigiron.study.store import CellRecord, Study
from bigiron.util.threads import StoppableThreads, result
from bigiron.workloads import Workload


def default_jobs(spec: Spec) -> int:
    """How many machines run at once.

    Only one if the study measures time, because machines that run at once slow each other down.
    """
    return 1 if spec.measures_time else spec.engine.side_by_side(max(spec.cpus))


def resolve(spec: Spec) -> tuple[Spec, Workload | None]:
    """Check a study's question before anything runs, and fill in hashes and defaults."""
    return (simulated.resolve(spec), None) if spec.engine.is_model else study_resolve.resolve(spec)


def prepare(
    spec: Spec, workload: Workload | None, *, here: bool = True, fresh_boot: bool = False
) -> Programs | None:
    """Compile the programs that the study needs. UserError if it is to run on this host and cannot."""
    if fresh_boot and not spec.engine.emulated:
        raise UserError("--fresh-boot works only in virtual machines: bigiron does not boot real machines")
    with StoppableThreads() as aside:  # asking QEMU and each compiler for its version takes long
        prepared = aside.submit(spec.engine.prepare, spec.cpus) if here else None
        try:
            programs = None if spec.engine.is_model else _programs(spec, workload, fresh_boot, aside)
        except UserError:
            if prepared:
                result(prepared)  # report first what the engine lacks
            raise
        if prepared:
            result(prepared)
        return programs


def _programs(spec: Spec, workload: Workload | None, fresh_boot: bool, aside: StoppableThreads) -> Programs:
    target = architecture(spec.arch)
    programs = [name for name in spec.probes if probes.probe(name).needs_bpf]
    # A workload with rounds has one task, which works mostly in the kernel: operations cannot end its slices.
    by_operation = (
        spec.engine.emulated and spec.time_slice == "operation" and bool(workload and not workload.has_rounds)
    )
    recorder = aside.submit(compile.recorder) if probes.needs_recorder(spec.probes) else None
    marking = (compile.mark(target.compiler),) if spec.marked else ()
    boot = aside.submit(compile.boot, target.compiler) if spec.engine.emulated else None
    return Programs(
        compile.agent(
            workload, target.compiler, libbpf.flags(target) if programs else (), time_slices=by_operation
        ),
        result(recorder) if recorder else None,
        tuple(compile.bpf(name) for name in programs) + marking,
        by_operation,
        result(boot) if boot else None,
        fresh_boot,
    )


def run(
    study: Study,
    programs: Programs | None,
    jobs: int | Pools,
    progress: Progress,
    wanted: Callable[[Cell], bool] = any_cell,
) -> list[CellRecord]:
    """Measure every missing cell, `jobs` at once or in the given pool; returns the records of these cells.

    A cell that fails is recorded as failed, and the others continue. KeyboardInterrupt stops the running
    machines and leaves their cells missing.
    """
    with study.writing():
        return measure_missing(study, programs, jobs, progress, wanted=wanted)
