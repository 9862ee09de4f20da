"""open1-rcu: open1's curves part where cond_resched counts as a quiescent state for RCU.

Since 3.16-rc0 every RCU_COND_RESCHED_LIM-th cond_resched is a quiescent state. That makes grace periods
shorter, so objects come back to SLUB in smaller batches. What an operation then takes of SLUB's lists is
counted in a kernel that has this again; what it costs is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan

from bigiron.analysis.seed_range import SeedRange, seed_range
from bigiron.cases.case import Build, Case, Claim, Figure, Published, Quick, Report
from bigiron.cases.counted import Counted
from bigiron.lazy import polars as pl
from bigiron.study.store import CellRecord, Study

_SLOW, _RECOVERED = "RCU_COND_RESCHED_LIM=256", "RCU_COND_RESCHED_LIM=100000"
_APART = 0.01
"""Curves part where the limit of 256 costs more than this, whatever the seed."""
_TELLS = 0.1
"""What chance may make of a count that is called the same."""
_PROFILE = {
    "file_free_rcu": "file_free_rcu",
    "rcu_process_callbacks": "rcu_core|rcu_do_batch",
    "__call_rcu": "call_rcu|__call_rcu_common.*",
    "__d_lookup_rcu": "__d_lookup_rcu",
}
"""The functions of the published profile, and what they are called in 6.1."""


def report(studies: Mapping[str, Study], published: Published) -> Report:
    """What is counted by limit; then, simulated, throughput, where the curves part, and what differs."""
    counted = _ByLimit(Counted(studies["counts"]))
    rows = studies["limits"].tables("simulation")
    tasks = sorted(rows["tasks"].unique())
    most = max(tasks)
    theirs = published.value("divergence", "curves diverge", "tasks")
    apart = _first_apart(rows, tasks)
    figures = [
        *counted.figures(published),
        Figure(
            "the curves part at",
            f"{theirs:g} tasks",
            f"{apart} tasks, simulated, predicted"
            if apart
            else f"nowhere up to {most} tasks, simulated, predicted",
        ),
        *(_at(rows, number) for number in tasks),
        *(_inside(rows, limit, most) for limit in rows["variant"].unique(maintain_order=True)),
    ]
    return Report(figures, [*counted.claims(), *_claims(rows, most, apart, theirs)], list(_NOTES))


class _ByLimit:
    """What an operation counts where so many calls of cond_resched are a quiescent state, or none is."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted
        self._cells = {(cell.variant, cell.cpus): cell for cell in counted.cells()}
        self._limits = [variant.name for variant in counted.study.spec.variant]
        self._most = max(counted.study.spec.cpus)

    def figures(self, published: Published) -> list[Figure]:
        """By CPUs: grace periods, what comes back at once, and what is taken of SLUB's lists."""
        figures = []
        for cpus in self._counted.study.spec.cpus:
            figures += [
                self._figure(f"grace periods a second of VM time, {cpus} CPUs", cpus, self._rate, ".0f"),
                self._figure(
                    f"callbacks a CPU has in a grace period, {cpus} CPUs", cpus, self._callbacks, ",.0f"
                ),
                self._figure(f"list_lock taken, for 1,000 operations, {cpus} CPUs", cpus, self._taken, ".2f"),
                self._figure(
                    f"accesses to shared lines of kmem_cache_node, for 1,000 operations, {cpus} CPUs",
                    cpus,
                    lambda cell: 1000 * self._counted.accesses(cell, "kmem_cache_node"),
                    ".1f",
                ),
            ]
        return [*figures, *(self._share(function, published) for function in _PROFILE)]

    def claims(self) -> list[Claim]:
        """What the published text says of the mechanism."""
        cells = [self._cells[name, self._most] for name in ("256", "100000", "off")]
        rates = {cell.variant: self._rate(cell) for cell in cells}
        taken = {cell.variant: self._taken(cell) for cell in cells}
        # Of either, one grace period more or less is chance.
        chance = 2 / max(min(self._counted.grace_periods(cell) for cell in cells), 1e-9)
        differ = _is_more(rates["100000"], rates["off"], chance) is not None
        return [
            Claim(
                "With a limit of 256 there are more grace periods, so that fewer objects come back at once",
                _is_more(rates["256"], rates["100000"], chance),
                self._said(rates, "a second of VM time", ".0f"),
            ),
            Claim(
                "With a limit of 256 SLUB's get_partial_node is called more often",
                _is_more(taken["256"], taken["100000"], chance),
                self._said(taken, "times list_lock for 1,000 operations", ".2f"),
            ),
            Claim(
                "A limit of 100,000 is as none at all",
                not differ if differ or chance < _TELLS else None,
                self._said(rates, "a second of VM time", ".0f"),
            ),
        ]

    def _said(self, values: Mapping[str, float], unit: str, digits: str) -> str:
        each = ", ".join(f"{limit}: {value:{digits}}" for limit, value in values.items())
        return f"{each} {unit}, {self._most} CPUs"

    def _figure(self, what: str, cpus: int, value: Callable[[CellRecord], float], digits: str) -> Figure:
        values = {limit: value(self._cells[limit, cpus]) for limit in self._limits}
        each = ", ".join(
            f"{limit}: {'no grace period' if isnan(value) else f'{value:{digits}}'}"
            for limit, value in values.items()
        )
        return Figure(f"{what}, by RCU_COND_RESCHED_LIM", "not published", f"{each}; counted")

    def _share(self, function: str, published: Published) -> Figure:
        theirs = ", ".join(
            f"{version}: {published.value('profile_self', function, version):g} % of the time"
            for version in ("3.15", "3.16-rc0")
        )
        here = _PROFILE[function]
        cells = {limit: self._cells[limit, self._most] for limit in ("off", "256")}
        ours = ", ".join(
            f"{limit}: {100 * self._counted.work(cell, here) / self._counted.work(cell):.2f} %"
            for limit, cell in cells.items()
        )
        return Figure(f"{function}, {self._most} CPUs", theirs, f"{ours} of the instructions; counted")

    def _rate(self, cell: CellRecord) -> float:
        return self._counted.grace_periods(cell) / (cell.recorded_ns / 1e9)

    def _callbacks(self, cell: CellRecord) -> float:
        periods = self._counted.grace_periods(cell)
        return self._counted.operations(cell) / cell.cpus / periods if periods else float("nan")

    def _taken(self, cell: CellRecord) -> float:
        return 1000 * self._counted.lock(cell, r"kmem_cache_node\.list_lock").acquisitions


def _is_more(one: float, other: float, chance: float) -> bool | None:
    """Whether it is more by more than chance; None: within that."""
    return None if abs(one - other) <= chance * max(one, other) else one > other


def _throughput(rows: pl.DataFrame, limit: str, tasks: int) -> SeedRange:
    return seed_range(rows, "throughput", limit, tasks)


def _first_apart(rows: pl.DataFrame, tasks: list[int]) -> int | None:
    def apart(number: int) -> bool:
        slow, recovered = (_throughput(rows, limit, number) for limit in (_SLOW, _RECOVERED))
        return recovered.low > slow.high * (1 + _APART)

    return next((number for number in tasks if apart(number)), None)


def _at(rows: pl.DataFrame, tasks: int) -> Figure:
    each = ", ".join(
        f"{limit.partition('=')[2]}: {_throughput(rows, limit, tasks)}"
        for limit in rows["variant"].unique(maintain_order=True)
    )
    plural = "s" if tasks > 1 else ""
    return Figure(
        f"operations a second by RCU_COND_RESCHED_LIM, {tasks} task{plural}",
        "not published",
        f"{each}; simulated, predicted",
    )


def _inside(rows: pl.DataFrame, limit: str, tasks: int) -> Figure:
    period, taken, waits = (
        seed_range(rows, name, limit, tasks)
        for name in ("grace period", "list_lock", "waiting for list_lock")
    )
    return Figure(
        f"what differs, {limit}, {tasks} tasks",
        "not published",
        f"a grace period takes {period} ms, list_lock is taken {taken} times an operation and waited "
        f"for {waits} ns; simulated, predicted",
    )


def _claims(rows: pl.DataFrame, most: int, apart: int | None, published: float) -> list[Claim]:
    slow, recovered = (_throughput(rows, limit, most) for limit in (_SLOW, _RECOVERED))
    return [
        Claim(
            "A limit of 256 is slower than one of 100,000 with many tasks",
            recovered.low > slow.high,
            f"{slow} against {recovered} operations a second with {most} tasks, "
            f"{100 * (slow.mean / recovered.mean - 1):+.1f} %",
        ),
        Claim(
            f"The curves are one up to about {published:g} tasks",
            apart is not None and published / 2 <= apart <= 2 * published,
            f"256 costs more than {_APART:.0%} from {apart} tasks on"
            if apart
            else "256 never costs that much",
        ),
    ]


_NOTES = [
    "What is counted is counted in 6.1 with this case's patch, on a clock that follows instructions, 1 to 2 "
    "a nanosecond and CPU.",
    "What is simulated: the mean of all seeds, and the least and the most of any of them.",
    "Nothing was fitted: what an operation takes in the simulation is an estimate (limits.toml), and the "
    "latencies are those of a later machine (machine.toml).",
    "Caches are unlimited there: an object that was unused for long costs no more when it is used again.",
]

CASE = Case(
    name="open1-rcu",
    description="open1's curves part where cond_resched counts as a quiescent state (3.16-rc0)",
    studies=("counts", "limits"),
    quick={
        "counts": Quick(cpus=[8], without=("1000", "10000")),
        "limits": Quick(cpus=[160], repetitions=1, tasks=(1, 40, 160), shorter=4),
    },
    report=report,
    builds=(Build("open1-rcu-limit", "debian/6.1", "x86_64", ("limit.patch",)),),
)
