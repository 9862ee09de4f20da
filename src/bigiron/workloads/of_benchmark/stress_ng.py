"""stress-ng: any of its stressors, one instance per task."""

import re
from collections.abc import Iterator

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.mapped import INSTEAD, Mapped, MappedProgram, Parameters, on_disk
from bigiron.workloads.of_benchmark.stressors import (
    IN_USER_MODE,
    NOT_AS_ROOT,
    OF_FAULTS,
    PATHOLOGICAL,
    STRESSORS,
    WHY_NOT,
)

_OPTIONS = {
    ("switch", "method"),
    ("cyclic", "method"),
    ("sock", "type"),
    ("sockpair", "type"),
    ("touch", "method"),
}
"""Parameters of reports that are options of the stressor: --switch-method mq."""

_MINIMIZED = ("memory", "os")
"""Classes that the robot runs with --minimize."""

_SETTINGS = ("method", "type", "sched", "advise", "mode", "hdd_opts")
_VALUE = re.compile(r"[a-z0-9_-]+")
_OF_ALL = "time"  # stress-ng.time.user_time is of the whole program
_USER = "daemon"
_STARTED = "[1-9][0-9]* stressors? started"
"""What it prints when stressors have started; it prints 0, too, and succeeds, where it skipped all."""
_OF_METRIC = re.compile(r"stress-ng\.([a-z0-9-]+)\.")


def stress_ng(parameters: Parameters, metric: str) -> Mapped:
    """The parameter `test`, or the stressor in the metric's name: a report of a whole class is about one.

    A part of it is recorded: its start alone executes 100 million instructions.
    """
    found = _OF_METRIC.match(metric)
    named = found[1] if found and found[1] != _OF_ALL else ""
    stressor = parameters.get("test") or named
    if not stressor:
        raise UserError(f"the report does not say which stressor of stress-ng it is about: {INSTEAD}")
    if stressor not in STRESSORS:
        raise UserError(f"stress-ng 0.19 has no stressor {stressor!r}: {INSTEAD}")
    for why, refused in WHY_NOT.items():
        if stressor in refused:
            raise UserError(f"stress-ng's {stressor} does not run here: {why}. {INSTEAD}")
    options = "".join(f" --{stressor}-{key} {value}" for key, value in _options(stressor, parameters))
    per = "instruction" if stressor in (*OF_FAULTS, *IN_USER_MODE) else "system-call"
    if stressor in PATHOLOGICAL:
        options += " --pathological"
    if "test" not in parameters and parameters.get("class") in _MINIMIZED:
        options += " --minimize"
    command = f"stress-ng --verbose --no-rand-seed --{stressor} {{tasks}}{options}"
    user = _USER if stressor in NOT_AS_ROOT else ""
    program = MappedProgram("stress-ng", command, per, begin_at=_STARTED, user=user)
    disk = {} if user else parameters  # the robot's user works in its home folder
    return on_disk("stress-ng", disk, program, *_left_out(stressor, parameters))


def _options(stressor: str, parameters: Parameters) -> Iterator[tuple[str, str]]:
    """The options of its own that the report gives a stressor."""
    for key, value in parameters.items():
        if (stressor, key) in _OPTIONS:
            if not _VALUE.fullmatch(value):
                raise UserError(
                    f"the report's {key} of stress-ng's {stressor} is {value!r}: a word is expected"
                )
            yield key, value


def _left_out(stressor: str, parameters: Parameters) -> Iterator[str]:
    """What the report sets and the program here does not."""
    for key in _SETTINGS:
        if (given := parameters.get(key)) and (stressor, key) not in _OPTIONS:
            yield f"stress-ng's default {key} instead of {given}"
