"""rcu-512: Linux 2.6.5's RCU takes half of every CPU's time on a machine with 512 of them, simulated.

Grace periods are detected with one mask under one lock, which every CPU looks at in every tick. Looking less
often, `(jiffies & mask) == (cpu & mask)`, cures it at the price of longer grace periods; a combining tree
cures it for good.
"""

from __future__ import annotations

from collections.abc import Mapping

from bigiron.analysis.seed_range import SeedRange, number, seed_range
from bigiron.cases.case import Case, Claim, Figure, Published, Quick, Report
from bigiron.lazy import polars as pl
from bigiron.study.store import Study

MASKS = (0, 1, 3, 7, 15, 31, 63, 127, 511)
_TABLE = "mask_sweep_512_cpus"
_FITTED = {("idle", 511): "tick", ("idle", 0): "background"}
"""The two published figures to which a parameter was fitted, and which."""

_PAYS = 1.2
"""A level more pays if without it the CPUs lose this many times as much."""


def report(studies: Mapping[str, Study], published: Published) -> Report:
    """The published table beside the simulated one, then trees of all shapes."""
    rows = {name: study.tables("simulation") for name, study in studies.items()}
    lost = {
        (load, mask): seed_range(rows[load], "lost", f"mask={mask}")
        for load in ("idle", "ls")
        for mask in MASKS
    }
    return Report(
        [
            *(_lost(load, mask, lost[load, mask], published) for load in ("idle", "ls") for mask in MASKS),
            *(_price(mask, rows["ls"]) for mask in MASKS),
            *(_tree(name, rows["tree"]) for name in _shapes(rows["tree"])),
        ],
        [_cure(lost, published), _expectation(lost, published), *_levels(rows["tree"])],
        [_errors(lost, published), *_NOTES],
    )


def _lost(load: str, mask: int, ours: SeedRange, published: Published) -> Figure:
    theirs = published.value(_TABLE, str(mask), load)
    fitted = _FITTED.get((load, mask))
    kind = f"fitted to this ({fitted})" if fitted else "predicted"
    return Figure(
        f"CPU time that RCU and the tick take, {load}, mask {mask}",
        f"{theirs:g} %",
        f"{ours} %, simulated, {kind}; {ours.mean / theirs:.2f} times the published",
    )


def _price(mask: int, rows: pl.DataFrame) -> Figure:
    period, callback = (seed_range(rows, name, f"mask={mask}") for name in ("grace period", "callback"))
    waits = f"; a callback waits {callback}" if callback.mean else ""
    return Figure(
        f"what a grace period takes, mask {mask}",
        "not published",
        f"{period} ms, simulated, predicted{waits}" if period.mean else "longer than was simulated",
    )


def _shapes(rows: pl.DataFrame) -> list[str]:
    return rows["variant"].unique(maintain_order=True).to_list()


def _tree(name: str, rows: pl.DataFrame) -> Figure:
    lost, taken = (seed_range(rows, figure, name) for figure in ("lost", "global lock"))
    return Figure(
        f"a tree with {name}",
        "not published",
        f"the global lock is taken {taken} times for a grace period, and {lost} % of CPU time lost; "
        "simulated, predicted",
    )


def _cure(lost: Mapping[tuple[str, int], SeedRange], published: Published) -> Claim:
    three, seven = lost["ls", 3], lost["ls", 7]
    theirs = published.value(_TABLE, "3", "ls"), published.value(_TABLE, "7", "ls")
    return Claim(
        "With ls running, a mask of 3 is not enough and one of 7 is: there is a cliff between them",
        three.mean > 1 > seven.mean,
        f"{three} % with 3 and {seven} % with 7; published {theirs[0]:g} % and {theirs[1]:g} %",
    )


def _expectation(lost: Mapping[tuple[str, int], SeedRange], published: Published) -> Claim:
    wanted = published.value("expectation", "user share of an idle machine's CPU-bound thread", "share")
    enough = [mask for mask in MASKS if 100 - lost["ls", mask].mean >= wanted]
    return Claim(
        f"A CPU-bound thread should have {wanted:g} % of its CPU",
        bool(enough) and 100 - lost["ls", 0].mean < wanted,
        f"with ls running it has that with the masks {', '.join(map(str, enough))}, and "
        f"{number(100 - lost['ls', 0].mean)} % with mask 0",
    )


def _levels(rows: pl.DataFrame) -> list[Claim]:
    def times(leaf: int) -> float:
        two, three = (seed_range(rows, "lost", f"levels={levels} leaf={leaf}").mean for levels in (2, 3))
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


def _errors(lost: Mapping[tuple[str, int], SeedRange], published: Published) -> str:
    missed = {
        key: ours.mean - published.value(_TABLE, str(key[1]), key[0])
        for key, ours in lost.items()
        if key not in _FITTED
    }
    worst = max(missed, key=lambda key: abs(missed[key]))
    near = sum(abs(by) <= 0.1 for by in missed.values())
    return (
        f"Of 18 published shares 2 were fitted; of the other {len(missed)}, {near} are within 0.1 points, "
        f"and the worst, {worst[0]} with mask {worst[1]}, is off by {missed[worst]:+.1f} points."
    )


_NOTES = [
    "Every figure here is simulated: the mean of all seeds, and the least and the most of any of them.",
    "The latencies are those of the machine altix-512 (`bigiron machine show altix-512`), none fitted.",
    "How the mask was applied is not published: it is assumed to spread the CPUs over the ticks.",
    "A leaf of 2 CPUs is a node of this machine; leaves of 4, 8 and 16 take CPUs of neighbouring nodes.",
]

CASE = Case(
    name="rcu-512",
    description="RCU of Linux 2.6.5 takes half of the time of 512 CPUs: the jiffies mask, trees; simulated",
    studies=("ls", "idle", "tree"),
    quick=dict.fromkeys(("ls", "idle", "tree"), Quick(cpus=[512], repetitions=1, shorter=4)),
    report=report,
)
