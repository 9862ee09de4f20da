"""dwal-percpu: tasks that append to files of their own on btrfs, and exact sums under one lock.

fxmark's DWAL lost half of its throughput on 288 CPUs. All tasks reserve space under one lock, and under it
the kernel looks at percpu_counters: at the shared count, or at every CPU's part. What an operation takes of
both is counted in kernels that do the one or the other; what it costs is simulated (and by layout in
bigiron.cases.dwal_layouts).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bigiron.analysis.replay.extrapolated import Extrapolated
from bigiron.analysis.statistics.estimate import Estimate, of_all
from bigiron.analysis.statistics.seed_range import repetitions, seed_range
from bigiron.cases import dwal_layouts
from bigiron.cases.case import Build, Case, CaseReport, Claim, Published, PublishedFigure, Quick, Simulated
from bigiron.cases.counted import CountedStudy, LockCounts
from bigiron.cases.dwal_layouts import HEADLINE, SUM, TASKS, Holder
from bigiron.cases.replayed import ReplayedStudy, not_replayed, percent
from bigiron.errors import UserError
from bigiron.study.store import CellRecord, Study
from bigiron.util.lazy import polars as pl

_BESIDE = 65
_TRACED = (9, 27, TASKS)  # tasks that are replayed
_NEAR = 0.05  # of the tasks' time: shares that differ by less are the same
_COLUMNS = {"read": "old", "sum": "new"}

_LOCK = "btrfs_reserve_metadata_bytes;__reserve_bytes$"  # where space_info's lock for metadata is taken
_PATHS = {"__reserve_bytes": "__reserve_bytes$", "btrfs_block_rsv_release": "btrfs_block_rsv_release$"}
_PART = r"\.counters"  # a CPU's, of a percpu_counter
_NAMES = 6  # shown at most
_SAME = 0.02
"""Counts that differ by less are the same: how long a lock is held depends a little on who waits for it."""


def report(studies: Mapping[str, Study], published: Published) -> CaseReport:
    """What is counted by kernel and CPUs; then, simulated, throughput by tasks and what a sum costs."""
    counted = _OnBtrfs(CountedStudy(studies["counts"]), CountedStudy(studies["neighbours"]))
    study = studies["tasks"]
    rows = study.tables("simulation")
    tasks = sorted(rows["tasks"].unique())
    change = _change(rows, "read", "sum", TASKS)
    headline = published.value("headline", HEADLINE, "change")
    waiting = {look: seed_range(rows, "waiting for the lock", look, TASKS) for look in ("read", "sum")}
    figures = [
        PublishedFigure(
            f"throughput, {TASKS} tasks: sums instead of reads under the lock",
            f"worse than {headline:g} %",
            f"{percent(change)}, simulated, predicted",
        ),
        *(_waiting(look, ours, published) for look, ours in waiting.items()),
        _step(rows),
        *(_throughput(rows, number_of) for number_of in tasks),
    ]
    traces = studies["traces"]
    machine, recorded = study.spec.simulation.machine, max(traces.spec.cpus)
    layouts = studies["layouts"].tables("simulation")
    figures += dwal_layouts.figures(layouts, published)
    claims = [_costs_more(change, headline), _one_lock(waiting), *dwal_layouts.claims(layouts, published)]
    notes = list(_NOTES)
    try:
        replayed = ReplayedStudy.on(machine, traces, _TRACED, counted.extrapolated(recorded, published))
    except UserError as error:
        notes.append(not_replayed(error))
    else:
        figures += _of_traces(replayed, published, recorded)
        claims += [*_falls(replayed, headline), _limits(replayed, published)]
    simulated = Simulated(figures, claims)
    return CaseReport(counted.figures(published), counted.claims(published), notes, simulated)


class _OnBtrfs:
    """What an operation counts on btrfs: by kernel and CPUs, and with two tasks more than published."""

    def __init__(self, counted: CountedStudy, neighbours: CountedStudy) -> None:
        self._counted, self._neighbours = counted, neighbours
        self._cells = {(cell.variant, cell.cpus): cell for cell in counted.cells()}
        self._variants = [variant.name for variant in counted.study.spec.variant]
        self._cpus = counted.study.spec.cpus
        self._most = max(self._cpus)

    def figures(self, published: Published) -> list[PublishedFigure]:
        """By CPUs; then where the lock is taken, what a sum reads, and what differs beside 63 tasks."""
        figures = []
        for cpus in self._cpus:
            figures += [
                self._figure(f"instructions of {SUM} an operation, {cpus} CPUs", cpus, self._sums, ",.0f"),
                self._figure(
                    f"space_info's lock for metadata taken, times per operation, {cpus} CPUs",
                    cpus,
                    lambda cell: self._lock(cell).acquisitions,
                    ".2f",
                ),
                self._figure(
                    f"instructions that space_info's lock is held for each time, {cpus} CPUs",
                    cpus,
                    lambda cell: self._lock(cell).each,
                    ",.0f",
                ),
            ]
        return [*figures, self._at_all(published), *(self._taken_in(path, published) for path in _PATHS)]

    def claims(self, published: Published) -> list[Claim]:
        """What the published text says of the mechanism."""
        return [
            self._all_cpus(),
            self._longer(published),
            self._layout(),
            self._doubt(published),
            self._two_more(),
        ]

    def _figure(
        self, what: str, cpus: int, value: Callable[[CellRecord], float], digits: str
    ) -> PublishedFigure:
        each = ", ".join(f"{name}: {value(self._cells[name, cpus]):{digits}}" for name in self._variants)
        return PublishedFigure(what, "not published", f"{each}; counted")

    def _sums(self, cell: CellRecord) -> float:
        return self._counted.work(cell, SUM)

    def _lock(self, cell: CellRecord) -> LockCounts:
        return self._counted.lock_of(cell, _LOCK)

    def _line(self, value: Callable[[CellRecord], float], variant: str = "sums") -> tuple[float, float]:
        """Of a kernel: what it is with no CPU, and how much more with each."""
        few, many = (self._cells[variant, cpus] for cpus in (min(self._cpus), self._most))
        slope = (value(many) - value(few)) / (many.cpus - few.cpus) if many is not few else 0.0
        return value(few) - slope * few.cpus, slope

    def extrapolated(self, recorded: int, published: Published) -> dict[str, Extrapolated]:
        """How many more instructions per operation has in sums there, by variant, of those that have them."""
        cpus = int(published.value("machine", "threads", "count"))
        slopes = {name: self._line(self._sums, name)[1] for name in self._variants}
        return {
            name: Extrapolated({SUM: slope * (cpus - recorded)}, cpus=cpus)
            for name, slope in slopes.items()
            if slope
        }

    def _at_all(self, published: Published) -> PublishedFigure:
        cpus = int(published.value("machine", "threads", "count"))
        start, slope = self._line(self._sums)
        return PublishedFigure(
            f"instructions of {SUM} an operation, {cpus} CPUs",
            f"{published.value('profile_self', SUM, 'old'):g} % of the time (old kernel)",
            f"{start + slope * cpus:,.0f}: {slope:.1f} per CPU; extrapolated from {self._most} CPUs",
        )

    def _taken_in(self, path: str, published: Published) -> PublishedFigure:
        theirs = published.value("profile_stack", f"spin_lock < {path}", "old")
        cells = {name: self._cells[name, self._most] for name in self._variants}
        each = ", ".join(
            f"{name}: {self._counted.lock_of(cell, _LOCK, _PATHS[path]).acquisitions:.2f}"
            for name, cell in cells.items()
        )
        return PublishedFigure(
            f"space_info's lock for metadata taken in {path}, times per operation, {self._most} CPUs",
            f"{theirs:g} % of the time waited for there (old kernel)",
            f"{each}; counted",
        )

    def _all_cpus(self) -> Claim:
        start, slope = self._line(self._sums)
        each = [(cpus, self._sums(self._cells["sums", cpus])) for cpus in self._cpus]
        off = max(abs(start + slope * cpus - count) / count for cpus, count in each) if slope else 1.0
        return Claim(
            "A sum walks all online CPUs",
            off < 0.05 if len(each) > 2 else None,
            ", ".join(f"{count:,.0f} instructions per operation with {cpus} CPUs" for cpus, count in each),
        )

    def _longer(self, published: Published) -> Claim:
        cpus = int(published.value("machine", "threads", "count"))
        reads, sums = (self._lock(self._cells[name, self._most]).each for name in ("reads", "sums"))
        start, slope = self._line(lambda cell: self._lock(cell).each)
        return Claim(
            "With sums the lock is held longer",
            sums > 1.1 * reads,
            f"{sums:,.0f} instead of {reads:,.0f} instructions each time with {self._most} CPUs, and "
            f"{start + slope * cpus:,.0f} with {cpus} (extrapolated)",
        )

    def _layout(self) -> Claim:
        plain, padded = (self._cells[name, self._most] for name in ("sums", "sums, padded"))
        before, after = (self._counted.beside(cell, SUM, _PART) for cell in (plain, padded))
        lie = [self._counted.offsets(cell, SUM, rf"{_PART} of CPU \d") for cell in (plain, padded)]
        held = [self._lock(cell).each for cell in (plain, padded)]
        return Claim(
            "Where per-CPU variables lie matters (the padding experiment)",
            None,
            "with the padding, into the lines in which a sum reads the CPUs' parts come: "
            f"{_some(after - before)}; and from them go: {_some(before - after)}. The parts lie at bytes "
            f"{_numbers(lie[0])} of 128, padded at {_numbers(lie[1])}. What an operation "
            f"executes stays, {held[0]:,.0f} and {held[1]:,.0f} instructions under the lock; what "
            "the lines' misses cost is in no count",
        )

    def _doubt(self, published: Published) -> Claim:
        """From the published profile alone: the holder of a lock that 63 tasks wait for is one of them."""
        holder = Holder.of(published)
        return Claim(
            "The difference between the two kernels is layout, or the bisection failed",
            None,
            f"if one of {TASKS} tasks always holds the lock, sums are {holder.old:.0%} of what it does in "
            f"the old kernel and {holder.new:.0%} in the new one, by the published profile. With an "
            f"operation {holder.longer:.2f} times as long, sums take {holder.sums_longer:.2f} times as long, "
            f"and all the rest under it {holder.rest_longer:.2f} times: nothing has changed but what sums "
            "take, and both kernels have them. That agrees with their lines, and with more sums, and with no "
            "other work",
        )

    def _two_more(self) -> Claim:
        """On as many CPUs as there are for all of them."""
        rows: dict[tuple[str, int], tuple[float, ...]] = {}
        for cell in self._neighbours.cells():
            lock = self._neighbours.lock_of(cell, _LOCK)
            counts = (lock.acquisitions, lock.each, self._neighbours.work(cell, SUM))
            rows[cell.variant, cell.tasks] = counts
        few, many = sorted({tasks for _, tasks in rows})
        differs = [
            abs(after / before - 1) > _SAME
            for variant in dict.fromkeys(variant for variant, _ in rows)
            for before, after in zip(rows[variant, few], rows[variant, many], strict=True)
            if before
        ]
        each = "; ".join(
            f"{variant}, {tasks} tasks: {taken:.2f} times {held:,.0f} instructions, "
            f"{summed:,.0f} per operation in sums"
            for (variant, tasks), (taken, held, summed) in rows.items()
        )
        return Claim(
            f"With {many} tasks the counts per operation differ from those with {few}", any(differs), each
        )


def _numbers(offsets: list[int]) -> str:
    return ", ".join(map(str, offsets)) or "that were not seen"


def _some(names: set[str]) -> str:
    shown = sorted(names)[:_NAMES]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") or "none"


def _change(rows: pl.DataFrame, old: str, new: str, tasks: int) -> Estimate:
    before, after = (repetitions(rows, "throughput", variant, tasks) for variant in (old, new))
    return of_all([100 * (b / a - 1) for a, b in zip(before, after, strict=True)])


def _waiting(look: str, ours: Estimate, published: Published) -> PublishedFigure:
    column = _COLUMNS[look]
    theirs = published.value("profile_children", "native_queued_spin_lock_slowpath", column)
    return PublishedFigure(
        f"share of the tasks' time spent waiting for space_info's lock, {look}, {TASKS} tasks",
        f"{theirs:g} % ({column} kernel)",
        f"{ours} %, simulated, predicted",
    )


def _throughput(rows: pl.DataFrame, tasks: int) -> PublishedFigure:
    variants = rows["variant"].unique(maintain_order=True).to_list()
    each = ", ".join(f"{variant} {seed_range(rows, 'throughput', variant, tasks)}" for variant in variants)
    plural = "s" if tasks > 1 else ""
    return PublishedFigure(
        f"operations per second, {tasks} task{plural}", "not published", f"{each}; simulated, predicted"
    )


def _step(rows: pl.DataFrame) -> PublishedFigure:
    def change(variant: str) -> float:
        before, after = (seed_range(rows, "throughput", variant, tasks).value for tasks in (TASKS, _BESIDE))
        return after / before - 1

    each = ", ".join(f"{name} {change(name):+.1%}" for name in rows["variant"].unique(maintain_order=True))
    return PublishedFigure(
        f"throughput, {_BESIDE} tasks instead of {TASKS}", "not published", f"{each}; simulated, predicted"
    )


_BOUND = (
    "the published {:g} % is one kernel with sums compared with another with sums, and the published kernel "
    "with reads was better than both"
)


def _costs_more(change: Estimate, headline: float) -> Claim:
    return Claim(
        f"Sums instead of reads cost more throughput than published, with {TASKS} tasks",
        change.high < headline,
        f"{percent(change)} where every operation sums exactly: {_BOUND.format(headline)}",
    )


def _one_lock(waiting: Mapping[str, Estimate]) -> Claim:
    return Claim(
        "The tasks spend nearly all of their time waiting for one lock, with the new kernel even more",
        waiting["read"].value > 75 and waiting["sum"].low > waiting["read"].high,
        f"{waiting['read']} % with reads, {waiting['sum']} % with sums",
    )


def _of_traces(replayed: ReplayedStudy, published: Published, recorded: int) -> list[PublishedFigure]:
    """What the sampled operations come to on the published machine."""
    cpus = int(published.value("machine", "threads", "count"))
    theirs = published.value("headline", HEADLINE, "change")
    changes = [
        PublishedFigure(
            f"throughput, {tasks} tasks: sums instead of reads, from traces",
            f"worse than {theirs:g} %" if tasks == TASKS else "not published",
            f"{percent(replayed.change('sums', tasks))}, replayed, predicted; recorded with {recorded} CPUs, "
            f"what sums execute extrapolated to {cpus}",
        )
        for tasks in _TRACED
    ]
    limits = [
        PublishedFigure(
            f"what limits {variant}, {TASKS} tasks, from traces",
            f"space_info's lock, {_waited(published, look):.0%} of the time",
            f"{replayed.in_words(variant, TASKS)}; replayed, predicted",
        )
        for variant, look in _LOOKS.items()
    ]
    return [*changes, *limits]


_LOOKS = {"reads": "read", "sums": "sum"}


def _waited(published: Published, look: str) -> float:
    """The published share of the time that tasks wait for the lock."""
    return published.value("profile_children", "native_queued_spin_lock_slowpath", _COLUMNS[look]) / 100


def _falls(replayed: ReplayedStudy, headline: float) -> list[Claim]:
    change = replayed.change("sums", TASKS)
    evidence = f"predicted {percent(change)}"
    return [
        Claim(
            f"Sums cost throughput with {TASKS} tasks, from traces",
            None if change.holds(0) else change.high < 0,
            evidence,
        ),
        Claim(
            f"Sums instead of reads cost more throughput than published, with {TASKS} tasks, from traces",
            None if change.holds(headline) else change.high < headline,
            f"{evidence}: {_BOUND.format(headline)}",
        ),
    ]


def _limits(replayed: ReplayedStudy, published: Published) -> Claim:
    def agrees(variant: str, look: str) -> bool:
        limits = replayed.limits(variant, TASKS)
        named = bool(limits) and "space_info" in limits[0].object
        return named and abs(limits[0].share - _waited(published, look)) < _NEAR

    return Claim(
        "The tasks spend nearly all of their time at one lock, with the new kernel even more, from traces",
        all(agrees(variant, look) for variant, look in _LOOKS.items()),
        "; ".join(f"predicted {replayed.in_words(variant, TASKS)}" for variant in _LOOKS),
    )


_NOTES = [
    "Counts are exact, from real kernels, and have no times. Simulated figures are the mean of all seeds, "
    "with the lowest and the highest of any seed. Those by layout are of the machine's own figures, with the "
    "range of 90 % of the machines that were sampled from its ranges.",
    "Nothing was fitted: the latencies are those of xeon-phi-288, and the cost of an operation is an "
    "estimate (tasks.toml, layouts.toml).",
    "Layouts leave out page walks. An adjacent-line prefetcher would not change what a sum waits for: a CPU "
    "fetches the line that it lost to the prefetcher outside of the lock.",
]


def _build(name: str, *patches: str) -> Build:
    return Build(f"dwal-percpu-{name}", "debian/6.1", "x86_64", patches, ("kernel.config",))


CASE = Case(
    name="dwal-percpu",
    description="fxmark's DWAL on btrfs halves with exact counter sums under the reservation lock",
    studies=("counts", "neighbours", "traces", "tasks", "layouts"),
    quick={
        "counts": Quick(cpus=[2, 4, 8]),
        "neighbours": Quick(cpus=[8], tasks=(6, 8)),
        "traces": Quick(cpus=[8], tasks=(8,)),
        "tasks": Quick(cpus=[288], repetitions=1, tasks=(1, 9, TASKS, _BESIDE)),
        "layouts": Quick(cpus=[288], repetitions=5),
    },
    report=report,
    builds=(
        _build("reads", "always-looks.patch"),
        _build("sums", "always-looks.patch", "sums.patch"),
        _build("padded", "always-looks.patch", "sums.patch", "padding.patch"),
    ),
)
