"""hotplug-rcu: CPU hotplug spends nearly all of its time waiting for RCU's grace periods.

Where the idle handler is uninstalled (cpuidle_uninstall_idle_handler(), POWER) every CPU that goes or comes
waits for one. Four scenarios: the kernel as it is, without that wait, with an expedited one in its place, and
with all grace periods expedited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, stdev

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.analysis.statistics.ratio import ratio_of_means
from bigiron.cases.case import Build, Case, CaseReport, Claim, Published, PublishedFigure, Quick
from bigiron.cases.hotplug_totals import total
from bigiron.study.store import Study
from bigiron.util.lazy import polars as pl

_STATES = ("offline", "online")
_PUBLISHED_ROWS = {
    "baseline": "v6.2.0-rc5",
    "wait removed": "revert 442bf3aaf55a (remove synchronize_rcu)",
    "wait expedited": "synchronize_rcu_expedited in cpuidle_uninstall_idle_handler",
    "all expedited": "system-wide rcu_expedited",
}
_BASE, _REMOVED, _IN_PLACE, _ALL = _PUBLISHED_ROWS

# Functions of the idle handler's end, and of a CPU's leaving on POWER.
_HANDLER = ("cpuidle_uninstall_idle_handler", "cpuidle_pause_and_lock")
_CPU_DEAD = ("pseries_cpuidle_cpu_dead", "powernv_cpuidle_cpu_dead")
_WAIT = "synchronize_rcu"
_CUT = 0.2  # of the time that is left, at most, where all waits are expedited: the goal


@dataclass(frozen=True)
class Scenario:
    """What all CPUs' going, or coming, took in one scenario: a number for each repetition."""

    seconds: list[float]
    grace_periods: float  # normal ones that anybody waited for, for each CPU

    @property
    def spread(self) -> float:
        """Standard deviation of the seconds."""
        return stdev(self.seconds) if len(self.seconds) > 1 else 0.0


def _scenarios(study: Study, state: str) -> dict[str, Scenario]:
    rows = study.tables("operations").filter(state=state)
    scenarios = {}
    for name in _PUBLISHED_ROWS:
        rounds = rows.filter(variant=name).group_by("repetition", maintain_order=True)
        sums = rounds.agg(pl.col("nanoseconds").sum() / 1e9, pl.col("grace_periods").mean())
        periods = [periods for periods in sums["grace_periods"] if periods is not None]
        scenarios[name] = Scenario(sums["nanoseconds"].to_list(), fmean(periods) if periods else float("nan"))
    return scenarios


def report(studies: Mapping[str, Study], published: Published) -> CaseReport:
    """How much less time each scenario takes, beside the published decrease, and what was waited for."""
    measured = {state: _scenarios(studies["times"], state) for state in _STATES}
    waits = _Waits(studies["blocked"])
    figures = [
        figure
        for state in _STATES
        for figure in _figures(state, measured[state], studies["times"], published)
    ]
    return CaseReport(
        [
            *figures,
            _blocked(waits, published),
            _all_blocked(waits, published),
            *(_computed(state, measured[state], studies["times"], published) for state in _STATES),
            *_simulated(published),
        ],
        [*_claims(measured), waits.claim()],
        [*_explanations(measured, published), _left(measured, waits), *waits.notes(), *_NOTES],
    )


def _figures(
    state: str, scenarios: dict[str, Scenario], study: Study, published: Published
) -> list[PublishedFigure]:
    (cpus,) = study.spec.cpus
    table, base = f"{state}_127_cpus", scenarios[_BASE]
    figures = []
    for name, scenario in scenarios.items():
        row = _PUBLISHED_ROWS[name]
        theirs = f"{published.value(table, row, 'avg'):.3f} s for 127 CPUs"
        ours = (
            f"{fmean(scenario.seconds):.3f} s VM time for {cpus - 1} CPUs, standard deviation "
            f"{scenario.spread:.3f} s of {len(scenario.seconds)} repetitions"
        )
        if name != _BASE:
            theirs += f", {published.value(table, row, 'decrease'):.1f} % less"
            ours += f", {_decrease(ratio_of_means(scenario.seconds, base.seconds))}"
        figures.append(PublishedFigure(f"{state}: {name}", theirs, ours))
    return figures


def _decrease(ratio: Estimate) -> str:
    less = [100 * (1 - share) for share in (ratio.value, ratio.high, ratio.low)]
    return f"{less[0]:.1f} % less ({less[1]:.1f} to {less[2]:.1f})"


def _claims(measured: dict[str, dict[str, Scenario]]) -> list[Claim]:
    return [
        claim for state in _STATES for claim in (_order(state, measured[state]), _cut(state, measured[state]))
    ]


def _order(state: str, scenarios: dict[str, Scenario]) -> Claim:
    took = {name: fmean(scenario.seconds) for name, scenario in scenarios.items()}
    between = sorted([took[_REMOVED], took[_IN_PLACE]])
    return Claim(
        f"{state}: the idle handler's wait removed or expedited is faster, all waits expedited much faster",
        took[_BASE] > between[1] and between[0] > took[_ALL],
        ", ".join(f"{name} {seconds:.3f} s" for name, seconds in took.items()),
    )


def _cut(state: str, scenarios: dict[str, Scenario]) -> Claim:
    ratio = ratio_of_means(scenarios[_ALL].seconds, scenarios[_BASE].seconds)
    is_cut = True if ratio.high <= _CUT else False if ratio.low > _CUT else None
    return Claim(
        f"{state}: to expedite all grace periods cuts the time by 95 % or more; by 80 % in any case",
        is_cut,
        _decrease(ratio),
    )


def _explanations(measured: dict[str, dict[str, Scenario]], published: Published) -> list[str]:
    """Why the first patch saves what it does: by how many of the grace periods are left."""
    notes = []
    for state in _STATES:
        base, removed = measured[state][_BASE], measured[state][_REMOVED]
        fewer = 1 - removed.grace_periods / base.grace_periods
        saved = 1 - fmean(removed.seconds) / fmean(base.seconds)
        theirs = published.value(f"{state}_127_cpus", _PUBLISHED_ROWS[_REMOVED], "decrease")
        notes.append(
            f"{state}: a CPU waits for {base.grace_periods:.2f} normal grace periods, and for "
            f"{removed.grace_periods:.2f} without the idle handler's: {fewer:.0%} fewer, and {saved:.0%} "
            f"less time here; {theirs:.0f} % less on the published machine."
        )
    return notes


class _Waits:
    """Which waits for a grace period took how long while all CPUs went."""

    def __init__(self, study: Study) -> None:
        self.study = study
        (self.cpus,) = study.spec.cpus
        self.repetitions = study.spec.repetitions
        blocked = study.tables("blocked")
        # The compiler lets it jump to its expedited form, whose name then stands in its place.
        all_waits = blocked.filter(pl.col("path").str.contains(f"(^|;){_WAIT}(_expedited)?(;|$)"))
        totals = all_waits.group_by("variant").agg(pl.col("total_ns").sum()).rows()
        self.seconds = {variant: total / 1e9 / self.repetitions for variant, total in totals}
        waits = all_waits.filter(variant=_BASE)
        by_path = waits.group_by("path").agg(pl.col("total_ns").sum(), pl.col("count").sum())
        self.stacks = by_path.sort("total_ns", descending=True).to_dicts()

    @property
    def handler(self) -> dict[str, object] | None:
        """The stack under the idle handler's end, None where it was not seen."""
        return next((stack for stack in self.stacks if _is_of_handler(str(stack["path"]))), None)

    def microseconds(self, stack: Mapping[str, object]) -> float:
        """In all, of one repetition."""
        return float(str(stack["total_ns"])) / 1000 / self.repetitions

    @property
    def is_tie(self) -> bool:
        """Whether another takes longer that waits as often: each time for one grace period."""
        handler, longest = self.handler, self.stacks[0]
        return handler is not None and handler is not longest and handler["count"] == longest["count"]

    def claim(self) -> Claim:
        """Whether the published stack is the one that waits longest."""
        handler = self.handler
        is_longest = handler is not None and handler is self.stacks[0]
        return Claim(
            f"The longest wait is {_WAIT} < {_HANDLER[0]} < …_cpuidle_cpu_dead",
            None if self.is_tie else is_longest,
            "; ".join(
                f"{_shown(str(stack['path']))}: {self.microseconds(stack):,.0f} us"
                for stack in self.stacks[:4]
            ),
        )

    def notes(self) -> list[str]:
        """What differs in the names."""
        frames = str(self.handler["path"]).split(";") if self.handler else []
        notes = []
        if frames and _HANDLER[0] not in frames:
            notes.append(
                f"{_HANDLER[0]} is not in the call chains: the compiler inlined it into its caller, "
                f"{_HANDLER[1]}."
            )
        if self.handler and self.is_tie:
            longest, ours = self.microseconds(self.stacks[0]), self.microseconds(self.handler)
            notes.append(
                f"Another wait is as long ({longest / ours - 1:.1%} longer): in both, each CPU that goes "
                "offline waits for one normal grace period, and it is chance which is longer."
            )
        notes.append(
            "The virtual machine is a pseries; the published machine ran without a hypervisor (powernv). "
            "There the function that tells the idle driver that a CPU goes offline has another name, and "
            "does the same."
        )
        return notes


def _is_of_handler(path: str) -> bool:
    frames = set(path.split(";"))
    return bool(frames & set(_HANDLER)) and bool(frames & set(_CPU_DEAD))


def _shown(path: str) -> str:
    """The wait and who calls it, innermost first."""
    frames = path.split(";")
    return " < ".join(reversed(frames[frames.index(_WAIT) - 2 : frames.index(_WAIT) + 1]))


def _blocked(waits: _Waits, published: Published) -> PublishedFigure:
    row = f"{_WAIT} < {_HANDLER[0]} < {_CPU_DEAD[1]}"
    theirs = published.value("blocked_time", row, "duration")
    handler = waits.handler
    if handler is None:
        ours = "not seen"
    else:
        times = int(str(handler["count"])) // waits.repetitions
        ours = f"{waits.microseconds(handler):,.0f} us VM time in {times} waits, {waits.cpus - 1} CPUs"
    return PublishedFigure(
        f"blocked in {_WAIT} under the idle handler's end, offline", f"{theirs:,.0f} us", ours
    )


def _all_blocked(waits: _Waits, published: Published) -> PublishedFigure:
    """All waits for grace periods, without what the emulator computes."""
    decrease = published.value("offline_127_cpus", _PUBLISHED_ROWS[_ALL], "decrease")
    before, after = (waits.seconds.get(name, 0.0) for name in (_BASE, _ALL))
    return PublishedFigure(
        f"offline: blocked in {_WAIT}, {_ALL}",
        f"not published; the whole takes {decrease:.1f} % less time",
        f"{after:.3f} s VM time instead of {before:.3f} s, {100 * (1 - after / before):.1f} % less",
    )


def _computed(
    state: str, scenarios: dict[str, Scenario], study: Study, published: Published
) -> PublishedFigure:
    """By how much the emulator's time is wrong: what is left where hardly anything is waited for."""
    (cpus,) = study.spec.cpus
    ours = 1000 * fmean(scenarios[_ALL].seconds) / (cpus - 1)
    theirs = 1000 * published.value(f"{state}_127_cpus", _PUBLISHED_ROWS[_ALL], "avg") / 127
    return PublishedFigure(
        f"{state}: {_ALL}, for each CPU: the distortion of the VM's time",
        f"{theirs:.1f} ms",
        f"{ours:.1f} ms VM time: {ours / theirs:.1f} times too long",
    )


def _left(measured: dict[str, dict[str, Scenario]], waits: _Waits) -> str:
    """What the time consists of that expediting leaves."""
    seconds, waited = fmean(measured["offline"][_ALL].seconds), waits.seconds.get(_ALL, 0.0)
    return (
        f"offline: of the {seconds:.2f} s that are left with all grace periods expedited, {waited:.2f} s are "
        "waits for them; the rest is computation, in an emulator's time."
    )


def _simulated(published: Published) -> list[PublishedFigure]:
    """All of it, on a simulated machine."""
    return [
        PublishedFigure(
            f"offline: {name}, 127 CPUs, simulated",
            f"{published.value('offline_127_cpus', _PUBLISHED_ROWS[name], 'avg'):.3f} s",
            f"predicted {total(values, cpus=128)} s",
        )
        for name, values in ((_BASE, {}), (_ALL, {"wait": "expedited"}))
    ]


_NOTES = (
    "A wait for a grace period takes real time here too, as RCU's timers tick as they do on a processor. "
    "Computing in between takes an emulator's time, which is longer, and grows with the number of CPUs: so "
    "the time that is left with expedited grace periods is longer than on a real machine, by the distortion "
    "above. POWER guests have no clock that counts instructions.",
    "In the emulator, spinning CPUs yield, and contended memory costs nothing.",
)


def _build(name: str, *patches: str) -> Build:
    return Build(f"hotplug-rcu-{name}", "debian/6.1", "ppc64le", patches, ("kernel.config",))


CASE = Case(
    name="hotplug-rcu",
    description="CPU hotplug waits for grace periods: what expediting them, or not waiting at all, saves",
    studies=("times", "blocked"),
    quick=dict.fromkeys(("times", "blocked"), Quick(cpus=[16], repetitions=4)),
    report=report,
    builds=(
        _build("baseline"),
        _build("removed", "idle-without-wait.patch"),
        _build("expedited", "idle-with-expedited-wait.patch"),
    ),
)
