"""open1-rcu: open1's curves part where cond_resched counts as a quiescent state for RCU.

Since 3.16-rc0 every RCU_COND_RESCHED_LIM-th cond_resched is a quiescent state. That makes grace periods
shorter, so objects come back to SLUB in smaller batches. What an operation then takes of SLUB's lists is
counted in a kernel that has this again; what it costs is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bigiron.analysis.seed_range import SeedRange, seed_range
from bigiron.cases.case import Build, Case, Claim, Figure, Published, Quick, Report
from bigiron.cases.counted import Counted
from bigiron.lazy import polars as pl
from bigiron.study.store import CellRecord, Study

_SLOW, _RECOVERED = "RCU_COND_RESCHED_LIM=256", "RCU_COND_RESCHED_LIM=100000"
_APART = 0.01
"""Curves part where the limit of 256 costs more than this, whatever the seed."""
_PARTIAL = r"(^|;)get_partial_node(\.\w+)*$"
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
    counted, waits = _ByLimit(Counted(studies["counts"])), _ByLimit(Counted(studies["waits"]))
    rows = studies["limits"].tables("simulation")
    tasks = sorted(rows["tasks"].unique())
    most = max(tasks)
    theirs = published.value("divergence", "curves diverge", "tasks")
    apart = _first_apart(rows, tasks)
    figures = [
        *counted.figures(published),
        waits.periods(),
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
        self._cpus = counted.study.spec.cpus
        self._most = max(self._cpus)

    def figures(self, published: Published) -> list[Figure]:
        """By CPUs: grace periods, what comes back at once, and what is taken of SLUB's lists."""
        rows: list[tuple[str, Callable[[CellRecord], str]]] = [
            ("grace periods a second of VM time", self._periods),
            ("callbacks a CPU has in a grace period", lambda cell: f"{self._callbacks(cell):,.0f}"),
            ("callbacks invoked in a batch of rcu_do_batch", lambda cell: f"{self._batch(cell):,.1f}"),
            ("file_free_rcu called, for 1,000 operations", lambda cell: f"{self._freed(cell):,.0f}"),
            ("list_lock taken, for 1,000 operations", lambda cell: f"{self._taken(cell):.2f}"),
            (
                "list_lock taken in get_partial_node, for 1,000 operations",
                lambda cell: f"{self._in_partial(cell):.3f}",
            ),
            (
                "accesses to shared lines of kmem_cache_node, for 1,000 operations",
                lambda cell: f"{1000 * self._counted.accesses(cell, 'kmem_cache_node'):.1f}",
            ),
        ]
        figures = [self._figure(f"{what}, {cpus} CPUs", cpus, of) for cpus in self._cpus for what, of in rows]
        return [*figures, *(self._share(function, published) for function in _PROFILE)]

    def periods(self) -> Figure:
        """Of variants that differ in when RCU looks for quiescent states itself."""
        each = ", ".join(f"{name}: {self._periods(self._cells[name, self._most])}" for name in self._limits)
        return Figure(
            f"grace periods a second of VM time, {self._most} CPUs, by when RCU looks for quiescent states",
            "not published",
            f"{each}; counted",
        )

    def claims(self) -> list[Claim]:
        """What the published text says of the mechanism: it holds where it does with any number of CPUs."""
        more = [self._more(cpus, "256", "100000", self._rate) for cpus in self._cpus]
        oftener = [self._more(cpus, "256", "100000", self._in_partial, self._pending) for cpus in self._cpus]
        return [
            Claim(
                "With a limit of 256 there are more grace periods, so that fewer objects come back at once",
                _all(more),
                self._said(self._periods, "grace periods a second of VM time"),
            ),
            Claim(
                "With a limit of 256 SLUB's get_partial_node is called more often",
                _all(oftener),
                self._said(
                    lambda cell: f"{self._in_partial(cell):.3f}",
                    "times list_lock in it for 1,000 operations",
                ),
            ),
            Claim(
                "A limit of 100,000 is as none at all",
                _all([self._same(cpus) for cpus in self._cpus]),
                self._said(self._periods, "grace periods a second of VM time"),
            ),
        ]

    def _chance(self, *cells: CellRecord) -> float:
        """Of each, one grace period more or less is chance."""
        return 2 / max(min(self._counted.grace_periods(cell) for cell in cells), 1e-9)

    def _pending(self, *cells: CellRecord) -> float:
        """The share of objects, of each, that the recording ends before they come back; and chance."""
        return max(self._chance(*cells), *(1 - self._freed(cell) / 1000 for cell in cells))

    def _more(
        self,
        cpus: int,
        one: str,
        other: str,
        value: Callable[[CellRecord], float],
        unknown: Callable[..., float] | None = None,
    ) -> bool | None:
        first, second = (self._cells[limit, cpus] for limit in (one, other))
        return _is_more(value(first), value(second), (unknown or self._chance)(first, second))

    def _same(self, cpus: int) -> bool | None:
        """Whether grace periods come as often; None: there are too few of them to tell."""
        if self._more(cpus, "100000", "off", self._rate) is not None:
            return False
        return True if self._chance(self._cells["100000", cpus], self._cells["off", cpus]) < _TELLS else None

    def _said(self, value: Callable[[CellRecord], str], unit: str) -> str:
        return (
            "; ".join(
                f"{cpus} CPUs: "
                + ", ".join(
                    f"{limit}: {value(self._cells[limit, cpus])}" for limit in ("256", "100000", "off")
                )
                for cpus in self._cpus
            )
            + f" {unit}"
        )

    def _figure(self, what: str, cpus: int, value: Callable[[CellRecord], str]) -> Figure:
        cells = {limit: self._cells[limit, cpus] for limit in self._limits}
        each = ", ".join(
            f"{limit}: {value(cell) if self._counted.grace_periods(cell) else 'no grace period'}"
            for limit, cell in cells.items()
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

    def _periods(self, cell: CellRecord) -> str:
        """How many a second, and what one more or less at either end would make of it."""
        periods, seconds = self._counted.grace_periods(cell), cell.recorded_ns / 1e9
        low, high = ((periods + by) / seconds for by in (-1, 1))
        return f"{periods / seconds:.0f} ({low:.0f} to {high:.0f}, {periods:.0f} of them)"

    def _rate(self, cell: CellRecord) -> float:
        return self._counted.grace_periods(cell) / (cell.recorded_ns / 1e9)

    def _callbacks(self, cell: CellRecord) -> float:
        periods = self._counted.grace_periods(cell)
        return self._counted.operations(cell) / cell.cpus / periods if periods else float("nan")

    def _batch(self, cell: CellRecord) -> float:
        batches = self._counted.calls(cell, "rcu_segcblist_add_len", "rcu_do_batch")
        return (
            self._freed(cell) * self._counted.operations(cell) / 1000 / batches if batches else float("nan")
        )

    def _freed(self, cell: CellRecord) -> float:
        calls = self._counted.calls(cell, "file_free_rcu", "rcu_do_batch")
        return 1000 * calls / self._counted.operations(cell)

    def _in_partial(self, cell: CellRecord) -> float:
        return self._taken(cell, _PARTIAL)

    def _taken(self, cell: CellRecord, taken_in: str = "") -> float:
        return 1000 * self._counted.lock(cell, r"kmem_cache_node\.list_lock", taken_in).acquisitions


def _all(answers: Sequence[bool | None]) -> bool | None:
    """Whether all are so; None: of some that cannot be told, and of none that it is not."""
    return False if False in answers else None if None in answers else True


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
    studies=("counts", "waits", "limits"),
    quick={
        "counts": Quick(cpus=[8], without=("1000", "10000"), operations=60_000),
        "waits": Quick(
            cpus=[8],
            without=("off, after 3 ticks", "off, after 10 ticks", "256, after 10 ticks"),
            operations=60_000,
        ),
        "limits": Quick(cpus=[160], repetitions=1, tasks=(1, 40, 160), shorter=4),
    },
    report=report,
    builds=(Build("open1-rcu-limit", "debian/6.1", "x86_64", ("limit.patch",)),),
)
