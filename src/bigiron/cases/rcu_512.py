"""rcu-512: Linux 2.6.5's RCU takes half of every CPU's time on a machine with 512 of them, simulated.

Grace periods are detected with one mask under one lock, which every CPU looks at in every tick. Looking less
often, `(jiffies & mask) == (cpu & mask)`, cures it at the price of longer grace periods; a combining tree
cures it for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bigiron.analysis.statistics.estimate import Estimate
from bigiron.analysis.statistics.seed_range import of_machines, repetitions, seed_range
from bigiron.cases.case import Case, CaseReport, Claim, Published, PublishedFigure, Quick
from bigiron.simulator import machine_files
from bigiron.study.store import Study
from bigiron.util.lazy import polars as pl
from bigiron.util.numbers import three_digits

MASKS = (0, 1, 3, 7, 15, 31, 63, 127, 511)
_TABLE = "mask_sweep_512_cpus"
_FITTED = {("idle", 511): "tick", ("idle", 0): "background"}
"""The two published figures to which a parameter was fitted, and which."""

_MACHINE = "altix-512"
_FARTHEST = 0, 511
"""Two CPUs at the ends of the machine."""
_LOST = 1.0
"""Percent of CPU time, above which a mask is not enough: a fraction of it is lost where one is."""

_PAYS = 1.2
"""A level more pays if without it the CPUs lose this many times as much."""


def report(studies: Mapping[str, Study], published: Published) -> CaseReport:
    """The published table beside the simulated one, then trees of all shapes."""
    rows = {name: study.tables("simulation") for name, study in studies.items()}
    idle = {mask: seed_range(rows["idle"], "lost", f"mask={mask}") for mask in MASKS}
    ls = {mask: repetitions(rows["ls"], "lost", f"mask={mask}") for mask in MASKS}
    return CaseReport(
        [
            *(_lost("idle", mask, idle[mask], published) for mask in MASKS),
            *(_lost("ls", mask, of_machines(ls[mask]), published) for mask in MASKS),
            *(_price(mask, rows["ls"]) for mask in MASKS),
            *(_tree(name, rows["tree"]) for name in _shapes(rows["tree"])),
        ],
        [cure(ls, published), _expectation(ls, published), *_levels(rows["tree"])],
        [_errors(idle, ls, published), *_NOTES],
    )


def _lost(load: str, mask: int, ours: Estimate, published: Published) -> PublishedFigure:
    theirs = published.value(_TABLE, str(mask), load)
    fitted = _FITTED.get((load, mask))
    kind = f"fitted to this ({fitted})" if fitted else "predicted"
    return PublishedFigure(
        f"CPU time that RCU and the tick take, {load}, mask {mask}",
        f"{theirs:g} %",
        f"{ours} %, simulated, {kind}; {ours.value / theirs:.2f} times the published",
    )


def _price(mask: int, rows: pl.DataFrame) -> PublishedFigure:
    period, callback = (
        of_machines(repetitions(rows, name, f"mask={mask}")) for name in ("grace period", "callback")
    )
    waits = f"; a callback waits {callback}" if callback.value else ""
    return PublishedFigure(
        f"what a grace period takes, mask {mask}",
        "not published",
        f"{period} ms, simulated, predicted{waits}" if period.value else "longer than was simulated",
    )


def _shapes(rows: pl.DataFrame) -> list[str]:
    return rows["variant"].unique(maintain_order=True).to_list()


def _tree(name: str, rows: pl.DataFrame) -> PublishedFigure:
    lost, taken = (seed_range(rows, figure, name) for figure in ("lost", "global lock"))
    return PublishedFigure(
        f"a tree with {name}",
        "not published",
        f"the global lock is taken {taken} times for a grace period, and {lost} % of CPU time lost; "
        "simulated, predicted",
    )


def cure(ls: Mapping[int, Sequence[float]], published: Published) -> Claim:
    """Whether there is the published cliff.

    `ls`: by mask, what ls makes the CPUs lose, in percent: on the machine itself, then on sampled machines.
    """
    theirs = ", ".join(f"{published.value(_TABLE, str(mask), 'ls'):g} % with {mask}" for mask in (3, 7))
    (three, *of_three), (seven, *of_seven) = ls[3], ls[7]
    samples = list(zip(_far_ns(len(of_three)), of_three, of_seven, strict=True))
    cliff = [ns for ns, with_three, with_seven in samples if with_three > _LOST >= with_seven]
    agrees = three > _LOST >= seven
    return Claim(
        "With ls running, a mask of 3 is not enough and one of 7 is: there is a cliff between them",
        None if cliff and not agrees else agrees,
        f"{of_machines(ls[3])} % with 3 and {of_machines(ls[7])} % with 7; published {theirs}. "
        f"{_where(samples, cliff)}",
    )


def _where(samples: Sequence[tuple[float, float, float]], cliff: Sequence[float]) -> str:
    """On which of the sampled machines there is a cliff: what a line takes there, and what 3 and 7 lose."""
    itself = machine_files.load(_MACHINE).transfer_ns(*_FARTHEST)
    if not cliff:
        return f"None of the {len(samples)} sampled machines has it"
    slow = sum(ns >= min(cliff) for ns, _three, _seven in samples)
    more = sum(seven > _LOST for _ns, _three, seven in samples)
    return (
        f"{len(cliff)} of {len(samples)} sampled machines have it: {len(cliff)} of the {slow} where a "
        f"cache line takes {three_digits(min(cliff))} ns or more from the farthest CPU. The "
        f"range was {three_digits(min(samples)[0])} to {three_digits(max(samples)[0])} ns; the machine's "
        f"own figure, an estimate, is {three_digits(itself)}. On {more or 'none'} of them more than "
        f"{_LOST:g} % is lost with 7"
    )


def _far_ns(samples: int) -> list[float]:
    """What a line takes between the farthest CPUs of each machine drawn."""
    return [machine_files.sampled(_MACHINE, nr + 2).transfer_ns(*_FARTHEST) for nr in range(samples)]


def _expectation(ls: Mapping[int, Sequence[float]], published: Published) -> Claim:
    wanted = published.value("expectation", "user share of an idle machine's CPU-bound thread", "share")
    enough = [mask for mask in MASKS if 100 - ls[mask][0] >= wanted]
    return Claim(
        f"A CPU-bound thread should have {wanted:g} % of its CPU",
        bool(enough) and 100 - ls[0][0] < wanted,
        f"with ls running it has that with the masks {', '.join(map(str, enough))}, and "
        f"{three_digits(100 - ls[0][0])} % with mask 0",
    )


def _levels(rows: pl.DataFrame) -> list[Claim]:
    def times(leaf: int) -> float:
        two, three = (seed_range(rows, "lost", f"levels={levels} leaf={leaf}").value for levels in (2, 3))
        return two / three

    def says(leaf: int) -> str:
        return (
            f"with {leaf} CPUs in a leaf, two levels lose {times(leaf):.2f} times as much as three "
            f"({seed_range(rows, 'lost', f'levels=2 leaf={leaf}')} %)"
        )

    rule = f"a level pays if without it {_PAYS} times as much is lost"
    return [
        Claim(
            "Two levels suffice where a node has 8 CPUs or more",
            all(times(leaf) < _PAYS for leaf in (8, 16)),
            f"{says(8)}; {says(16)}; {rule}",
        ),
        Claim("Where it has 4, a third level is needed", times(4) >= _PAYS, f"{says(4)}; {rule}"),
    ]


def _errors(idle: Mapping[int, Estimate], ls: Mapping[int, Sequence[float]], published: Published) -> str:
    ours = {("idle", mask): one.value for mask, one in idle.items()}
    ours |= {("ls", mask): one[0] for mask, one in ls.items()}
    missed = {
        (load, mask): value - published.value(_TABLE, str(mask), load)
        for (load, mask), value in ours.items()
        if (load, mask) not in _FITTED
    }
    worst = max(missed, key=lambda key: abs(missed[key]))
    near = [key for key, by in missed.items() if abs(by) <= 0.1]
    inside = [
        mask
        for mask, one in ls.items()
        if ("ls", mask) not in near and of_machines(one).holds(published.value(_TABLE, str(mask), "ls"))
    ]
    return (
        f"Of 18 published shares 2 were fitted; of the other {len(missed)}, {len(near)} are within 0.1 "
        f"points, {len(inside)} more are inside their interval, and the worst, {worst[0]} with mask "
        f"{worst[1]}, is off by {missed[worst]:+.1f} points."
    )


_NOTES = [
    "Every figure here is simulated. Those of idle machines and of trees are the mean of all seeds, with the "
    "lowest and the highest of any seed. Those with ls running are of the machine's own figures, with the "
    "range of 90 % of the machines that were sampled from its ranges.",
    "The latencies are those of the machine altix-512 (`bigiron machine show altix-512`), none fitted.",
    "How the mask was applied is not published: it is assumed to spread the CPUs over the ticks.",
    "A leaf of 2 CPUs is a node of this machine; leaves of 4, 8 and 16 take CPUs of neighbouring nodes.",
]

CASE = Case(
    name="rcu-512",
    description="RCU of Linux 2.6.5 takes half of the time of 512 CPUs: the jiffies mask, trees; simulated",
    studies=("ls", "idle", "tree"),
    quick={
        "ls": Quick(cpus=[512], repetitions=17),
        **dict.fromkeys(("idle", "tree"), Quick(cpus=[512], repetitions=1, shorter=4)),
    },
    report=report,
)
