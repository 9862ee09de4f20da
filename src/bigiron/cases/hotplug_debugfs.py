"""hotplug-debugfs: smt=off on 1920 CPUs takes twice as long since the scheduler's domains are in debugfs.

Since 3b87f136f8fc (v5.13) every change of the scheduler's domains removes and recreates their files in
debugfs, one folder per CPU. Since v6.3 they are made only when a program opens them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bigiron.analysis.statistics.growth import Growth, fit
from bigiron.cases.case import Build, Case, CaseReport, Claim, Published, PublishedFigure, Quick
from bigiron.cases.hotplug_totals import total
from bigiron.study.store import Study
from bigiron.util.lazy import polars as pl

# Kernel functions.
REBUILD = "partition_sched_domains_locked"
DOMAINS = "build_sched_domains"
DEBUGFS = "update_sched_domain_debugfs"
SYSCTL = ("unregister_sched_domain_sysctl", "register_sched_domain_sysctl")
_BIG, _SMALL = 1920, 240  # CPUs of the published machines


@dataclass(frozen=True)
class RebuildCost:
    """What a part of the rebuild costs when one CPU goes: instructions and VM time, by the number of CPUs."""

    instructions: dict[int, float]
    seconds: dict[int, float]

    @property
    def growth(self) -> Growth:
        """Of the instructions."""
        return fit(self.instructions)

    def at(self, cpus: int) -> float:
        """Predicted instructions."""
        return self.growth.predict(cpus).value


def _part(study: Study, variant: str, functions: tuple[str, ...]) -> RebuildCost:
    """Functions with what they call: the outermost of them on each path."""
    called = inside(study.tables("instructions").filter(variant=variant), functions)
    calls = study.tables("functions").filter(pl.col("function").is_in(functions), variant=variant)
    operations = study.spec.cpus_to_cycle
    return RebuildCost(
        _by_cpus(study, called.group_by("cpus").agg(pl.col("instructions").sum() / operations)),
        _by_cpus(study, calls.group_by("cpus").agg(pl.col("nanoseconds").sum() / 1e9 / operations)),
    )


def inside(work: pl.DataFrame, functions: Sequence[str]) -> pl.DataFrame:
    """Of a table of `instructions`, what these functions execute and all that they call."""
    chain = pl.concat_list(pl.col("path").str.split(";"), pl.col("function"))
    return work.filter(chain.list.set_intersection(list(functions)).list.len() > 0)


def _by_cpus(study: Study, sums: pl.DataFrame) -> dict[int, float]:
    found = dict(sums.iter_rows())
    return {cpus: float(found.get(cpus, 0.0)) for cpus in study.spec.cpus}


@dataclass(frozen=True)
class Parts:
    """What the study measured of each part."""

    most: int  # CPUs
    whole_before: RebuildCost  # the rebuild with sysctl's tables
    whole_after: RebuildCost  # with debugfs's files
    files_before: RebuildCost
    files_after: RebuildCost
    on_demand: RebuildCost
    verbose: RebuildCost
    patched: RebuildCost | None  # 6.1 with files on demand


def _parts(study: Study) -> Parts:
    sysctl, debugfs, on_demand, verbose, *more = (variant.name for variant in study.spec.variant)
    return Parts(
        patched=_part(study, more[0], (DEBUGFS,)) if more else None,
        most=max(study.spec.cpus),
        # The last thing that the rebuild does is a tail call, so what is below it is not below the rebuild.
        whole_before=_part(study, sysctl, (REBUILD, DOMAINS, *SYSCTL)),
        whole_after=_part(study, debugfs, (REBUILD, DOMAINS, DEBUGFS)),
        files_before=_part(study, sysctl, SYSCTL),
        files_after=_part(study, debugfs, (DEBUGFS,)),
        on_demand=_part(study, on_demand, (DEBUGFS,)),
        verbose=_part(study, verbose, (DEBUGFS,)),
    )


def report(studies: Mapping[str, Study], published: Published) -> CaseReport:
    """Instructions, which do not depend on the emulator, beside the published seconds."""
    study = studies["growth"]
    parts = _parts(study)
    return CaseReport(
        [
            *_costs(parts, published),
            *_ratios(study, parts, published),
            *_times(parts, published),
            *_totals(published),
        ],
        _claims(study, parts, published),
        _notes(),
    )


def _costs(parts: Parts, published: Published) -> list[PublishedFigure]:
    def seconds(function: str, column: str) -> float:
        return published.value("offline_one_of_1920_cpus", function, column)

    tables = seconds("unregister_sysctl_table", "sysctl") + seconds(SYSCTL[1], "sysctl")
    return [
        PublishedFigure(
            f"{DEBUGFS}, one CPU of {_BIG} goes offline",
            f"{seconds(DEBUGFS, 'debugfs'):.2f} s",
            _in_words(parts.files_after),
        ),
        PublishedFigure(
            f"the sysctl tables instead ({', '.join(SYSCTL)})",
            f"{tables:.4f} s",
            _in_words(parts.files_before),
        ),
        PublishedFigure(
            f"{REBUILD} with debugfs",
            f"{seconds(REBUILD, 'debugfs'):.2f} s",
            _in_words(parts.whole_after),
        ),
        PublishedFigure(
            f"{REBUILD} with sysctl",
            f"{seconds(REBUILD, 'sysctl'):.2f} s",
            _in_words(parts.whole_before),
        ),
    ]


def _ratios(study: Study, parts: Parts, published: Published) -> list[PublishedFigure]:
    sysctl, debugfs = (variant.name for variant in study.spec.variant[:2])
    most, after, whole = parts.most, parts.files_after, parts.whole_after
    one, off = "offline_one_of_1920_cpus", "smt_off_1920_cpus"
    share = published.value(one, DEBUGFS, "debugfs") / published.value(one, REBUILD, "debugfs")
    slower = published.value(one, REBUILD, "debugfs") / published.value(one, REBUILD, "sysctl")
    real = published.value(off, "v5.14", "real") / published.value(off, "v5.11", "real")
    return [
        PublishedFigure(
            f"share of {DEBUGFS} in {REBUILD}",
            f"{share:.0%} of the time at {_BIG}",
            f"{after.instructions[most] / whole.instructions[most]:.0%} of the instructions at {most}; "
            f"{_share_of_time(study, debugfs, most)} of the VM time",
        ),
        PublishedFigure(
            f"debugfs against sysctl, files only, {_SMALL} CPUs",
            f"{_published_ratio(published):.1f} times",
            _ratio(after, parts.files_before, _SMALL, most),
        ),
        PublishedFigure(
            f"{REBUILD}, debugfs against sysctl",
            f"{slower:.2f} times at {_BIG}",
            _ratio(whole, parts.whole_before, _BIG, most),
        ),
        PublishedFigure(
            f"a CPU goes, debugfs against sysctl: real time (smt=off, {_BIG} CPUs)",
            f"{real:.2f} times",
            f"{_wall(study, debugfs, most) / _wall(study, sysctl, most):.2f} times the VM time at {most}",
        ),
    ]


def _times(parts: Parts, published: Published) -> list[PublishedFigure]:
    """Real seconds: a published time on fewer CPUs, and how the instructions grow from there."""
    anchor = published.value("build_domains_240_cpus", DEBUGFS, "debugfs") / 1e6
    growth = parts.files_after.growth
    if not growth.law:
        return []

    def seed_range(numbers: Sequence[int]) -> str:
        seconds = growth.sum_relative(numbers, _SMALL).changed(lambda times: anchor * times)
        return (
            f"predicted {seconds.written('{:,.2f}'.format, ' s')}: "
            f"the published {anchor * 1e3:.1f} ms at {_SMALL}, and the growth of its instructions"
        )

    off = "smt_off_1920_cpus"
    added = published.value(off, "v5.14", "real") - published.value(off, "v5.11", "real")
    one = published.value("offline_one_of_1920_cpus", DEBUGFS, "debugfs")
    return [
        PublishedFigure(
            f"{DEBUGFS}, one CPU of {_BIG} goes offline, in seconds", f"{one:.2f} s", seed_range([_BIG])
        ),
        PublishedFigure(
            f"what it adds to smt=off, {_BIG - _SMALL} CPUs one after the other",
            f"{added:,.0f} s (v5.14 against v5.11)",
            seed_range(range(_SMALL, _BIG)),
        ),
    ]


def _totals(published: Published) -> list[PublishedFigure]:
    """All of smt=off, on a simulated machine."""
    runs = (("sysctl", "v5.11"), ("debugfs", "v5.14"))
    return [
        PublishedFigure(
            f"smt=off, {_BIG} CPUs, with {files}",
            f"{published.value('smt_off_1920_cpus', kernel, 'real'):,.0f} s ({kernel})",
            f"predicted {total({'files': files}, cpus=_BIG, stay=_SMALL)} s: simulated, with the "
            "published times of single functions for what the files cost",
        )
        for files, kernel in runs
    ]


def _patched_claim(parts: Parts) -> list[Claim]:
    if not parts.patched:
        return []
    patched, before = (part.instructions[parts.most] for part in (parts.patched, parts.files_after))
    return [
        Claim(
            "This case's own patch cures 6.1 in the same way",
            patched < 0.01 * before,
            f"{patched:,.0f} instructions instead of {before:,.0f}",
        )
    ]


def _claims(study: Study, parts: Parts, published: Published) -> list[Claim]:
    after, most = parts.files_after, parts.most
    absent = DEBUGFS in _absent(study, study.spec.variant[0].name)
    return [
        Claim(
            "Since v5.13 the files are rebuilt for every CPU that goes offline",
            after.instructions[most] > 0 and absent,
            f"{DEBUGFS} executes {after.instructions[most]:,.0f} instructions for each CPU that goes "
            f"offline, on 6.1 with {most} CPUs; 5.10 has no such function",
        ),
        Claim(
            "This work grows with the number of CPUs, O(N) files",
            after.growth.law is not None and after.growth.law.value in ("N", "N log N"),
            _law(after),
        ),
        Claim(
            "Making the files on demand (v6.3) cures it, until a program opens them",
            parts.on_demand.instructions[most] < 0.01 * parts.verbose.instructions[most],
            f"{parts.on_demand.instructions[most]:,.0f} instructions on 6.12, "
            f"{parts.verbose.instructions[most]:,.0f} with /sys/kernel/debug/sched/verbose set",
        ),
        *_patched_claim(parts),
        Claim(
            f"debugfs is 1600 times slower than sysctl at {_SMALL} CPUs",
            False,
            f"the mail's own table gives {_published_ratio(published):.1f} times",
        ),
    ]


def _notes() -> list[str]:
    return [
        "Instruction counts are exact, and the same on any machine. VM times are an emulator's: contended "
        "memory costs nothing, spinning is cheap, and a wait for a grace period takes real time.",
        "A prediction holds as long as its law does; its interval covers the predictions of all laws.",
        "Seconds are fitted to one published time (build_domains_240_cpus), and predicted for the others.",
        f"The published machine had {_BIG} POWER CPUs in 17 sockets, and so more levels of scheduling "
        "domains than this one, where all CPUs are in one socket.",
    ]


def _in_words(part: RebuildCost) -> str:
    most = max(part.instructions)
    measured = (
        f"{part.instructions[most]:,.0f} instructions at {most}, {part.seconds[most] * 1e3:.2f} ms VM time"
    )
    if not part.growth.law:
        return f"{measured}; {part.growth.refusal}"
    prediction = part.growth.predict(_BIG).written("{:,.0f}".format, " instructions")
    return f"{measured}; {_law(part)}; predicted at {_BIG}: {prediction}"


def _law(part: RebuildCost) -> str:
    growth = part.growth
    if not growth.law:
        return f"no law: {growth.refusal}"
    return f"its instructions grow as {growth.law.value}, {growth.sure:.0%} sure"


def _ratio(one: RebuildCost, other: RebuildCost, cpus: int, most: int) -> str:
    measured = f"{one.instructions[most] / other.instructions[most]:.1f} times the instructions at {most}"
    if not (one.growth.law and other.growth.law):
        return measured
    top, bottom = one.growth.predict(cpus), other.growth.predict(cpus)
    low = top.low / bottom.high if bottom.high else 0.0
    high = f"{top.high / bottom.low:.1f}" if bottom.low else "any"
    return f"{measured}; predicted at {cpus}: {top.value / bottom.value:.1f} times ({low:.1f} to {high})"


def _published_ratio(published: Published) -> float:
    table = "build_domains_240_cpus"
    debugfs = published.value(table, DEBUGFS, "debugfs")
    return debugfs / published.value(table, "register_sched_domain_sysctl", "sysctl")


def _share_of_time(study: Study, variant: str, cpus: int) -> str:
    files, whole = (_part(study, variant, (function,)).seconds[cpus] for function in (DEBUGFS, REBUILD))
    return f"{files / whole:.0%}" if whole else "no share"


def _wall(study: Study, variant: str, cpus: int) -> float:
    """Nanoseconds in the VM that one CPU's going takes."""
    took: list[int] = study.tables("operations").filter(variant=variant, cpus=cpus)["nanoseconds"].to_list()
    return sum(took) / len(took)


def _absent(study: Study, variant: str) -> list[str]:
    return [
        function
        for record in study.records()
        if record.variant == variant
        for function in record.facts["functions"]["absent"]
    ]


CASE = Case(
    name="hotplug-debugfs",
    description="smt=off takes twice as long since the scheduler's domains are shown in debugfs (v5.13)",
    studies=("growth",),
    quick={"growth": Quick(cpus=[4, 6, 8], without=("6.1, patched",))},
    report=report,
    builds=(Build("hotplug-debugfs-patched", "debian/6.1", "x86_64", ("domains-on-demand.patch",)),),
)
