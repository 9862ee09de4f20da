"""A study beside what was measured on a real machine."""

from dataclasses import replace
from pathlib import Path

from bigiron.analysis.comparison.model import Options
from bigiron.errors import UserError
from bigiron.report.measured import Beside
from bigiron.results import measured, prediction
from bigiron.study.store import Study


def beside(study: Study, profile: Path, options: Options, machine: str | None = None) -> Beside:
    """A profile, and the counts of the same kind; `machine` ranks cache lines by their cost there.

    UserError if it cannot be read, or nothing was recorded.
    """
    read = measured.read(profile)
    if machine and read.kind != "cache lines":
        raise UserError(
            f"--machine {machine} applies only to cache lines, and {profile.name} has {read.kind}"
        )
    if machine:
        options = replace(options, costs=prediction.line_costs(study, machine))
    return Beside(study.name, study.workload, profile.name, measured.agreement(study, read, options))
