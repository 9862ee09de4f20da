"""A study beside what was measured on a real machine."""

from pathlib import Path

from bigiron.analysis.comparison.model import Options
from bigiron.report.measured import Beside
from bigiron.results import measured
from bigiron.study.store import Study


def beside(study: Study, profile: Path, options: Options) -> Beside:
    """A profile, and the counts of the same kind. UserError if it cannot be read, or nothing was recorded."""
    return Beside(
        study.name, study.workload, profile.name, measured.agreement(study, measured.read(profile), options)
    )
