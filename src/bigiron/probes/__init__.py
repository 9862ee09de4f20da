"""What is recorded in a cell. Each probe is a module of this package, and is found by itself."""

import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path

from bigiron.errors import UserError
from bigiron.probes.options import AllProbeOptions, ProbeOptions
from bigiron.probes.probe import (
    CellRequest,
    GrowthSource,
    Metric,
    Probe,
    ProbeTable,
    RawOutput,
    StackSource,
    WorkloadKind,
)

__all__ = [
    "AllProbeOptions",
    "CellRequest",
    "GrowthSource",
    "Metric",
    "Probe",
    "ProbeOptions",
    "ProbeTable",
    "RawOutput",
    "StackSource",
    "WorkloadKind",
    "probe",
    "probes",
]

DEFAULT = "conflicts"
"""The probe that is compared and reported by default."""

_ALL: dict[str, Probe] = {}


def register(new: Probe) -> None:
    """Add a probe from outside this package."""
    known = {option for kind in option_kinds() for option in kind.__struct_fields__}
    mine = new.options.__struct_fields__ if new.options else ()
    if new.name in _ALL or not known.isdisjoint(mine):
        raise ValueError(f"probe {new.name}: its name or the name of one of its options is already used")
    _ALL[new.name] = new


def probes() -> list[Probe]:
    """All probes, those of the recorder first."""
    return sorted(_ALL.values(), key=lambda one: (not one.needs_recorder, one.name))


def probe(name: str) -> Probe:
    """The probe called `name`.

    >>> probe("conflicts").needs_recorder
    True
    >>> probe("conflict")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    bigiron.errors.UserError: no probe 'conflict': use one of conflicts, instructions, layout, locks, ...
    """
    if name not in _ALL:
        raise UserError(f"no probe {name!r}: use one of {', '.join(one.name for one in probes())}")
    return _ALL[name]


def named(names: Iterable[str]) -> list[Probe]:
    """The probes with these names. Other names are skipped: a simulated study has tables of no probe.

    >>> [one.name for one in named(["simulation", "instructions"])]
    ['instructions']
    """
    return [_ALL[name] for name in names if name in _ALL]


def by_default(workload: WorkloadKind, architecture: str, *, in_vm: bool) -> list[str]:
    """The probes that a workload is recorded with by default.

    >>> by_default("unbounded", "x86_64", in_vm=True), by_default("unbounded", "another", in_vm=True)
    (['conflicts', 'instructions', 'locks', 'trace'], ['conflicts', 'instructions'])
    >>> by_default("unbounded", "x86_64", in_vm=False), by_default("bounded", "x86_64", in_vm=False)
    (['throughput'], ['operations'])
    """
    where = "vm" if in_vm else "real"
    return [
        one.name
        for one in probes()
        if one.by_default == where
        and workload in one.measures
        and (not one.only_on or architecture in one.only_on)
    ]


def needs_recorder(names: Iterable[str]) -> bool:
    """Whether one of the probes is recorded by the QEMU plugin."""
    return any(one.needs_recorder for one in named(names))


def option_kinds() -> tuple[type[ProbeOptions], ...]:
    """The options of all probes that have any."""
    return tuple(one.options for one in probes() if one.options)


def _find() -> None:
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        found = getattr(importlib.import_module(f"{__name__}.{module.name}"), "PROBE", None)
        if isinstance(found, Probe):
            register(found)


_find()
