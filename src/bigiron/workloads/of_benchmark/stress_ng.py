"""stress-ng: any of its stressors, one instance per task."""

import re

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.mapped import INSTEAD, Mapped, Parameters, Program, checked_fs, of_disk
from bigiron.workloads.of_benchmark.stressors import OF_FAULTS, STRESSORS, WHY_NOT

_OF_METRIC = re.compile(r"stress-ng\.([a-z0-9-]+)\.ops")


def stress_ng(parameters: Parameters, metric: str) -> Mapped:
    """The parameter `test`, or the stressor in the metric's name: a report of a whole class is about one.

    A part of it is recorded: its start alone executes 100 million instructions.
    """
    found = _OF_METRIC.match(metric)
    stressor = parameters.get("test") or (found[1] if found else "")
    if not stressor:
        raise UserError(f"the report does not say which stressor of stress-ng it is about: {INSTEAD}")
    if stressor not in STRESSORS:
        raise UserError(f"stress-ng 0.19 has no stressor {stressor!r}: {INSTEAD}")
    for why, refused in WHY_NOT.items():
        if stressor in refused:
            raise UserError(f"stress-ng's {stressor} says nothing here: {why}. Else {INSTEAD}")
    per = "instruction" if stressor in OF_FAULTS else "system-call"
    return Mapped(
        fs=checked_fs("stress-ng", parameters),
        program=Program("stress-ng", f"stress-ng --no-rand-seed --{stressor} {{tasks}}", per),
        differs=of_disk(parameters),
    )
