"""Published regressions that bigiron reproduces: one module a case."""

from bigiron.cases import hotplug_debugfs
from bigiron.cases.case import Case, Report
from bigiron.errors import UserError

__all__ = ["Case", "Report", "cases", "find"]

_ALL = {case.name: case for case in (hotplug_debugfs.CASE,)}


def cases() -> list[Case]:
    """All cases there are."""
    return list(_ALL.values())


def find(name: str) -> Case:
    """The case called `name`."""
    if name not in _ALL:
        raise UserError(f"no case {name!r}: there is {', '.join(_ALL)}")
    return _ALL[name]
