"""Measure the missing cells of a study, for `run`, `simulate`, `case` and `judge`."""

from pathlib import Path
from time import monotonic

import typer

from bigiron import kernels
from bigiron.commands.common.complaints import stopped
from bigiron.commands.common.output import say
from bigiron.report.progress import ProgressBar
from bigiron.results import boots, sequential
from bigiron.study import run as runner
from bigiron.study import store
from bigiron.study.pool import Pools, missing
from bigiron.study.spec import Spec
from bigiron.util.english import plural


def measure_study(
    spec: Spec,
    output: Path,
    jobs: int,
    max_time_s: int | None = None,
    *,
    fresh_boot: bool = False,
    fleet: Pools | None = None,
) -> None:
    """Measure a study's missing cells; with a time limit also repeat until its comparisons are decided."""
    until = monotonic() + (max_time_s or 0)
    for variant in filter(lambda one: kernels.is_revision(one.kernel), spec.variant):
        kernels.find(variant.kernel, spec.arch, say(variant.name))  # it may be built, which takes minutes
    spec, workload = runner.resolve(spec)
    programs = runner.prepare(spec, workload, here=not fleet, fresh_boot=fresh_boot)
    if max_time_s:
        sequential.refuse_undecidable(spec)
    undecided = None
    try:
        study = store.create(output, spec, workload)
        lacking = missing(study)
        all_there = f"every cell of {output} is measured: see `bigiron compare {output}`"
        if not (lacking or max_time_s or _boots_again(study.spec)):
            print(all_there)
            return
        where = fleet or jobs or runner.default_jobs(study.spec)
        with ProgressBar(lacking) as progress:
            if again := study.measured_again():
                with_all = ", ".join(study.spec.probes)
                progress.note(f"{output}: {plural(again, 'cell')} measured again, now with {with_all}")
            if max_time_s:
                records, undecided = sequential.run(study, programs, where, progress, until)
            elif _boots_again(study.spec):
                records = boots.run(study, programs, where, progress)
            else:
                records = runner.run(study, programs, where, progress)
    except KeyboardInterrupt:
        raise stopped(output) from None
    if not records and not max_time_s:
        print(all_there)
        return
    failures = [record.failure for record in records if record.failure]
    print(
        f"{len(records) - len(failures)} of {len(records)} cells measured{_decided(undecided)}: "
        f"see `bigiron compare {output}`"
    )
    if failures:
        raise typer.Exit(3 if any(failure.kind == "machine" for failure in failures) else 2)


def _boots_again(spec: Spec) -> bool:
    return spec.is_booted_again and len(spec.variant) > 1 and spec.most_boots > spec.repetitions


def _decided(undecided: int | None) -> str:
    if undecided is None:
        return ""
    plural = "" if undecided == 1 else "s"
    return f", {undecided} comparison{plural} undecided" if undecided else ", every comparison decided"
