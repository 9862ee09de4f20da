"""Sentences about cells whose counts are incomplete, or not comparable with those of other cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from bigiron.machines.vm import cgroup
from bigiron.study.store import CellRecord
from bigiron.util.english import first_n, join_and

PROGRAMS = {"recorder": "recorders", "guest": "guest programs", "qemu": "versions of QEMU"}
"""Whose versions decide counts, by their keys in a cell's environment. Not every cell has a recorder, and the
first cells had no `guest`."""


def losses(records: Iterable[CellRecord]) -> list[str]:
    """A sentence for each variant and each kind of loss, summed over its cells.

    >>> cell = dict(id="1", machine="vm", cpus=8, tasks=8, repetition=1, environment={})
    >>> losses([CellRecord(variant="debian/6.1", lost={"samples, for which there was no room": 7}, **cell)])
    ['debian/6.1: 7 lost: samples, for which there was no room']
    """
    lost: Counter[tuple[str, str]] = Counter()
    for record in records:
        for what, count in record.lost.items():
            lost[record.variant, " ".join(what.split())] += count
    return [f"{variant}: {count} lost: {what}" for (variant, what), count in lost.items()]


def why_missing(record: CellRecord | None) -> str:
    """Why a cell has no results; "" if it has some."""
    if record and record.failure:
        return f"failed: {record.failure.reason}"
    return "" if record else "not measured yet"


def machine_differences(records: Iterable[CellRecord]) -> str:
    """How the variants' machines differ in ways that affect their counts; "" if they do not."""
    known = list(records)
    return "; ".join(filter(None, (clocks(known), controllers(known), programs(known))))


def programs(records: Iterable[CellRecord]) -> str:
    """A sentence if cells were counted by different recorders, agents or QEMUs, else "".

    >>> cell = dict(id="1", machine="vm", cpus=8, tasks=8, repetition=1)
    >>> old, new = ({"recorder": source, "qemu": "10.0.2"} for source in ("3fa9b0", "77c1d2"))
    >>> first = CellRecord(variant="a", environment=old, **cell)
    >>> programs([first, CellRecord(variant="b", environment=new, **cell)])
    'counted with different recorders (3fa9b0 on a, 77c1d2 on b): measure again with a new -o'
    """
    known = list(records)
    differing = []
    for what, called in PROGRAMS.items():
        variants: dict[str, dict[str, None]] = {}
        for record in known:
            if version := str(record.environment.get(what) or ""):
                variants.setdefault(version, {})[record.variant] = None
        if len(variants) > 1:
            most = None if what == "qemu" else 12  # digits of a hash
            on = ", ".join(f"{one[:most]} on {first_n(list(names), 3)}" for one, names in variants.items())
            differing.append(f"{called} ({on})")
    return f"counted with different {join_and(differing)}: measure again with a new -o" if differing else ""


def controllers(records: Iterable[CellRecord]) -> str:
    """A sentence if some variants' kernels lack a cgroup controller that others have, else "".

    >>> cell = dict(id="1", machine="vm", cpus=8, tasks=8, repetition=1)
    >>> without = CellRecord(variant="ours", environment={"cgroup_absent": ["cpu"]}, **cell)
    >>> controllers([without, CellRecord(variant="debian/6.1", environment={}, **cell)]).partition(":")[0]
    'ours'
    """
    variants: dict[str, dict[str, None]] = {}
    for record in records:
        variants.setdefault(cgroup.lacking(record.environment), {})[record.variant] = None
    if len(variants) < 2:
        return ""
    return "; ".join(
        f"{first_n(list(names), 3)}: {lacking}" for lacking, names in variants.items() if lacking
    )


def clocks(records: Iterable[CellRecord]) -> str:
    """A sentence if the variants' guest clocks ran at different speeds, else "".

    >>> cell = dict(id="1", machine="vm", cpus=64, tasks=64, repetition=1)
    >>> slowed = CellRecord(variant="debian/6.1", environment={"clock_slower": 128}, **cell)
    >>> clocks([slowed, CellRecord(variant="ours", environment={}, **cell)])
    "guest clocks differ: the host's on ours, 128 times slower on debian/6.1: do not compare ticks, timeouts"
    """
    by_clock = _by_clock((record.variant, record.clock_slower) for record in records)
    rates = {slower: first_n(variants, 3) for slower, variants in by_clock.items()}
    if len(rates) < 2:
        return ""
    return f"guest clocks differ: {_rates(rates, 'on')}: do not compare ticks, timeouts"


def clock_step(records: Iterable[CellRecord]) -> str:
    """A sentence if machines with few CPUs had the host's clock and those with more a slower one, else "".

    >>> cell = dict(id="1", variant="debian/6.1", machine="vm", tasks=1, repetition=1)
    >>> slowed = CellRecord(cpus=32, environment={"clock_slower": 64}, **cell)
    >>> clock_step([CellRecord(cpus=8, environment={}, **cell), slowed]).partition(":")[0]
    "the guest clock was the host's at 8 CPUs, 64 times slower at 32 CPUs"
    """
    return clock_step_of((record.cpus, record.clock_slower) for record in records)


def clock_step_of(clocks: Iterable[tuple[int, int]]) -> str:
    """Like `clock_step`, from each number of CPUs and how many times slower than the host's the clock was."""
    by_clock = _by_clock((str(cpus), slower) for cpus, slower in clocks)
    rates = {slower: f"{first_n(cpus, 8)} CPUs" for slower, cpus in by_clock.items()}
    if len(rates) < 2 or 1 not in rates:
        return ""
    return (
        f"the guest clock was {_rates(rates, 'at')}: timer-driven work (ticks, RCU) may jump there, "
        "so that no growth law fits; with --clock instructions it does not"
    )


def _by_clock(clocks: Iterable[tuple[str, int]]) -> dict[int, list[str]]:
    """The names that had each clock rate, from pairs of a name and how many times slower its clock was."""
    rates: dict[int, dict[str, None]] = {}
    for name, slower in clocks:
        rates.setdefault(slower, {})[name] = None
    return {slower: list(names) for slower, names in sorted(rates.items())}


def _rates(rates: Mapping[int, str], where: str) -> str:
    return ", ".join(
        (f"{slower} times slower" if slower > 1 else "the host's") + f" {where} {what}"
        for slower, what in rates.items()
    )
