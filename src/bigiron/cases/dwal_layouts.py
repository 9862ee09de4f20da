"""dwal-percpu: what the layout of the CPUs' parts alone makes of a sum, on machines of the ranges."""

from __future__ import annotations

from dataclasses import dataclass

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.analysis.statistics.seed_range import of_machines, repetitions
from bigiron.cases.case import Claim, Published, PublishedFigure
from bigiron.cases.replayed import percent
from bigiron.util.lazy import polars as pl

TASKS = 63  # of the published headline
HEADLINE = "fxmark.hdd_btrfs_DWAL_63_bufferedio.works/sec"
SUM = "__percpu_counter_sum"

_SWEEP = (1, 9, 18, 27, 36, 45, 54, TASKS, 72)  # tasks that fxmark ran, one number after the other
_BEST, *_OTHERS = ("one line", "two lines", "evicted")
_ONLINE = (TASKS, 288)  # CPUs whose parts a sum reads
_AT_ONCE = (3, 1)  # reads
_COUNTERS = 2


@dataclass(frozen=True)
class Holder:
    """What the task that holds the lock does by the published profile: it is always one of them."""

    old: float  # the share of sums, with the old kernel
    new: float
    longer: float  # the time per operation: new kernel / old kernel

    @classmethod
    def of(cls, published: Published) -> Holder:
        """From the shares of all tasks' time."""
        old, new = (published.value("profile_children", SUM, kernel) / 100 for kernel in ("old", "new"))
        longer = 1 / (1 + published.value("headline", HEADLINE, "change") / 100)
        return cls(TASKS * old, TASKS * new, longer)

    @property
    def sums_longer(self) -> float:
        """How many times as long sums take with the new kernel."""
        return self.longer * self.new / self.old

    @property
    def rest_longer(self) -> float:
        """The same of all other work under the lock."""
        return self.longer * (1 - self.new) / (1 - self.old)


def figures(rows: pl.DataFrame, published: Published) -> list[PublishedFigure]:
    """By CPUs that are online and reads at once: throughput and a sum's time, by layout."""
    holder = Holder.of(published)
    headline = published.value("headline", HEADLINE, "change")
    found = []
    for online in _ONLINE:
        for at_once in _AT_ONCE:
            of = f"{TASKS} tasks, {online} CPUs online, {at_once} read{'s' if at_once > 1 else ''} at once"
            lost = [f"{other}: {percent(_change(rows, other, online, at_once))}" for other in _OTHERS]
            takes = [f"{other}: {_times(rows, other, online, at_once)}" for other in _OTHERS]
            shares = [f"{layout}: {_share(rows, layout, online, at_once)} %" for layout in (_BEST, *_OTHERS)]
            found += [
                PublishedFigure(f"throughput against {_BEST}, {of}", f"{headline:g} %", _predicted(lost)),
                PublishedFigure(
                    f"times as long as with {_BEST} a sum takes, {of}",
                    f"{holder.sums_longer:.2f}",
                    _predicted(takes),
                ),
                PublishedFigure(
                    f"share of sums in the lock's time, {of}",
                    f"{holder.old:.0%} (old kernel), {holder.new:.0%} (new kernel)",
                    _predicted(shares),
                ),
            ]
    return found


def claims(rows: pl.DataFrame, published: Published) -> list[Claim]:
    """Which CPUs were online, and whether the published loss is in what layout alone makes."""
    headline = published.value("headline", HEADLINE, "change")
    worst = {at_once: _change(rows, _OTHERS[-1], TASKS, at_once) for at_once in _AT_ONCE}
    inside = {headline >= change.low for change in worst.values()}
    each = ", ".join(f"{percent(change)} with {at_once} at once" for at_once, change in worst.items())
    return [
        _online(published),
        Claim(
            f"Layout alone can cost {-headline:g} % of the throughput with {TASKS} tasks",
            inside.pop() if len(inside) == 1 else None,  # else the number of reads at once decides
            f"predicted: from nothing to {each}, where {TASKS} CPUs are online and each operation sums "
            f"{_COUNTERS} counters",
        ),
    ]


def _online(published: Published) -> Claim:
    cpus = published.value("machine", "threads", "count")
    busy = published.value("lkp", "mpstat.cpu.all.sys%", "old")
    tasks = sum(_SWEEP) / len(_SWEEP)
    return Claim(
        f"The machine has {cpus:g} CPUs online while {TASKS} tasks run",
        busy < 100 * tasks / cpus,
        f"fxmark takes all CPUs but the tasks' offline (bin/run-fxmark.py, set_cpus). With {cpus:g} online, "
        f"its {tasks:.0f} tasks on average could spend at most {tasks / cpus:.1%} of the CPUs' time, and "
        f"{busy:g} % were spent in the kernel",
    )


def _values(rows: pl.DataFrame, figure: str, layout: str, online: int, at_once: int) -> list[float]:
    return repetitions(rows, figure, f"{layout}, {online} online, {at_once} at once", TASKS)


def _change(rows: pl.DataFrame, layout: str, online: int, at_once: int) -> Estimate:
    """Of throughput against the best layout, on the same machines, in per cent."""
    best, other = (_values(rows, "throughput", name, online, at_once) for name in (_BEST, layout))
    return of_machines([100 * (b / a - 1) for a, b in zip(best, other, strict=True)])


def _times(rows: pl.DataFrame, layout: str, online: int, at_once: int) -> str:
    best, other = (_values(rows, "exact sum", name, online, at_once) for name in (_BEST, layout))
    return of_machines([b / a for a, b in zip(best, other, strict=True)]).written("{:.2f}".format)


def _share(rows: pl.DataFrame, layout: str, online: int, at_once: int) -> str:
    """One task always holds the lock: of its time."""
    operations, ns = (_values(rows, name, layout, online, at_once) for name in ("throughput", "exact sum"))
    shares = [100 * _COUNTERS * a * b / 1e9 for a, b in zip(operations, ns, strict=True)]
    return of_machines(shares).written("{:.0f}".format)


def _predicted(each: list[str]) -> str:
    return f"{', '.join(each)}; simulated, predicted"
