"""What is recorded in a cell: one module a probe."""

from collections.abc import Iterable
from types import ModuleType

from bigiron.errors import UserError
from bigiron.probes import (
    blocked,
    conflicts,
    efficiency,
    functions,
    locks,
    metrics,
    oncpu,
    operations,
    throughput,
    work,
)
from bigiron.probes.probe import CellRequest, Probe, RawOutput, Table

__all__ = ["CellRequest", "Probe", "RawOutput", "Table", "probe", "probes"]

_MODULES: tuple[ModuleType, ...] = (
    conflicts,
    locks,
    work,
    functions,
    blocked,
    oncpu,
    operations,
    efficiency,
    throughput,
    metrics,
)
_ALL: dict[str, Probe] = {module.PROBE.name: module.PROBE for module in _MODULES}


def probes() -> list[Probe]:
    """All probes there are."""
    return list(_ALL.values())


def probe(name: str) -> Probe:
    """The probe called `name`.

    >>> probe("conflicts").needs_recorder
    True
    >>> probe("conflict")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    bigiron.errors.UserError: no probe 'conflict': there are conflicts, locks, work, functions, ...
    """
    if name not in _ALL:
        raise UserError(f"no probe {name!r}: there are {', '.join(_ALL)}")
    return _ALL[name]


def needs_recorder(names: Iterable[str]) -> bool:
    """Whether one of the probes is recorded by the QEMU plugin."""
    return any(probe(name).needs_recorder for name in names)
