"""open1-rcu: open1's curves part where cond_resched counts as a quiescent state for RCU.

Since 3.16-rc0 every RCU_COND_RESCHED_LIM-th cond_resched is a quiescent state. That makes grace periods
shorter, so objects come back to SLUB in smaller batches. What an operation then takes of SLUB's lists is
counted in kernels that have this again, 6.1 and, where its source is given, 3.16; what it costs is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from statistics import fmean

from bigiron.analysis.statistics.estimate import Estimate, of_all
from bigiron.analysis.statistics.seed_range import seed_range
from bigiron.cases.case import Build, Case, CaseReport, Claim, Published, PublishedFigure, Quick, Simulated
from bigiron.cases.counted import CountedStudy
from bigiron.cases.replayed import ReplayedStudy, not_replayed, percent
from bigiron.errors import UserError
from bigiron.study.store import CellRecord, Study
from bigiron.util.lazy import polars as pl

_OF_3_16 = "counts-3.16"
_SLOW, _RECOVERED = "RCU_COND_RESCHED_LIM=256", "RCU_COND_RESCHED_LIM=100000"
_APART = 0.01
"""Curves part where the limit of 256 costs more than this, whatever the seed."""
_FEWEST = 2  # repetitions that tell anything
_PERIODS = "grace periods per second of VM time"
_TELLS = 0.1
"""What chance may make of a count that is called the same."""
_PROFILE = {
    "file_free_rcu": "file_free_rcu",
    "rcu_process_callbacks": "rcu_core|rcu_do_batch|rcu_process_callbacks|__rcu_process_callbacks",
    "__call_rcu": "call_rcu|__call_rcu|__call_rcu_common.*",
    "__d_lookup_rcu": "__d_lookup_rcu",
}
"""The functions of the published profile, and what they are called in 6.1 and 3.16."""


def report(studies: Mapping[str, Study], published: Published) -> CaseReport:
    """What is counted by limit; then, simulated, throughput, where the curves part, and what differs."""
    counted, lines, waits = (_ByLimit(CountedStudy(studies[name])) for name in ("counts", "lines", "waits"))
    in_3_16 = _ByLimit(CountedStudy(studies[_OF_3_16]), "3.16") if _OF_3_16 in studies else None
    rows = studies["limits"].tables("simulation")
    tasks = sorted(rows["tasks"].unique())
    most = max(tasks)
    theirs = published.value("divergence", "curves diverge", "tasks")
    apart = _first_apart(rows, tasks)
    figures = [
        PublishedFigure(
            "the curves part at",
            f"{theirs:g} tasks",
            f"{apart} tasks, simulated, predicted"
            if apart
            else f"nowhere up to {most} tasks, simulated, predicted",
        ),
        *(_at(rows, number) for number in tasks),
        *(_inside(rows, limit, most) for limit in rows["variant"].unique(maintain_order=True)),
    ]
    claims = _claims(rows, most, apart, theirs)
    notes = list(_NOTES)
    try:
        replayed = ReplayedStudy.on(studies["limits"].spec.simulation.machine, studies["traces"], tasks)
    except UserError as error:
        notes.append(not_replayed(error))
    else:
        figures += _of_traces(replayed, tasks)
        claims = [*claims, _slower(replayed, most, theirs)]
    return CaseReport(
        [
            *counted.figures(published),
            *lines.accessed(),
            *waits.when(),
            *(in_3_16.figures(published) if in_3_16 else []),
        ],
        [*counted.claims(), *(in_3_16.claims() if in_3_16 else [])],
        notes,
        Simulated(figures, claims),
    )


def _written(count: Estimate, digits: str) -> str:
    """The mean of all repetitions, and what it lies between."""
    if isnan(count.value):
        return "none in some repetition"
    return count.written(lambda value: format(value, digits))


class _ByLimit:
    """What an operation counts where so many calls of cond_resched are a quiescent state, or none is.

    `kernel` is named where it is not the one that all but one study have.
    """

    def __init__(self, counted: CountedStudy, kernel: str = "") -> None:
        self._counted, self._kernel = counted, kernel
        self._cells: dict[tuple[str, int], list[CellRecord]] = {}
        for cell in counted.cells():
            self._cells.setdefault((cell.variant, cell.cpus), []).append(cell)
        self._limits = [variant.name for variant in counted.study.spec.variant]
        self._cpus = counted.study.spec.cpus
        self._most = max(self._cpus)

    def figures(self, published: Published) -> list[PublishedFigure]:
        """By CPUs: grace periods, what comes back at once, and what is taken of SLUB's lists."""
        rows: list[tuple[str, Callable[[CellRecord], float], str]] = [
            ("callbacks per CPU in a grace period", self._callbacks, ",.0f"),
            ("callbacks invoked in a batch of rcu_do_batch", self._batch, ",.0f"),
            ("file_free_rcu called, for 1,000 operations", lambda cell: 1000 * self._freed(cell), ",.0f"),
            ("list_lock taken, for 1,000 operations", self._taken, ".2f"),
            ("list_lock taken in get_partial_node, for 1,000 operations", self._in_partial, ".3f"),
        ]
        figures = []
        for cpus in self._cpus:
            periods = {limit: self._periods(limit, cpus) for limit in self._limits}
            figures.append(self._figure(_PERIODS, cpus, periods))
            figures += [self._each(what, cpus, of, digits) for what, of, digits in rows]
        return [*figures, *(self._share(function, published) for function in _PROFILE)]

    def accessed(self) -> list[PublishedFigure]:
        """What is accessed of list_lock's lines, which also count a node's slabs."""
        return [
            self._each(f"{what}, for 1,000 operations", cpus, of, digits)
            for cpus in self._cpus
            for what, of, digits in (
                ("accesses to the shared cache lines of list_lock (kmem_cache_node)", self._accesses, ".1f"),
                ("list_lock taken meanwhile", self._taken, ".2f"),
            )
        ]

    def when(self) -> list[PublishedFigure]:
        """Grace periods and batches of variants that differ in how RCU waits and what it invokes at once."""
        periods = ", ".join(f"{name}: {self._periods(name, self._most)}" for name in self._limits)
        batches = ", ".join(
            f"{name}: {_written(self._of(name, self._most, self._batch), ',.0f')}" for name in self._limits
        )
        how = f"{self._most} CPUs, by when RCU looks for quiescent states, and what it invokes at once"
        return [
            PublishedFigure(f"{_PERIODS}, {how}", "not published", f"{periods}; counted"),
            PublishedFigure(f"callbacks invoked in a batch, {how}", "not published", f"{batches}; counted"),
        ]

    def claims(self) -> list[Claim]:
        """What the published text says of the mechanism: it holds where it does with any number of CPUs."""
        where = f", in {self._kernel}," if self._kernel else ""
        more = [self._more(self._rate("256", cpus), self._rate("100000", cpus)) for cpus in self._cpus]
        oftener = [
            self._more(self._of("256", cpus, self._in_partial), self._back("100000", cpus))
            for cpus in self._cpus
        ]
        same = [self._same(self._rate("100000", cpus), self._rate("off", cpus)) for cpus in self._cpus]
        return [
            Claim(
                f"With a limit of 256{where} there are more grace periods, so that fewer objects come back "
                "at once",
                _all(more),
                self._said(self._periods, _PERIODS),
            ),
            Claim(
                f"With a limit of 256{where} SLUB's get_partial_node is called more often",
                _all(oftener),
                self._said(
                    lambda limit, cpus: _written(self._of(limit, cpus, self._in_partial), ".3f"),
                    "times list_lock in it for 1,000 operations",
                ),
            ),
            Claim(
                f"A limit of 100,000{where} behaves like no limit",
                _all(same),
                self._said(self._periods, _PERIODS),
            ),
        ]

    def _more(self, one: Estimate, other: Estimate) -> bool | None:
        """Whether all repetitions say so; None: some do not, or there is but one."""
        if self._counted.study.spec.repetitions < _FEWEST:
            return None
        return True if one.low > other.high else False if one.high < other.low else None

    def _same(self, one: Estimate, other: Estimate) -> bool | None:
        if self._more(one, other) is not None:
            return False
        high = max(one.high, other.high)
        return True if high - min(one.low, other.low) < _TELLS * high else None

    def _said(self, value: Callable[[str, int], str], unit: str) -> str:
        def of(cpus: int) -> str:
            return ", ".join(f"{limit}: {value(limit, cpus)}" for limit in ("256", "100000", "off"))

        return "; ".join(f"{cpus} CPUs: {of(cpus)}" for cpus in self._cpus) + f" {unit}"

    def _each(self, what: str, cpus: int, of: Callable[[CellRecord], float], digits: str) -> PublishedFigure:
        values = {limit: _written(self._of(limit, cpus, of), digits) for limit in self._limits}
        return self._figure(what, cpus, values)

    def _figure(self, what: str, cpus: int, values: Mapping[str, str]) -> PublishedFigure:
        each = ", ".join(f"{limit}: {value}" for limit, value in values.items())
        where = f"{cpus} CPUs{self._in_kernel()}"
        return PublishedFigure(
            f"{what}, {where}, by RCU_COND_RESCHED_LIM", "not published", f"{each}; counted"
        )

    def _in_kernel(self) -> str:
        return f", {self._kernel}" if self._kernel else ""

    def _share(self, function: str, published: Published) -> PublishedFigure:
        theirs = ", ".join(
            f"{version}: {published.value('profile_self', function, version):g} % of the time"
            for version in ("3.15", "3.16-rc0")
        )

        def share(cell: CellRecord) -> float:
            return 100 * self._counted.work(cell, _PROFILE[function]) / self._counted.work(cell)

        ours = ", ".join(
            f"{limit}: {self._of(limit, self._most, share).value:.2f} %" for limit in ("off", "256")
        )
        what = f"{function}, {self._most} CPUs{self._in_kernel()}"
        return PublishedFigure(what, theirs, f"{ours} of the instructions; counted")

    def _of(self, limit: str, cpus: int, value: Callable[[CellRecord], float]) -> Estimate:
        return of_all([value(cell) for cell in self._cells[limit, cpus]])

    def _rate(self, limit: str, cpus: int) -> Estimate:
        """Grace periods per second: where a repetition begins or ends, one more or less is chance."""
        found = [(self._counted.grace_periods(cell), _seconds(cell)) for cell in self._cells[limit, cpus]]
        return Estimate(
            fmean(periods / seconds for periods, seconds in found),
            min(max(periods - 1, 0) / seconds for periods, seconds in found),
            max((periods + 1) / seconds for periods, seconds in found),
        )

    def _periods(self, limit: str, cpus: int) -> str:
        each = ", ".join(f"{self._counted.grace_periods(cell):.0f}" for cell in self._cells[limit, cpus])
        return f"{_written(self._rate(limit, cpus), '.0f')}, of {each}"

    def _back(self, limit: str, cpus: int) -> Estimate:
        """What is taken in get_partial_node; at most, had all objects come back before the end."""
        taken = self._of(limit, cpus, self._in_partial)
        at_most = self._of(limit, cpus, lambda cell: self._in_partial(cell) / max(self._freed(cell), 1e-9))
        return replace(taken, high=at_most.high)

    def _callbacks(self, cell: CellRecord) -> float:
        periods = self._counted.grace_periods(cell)
        return self._counted.operations(cell) / cell.cpus / periods if periods else float("nan")

    def _calls(self, cell: CellRecord, function: str) -> int:
        return self._counted.calls(cell, function, "rcu_do_batch")

    def _batch(self, cell: CellRecord) -> float:
        batches = self._calls(cell, "rcu_segcblist_add_len")  # once, for all that were invoked
        return self._calls(cell, "file_free_rcu") / batches if batches else float("nan")

    def _freed(self, cell: CellRecord) -> float:
        return self._calls(cell, "file_free_rcu") / self._counted.operations(cell)

    def _in_partial(self, cell: CellRecord) -> float:
        return self._taken(cell, r"(^|;)get_partial_node(\.\w+)*$")

    def _taken(self, cell: CellRecord, taken_in: str = "") -> float:
        return 1000 * self._counted.lock(cell, r"kmem_cache_node\.list_lock", taken_in).acquisitions

    def _accesses(self, cell: CellRecord) -> float:
        return 1000 * self._counted.accesses(cell, "kmem_cache_node")


def _seconds(cell: CellRecord) -> float:
    """Of VM time, that the recording took."""
    return cell.recorded_ns / 1e9


def _all(answers: Sequence[bool | None]) -> bool | None:
    """Whether all are so; None: some are undecided, and none is not so."""
    return False if False in answers else None if None in answers else True


def _throughput(rows: pl.DataFrame, limit: str, tasks: int) -> Estimate:
    return seed_range(rows, "throughput", limit, tasks)


def _first_apart(rows: pl.DataFrame, tasks: list[int]) -> int | None:
    def apart(number: int) -> bool:
        slow, recovered = (_throughput(rows, limit, number) for limit in (_SLOW, _RECOVERED))
        return recovered.low > slow.high * (1 + _APART)

    return next((number for number in tasks if apart(number)), None)


def _at(rows: pl.DataFrame, tasks: int) -> PublishedFigure:
    each = ", ".join(
        f"{limit.partition('=')[2]}: {_throughput(rows, limit, tasks)}"
        for limit in rows["variant"].unique(maintain_order=True)
    )
    plural = "s" if tasks > 1 else ""
    return PublishedFigure(
        f"operations per second by RCU_COND_RESCHED_LIM, {tasks} task{plural}",
        "not published",
        f"{each}; simulated, predicted",
    )


def _inside(rows: pl.DataFrame, limit: str, tasks: int) -> PublishedFigure:
    period, taken, waits = (
        seed_range(rows, name, limit, tasks)
        for name in ("grace period", "list_lock", "waiting for list_lock")
    )
    return PublishedFigure(
        f"what differs, {limit}, {tasks} tasks",
        "not published",
        f"a grace period takes {period} ms, list_lock is taken {taken} times per operation and waited "
        f"for {waits} ns; simulated, predicted",
    )


def _claims(rows: pl.DataFrame, most: int, apart: int | None, published: float) -> list[Claim]:
    slow, recovered = (_throughput(rows, limit, most) for limit in (_SLOW, _RECOVERED))
    return [
        Claim(
            "A limit of 256 is slower than one of 100,000 with many tasks",
            recovered.low > slow.high,
            f"{slow} against {recovered} operations per second with {most} tasks, "
            f"{100 * (slow.value / recovered.value - 1):+.1f} %",
        ),
        Claim(
            f"The curves coincide up to about {published:g} tasks",
            apart is not None and published / 2 <= apart <= 2 * published,
            f"a limit of 256 costs more than {_APART:.0%} from {apart} tasks on"
            if apart
            else f"a limit of 256 costs {_APART:.0%} or less with any number of tasks",
        ),
    ]


def _of_traces(replayed: ReplayedStudy, tasks: Sequence[int]) -> list[PublishedFigure]:
    """What becomes of the sampled operations, and of the callbacks that RCU invokes for them."""
    changes = [
        PublishedFigure(
            f"throughput, limit {variant} against none, {number} tasks, from traces",
            "not published",
            f"{percent(replayed.change(variant, number))}, replayed, predicted",
        )
        for variant in ("256", "100000")
        for number in tasks
        if number > 1
    ]
    most = max(tasks)
    limits = "; ".join(replayed.in_words(variant, most) for variant in ("off", "256", "100000"))
    what = f"what limits, {most} tasks, from traces"
    return [*changes, PublishedFigure(what, "not published", f"{limits}; replayed, predicted")]


def _slower(replayed: ReplayedStudy, most: int, published: float) -> Claim:
    """Operations do not tell where their interval holds no change."""
    change = replayed.change("256", most)
    return Claim(
        f"A limit of 256 makes operations slower from about {published:g} tasks on, from traces",
        None if change.holds(0) else change.high < 0,
        f"predicted {percent(change)} with {most} tasks. A trace has some of the operations, and what RCU's "
        "callbacks do is of counts; what they leave for operations (get_partial_node) may be rarer than "
        "those that are sampled",
    )


_NOTES = [
    "Counts are of 6.1 with this case's patch. The guest's clock counts instructions: each CPU executes 1 to "
    "2 of them in a nanosecond.",
    "Simulated figures are the mean of all seeds, with the lowest and the highest of any seed.",
    "Nothing was fitted: the cost of an operation in the simulation is an estimate (limits.toml), and the "
    "latencies are those of a later machine (machine.toml).",
    "Simulated caches are unlimited: an object costs no more when it was not used for long.",
]

CASE = Case(
    name="open1-rcu",
    description="open1's curves part where cond_resched counts as a quiescent state (3.16-rc0)",
    studies=("counts", "lines", "waits", "limits", "traces"),
    quick={
        "counts": Quick(cpus=[8], repetitions=2, without=("1000", "10000"), operations=40_000),
        _OF_3_16: Quick(cpus=[8], repetitions=2, without=("1000", "10000"), operations=40_000),
        "lines": Quick(cpus=[2], without=("100000",)),
        "waits": Quick(
            cpus=[8],
            without=(
                "off, after 3 ticks",
                "256, after 3 ticks",
                "off, after 10 ticks",
                "off, all at once",
                "off, a part at once",
            ),
            operations=40_000,
        ),
        "traces": Quick(cpus=[4], operations=500),
        "limits": Quick(cpus=[160], repetitions=1, tasks=(1, 40, 160), shorter=4),
    },
    report=report,
    builds=(
        Build("open1-rcu-limit", "debian/6.1", "x86_64", ("limit.patch",)),
        Build(
            "open1-rcu-3.16",
            "",
            "x86_64",
            ("3.16-compile.patch", "3.16-machine.patch", "3.16-limit.patch"),
            ("3.16.config",),
        ),
    ),
    of_the_time="3.16",
    with_tree=(_OF_3_16,),
)
