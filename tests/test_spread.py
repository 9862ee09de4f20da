"""Whether a count differs by more than between boots: by chance it does not, by program it does."""

import doctest
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bigiron.analysis.comparison import cost
from bigiron.analysis.lines import line_verdicts, matching
from bigiron.analysis.lines.matching import Half, MatchedLine, PerBoot, SharedLine
from bigiron.analysis.probes import instructions
from bigiron.analysis.statistics import spread, student
from bigiron.analysis.statistics.spread import Boots, compare
from bigiron.analysis.statistics.verdict import Verdict
from bigiron.util.lazy import polars as pl


@pytest.mark.parametrize("module", [cost, spread, student, instructions, line_verdicts])
def test_the_examples(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("boots", [2, 3, 4])
def test_what_varies_by_chance_is_seldom_called_changed(boots: int) -> None:
    chance = np.random.default_rng(1)
    changed = sum(
        compare(*(Boots(tuple(chance.normal(5.0, 1.0, boots))) for _ in range(2)), 0.05) is Verdict.changed
        for _ in range(5000)
    )
    assert changed <= 5000 * spread.CHANCE * 3


@pytest.mark.parametrize("boots", [2, 4])
def test_a_change_far_beyond_the_spread_is_found(boots: int) -> None:
    chance = np.random.default_rng(2)
    base = Boots(tuple(chance.normal(5.0, 0.01, boots)))
    assert compare(base, Boots(tuple(chance.normal(7.0, 0.01, boots))), 0.05) is Verdict.changed


def test_a_count_with_two_values_takes_four_boots_to_be_recognised() -> None:
    assert compare(Boots((0.0, 0.0)), Boots((7.0, 7.0)), 0.05) is Verdict.undecided
    assert compare(Boots((0.0,) * 4), Boots((7.0,) * 4), 0.05) is Verdict.changed
    assert compare(Boots((0.0, 0.0, 7.0, 0.0)), Boots((7.0,) * 4), 0.05) is Verdict.undecided


def test_even_counts_are_whole_numbers_of_all_cpus() -> None:
    rows = [("a", cpu, 3000) for cpu in range(4)] + [("b", cpu, 3000) for cpu in range(3)]
    rows += [("c", cpu, 544) for cpu in range(4)] + [("d", cpu, 3000 + 100 * cpu) for cpu in range(4)]
    table = pl.DataFrame(rows, schema=["line", "cpu", "accesses"], orient="row")
    found = spread.even(table, ["line"], "accesses", 4, 2000)
    assert dict(found.iter_rows()) == {"a": True, "b": False, "c": False, "d": False}


def test_what_chance_adds_to_whole_numbers_is_uneven() -> None:
    """Four CPUs with 500 operations each."""
    rows = [("alike", cpu, 3000) for cpu in range(4)] + [("more", cpu, 12000 + 50 * cpu) for cpu in range(4)]
    rows += [("much", cpu, 3000 + 200 * cpu) for cpu in range(4)] + [("few", cpu, 12000) for cpu in range(3)]
    rows += [("broken", cpu, 12033 + 30 * cpu) for cpu in range(4)]
    table = pl.DataFrame(rows, schema=["function", "cpu", "instructions"], orient="row")
    found = spread.uneven(table, "function", "instructions", 4, 2000)
    assert {name: round(rest, 6) for name, rest in found.items()} == {
        "alike": 0.0,
        "more": 0.15,
        "much": math.inf,
        "few": math.inf,
        "broken": math.inf,
    }


def line(
    object: str, boots: Sequence[PerBoot], even: bool = False, movable: bool = False, by: str = "f"
) -> SharedLine:
    accesses = sum(one.accesses for one in boots) / len(boots)
    writes = sum(one.writes for one in boots) / len(boots)
    return SharedLine(
        *(object, {by: accesses}, writes, accesses, 8, 8, False),
        repetitions=tuple(boots),
        even=even,
        movable=movable,
    )


def judged(base: Sequence[SharedLine], new: Sequence[SharedLine]) -> list[MatchedLine]:
    rows = matching.match({"base": list(base), "new": list(new)})
    of = {"base": base or new, "new": new or base}
    boots = {name: len(lines[0].repetitions) for name, lines in of.items()}
    line_verdicts.judge(rows, "base", ["new"], boots, 8)
    return rows


def test_where_an_object_lies_in_its_slab_is_no_difference() -> None:
    beside = [PerBoot(2.0, 27.0, 1.0, 25.0)]
    apart = [PerBoot(1.0, 2.0)]
    (row,) = judged([line("struct cred.usage", beside, movable=True)], [line("struct cred.usage", apart)])
    assert row.verdict is Verdict.unchanged and row.differs_by_layout and row.is_layout


def test_one_write_in_thousands_of_operations_makes_no_new_line() -> None:
    """All CPUs read it: whether a write is recorded is chance, and the other kernel may read it as often."""
    seldom = line("jiffies", [PerBoot(0.00025, 1.0)], even=True)
    assert judged([], [seldom])[0].verdict is Verdict.unchanged
    assert judged([seldom], [])[0].verdict is Verdict.unchanged
    often = [PerBoot(0.02, 1.0)]
    assert judged([], [line("jiffies", often, even=True)])[0].verdict is Verdict.undecided
    assert judged([], [line("jiffies", often * 4, even=True)])[0].verdict is Verdict.changed
    in_one_boot = line("jiffies", [PerBoot(0.0, 0.0), PerBoot(0.00025, 1.0)])
    in_all = line("jiffies", [PerBoot(0.00025, 1.0)] * 2)
    assert judged([in_one_boot], [in_all])[0].verdict is Verdict.unchanged
    assert judged([seldom], [line("jiffies", [PerBoot(0.00025, 2.0)], even=True)])[0].differs


def test_what_disturbs_half_a_pair_are_writes_of_the_other_half() -> None:
    pair = replace(line("struct a.b", [PerBoot(0.0, 4.0)], even=True), halves=(Half("struct a.b", ()),) * 2)
    (row,) = judged([], [pair])
    assert row.verdict is Verdict.changed and row.disturbed("new", 8) == 4.0


def test_lines_of_one_kind_are_judged_by_their_sum() -> None:
    base = [line("struct page (slab)", [PerBoot(n, n)] * 2, by=by) for by, n in (("f", 1.0), ("g", 3.0))]
    new = [line("struct page (slab)", [PerBoot(n, n)] * 2, by=by) for by, n in (("f", 3.0), ("g", 1.0))]
    assert [row.verdict for row in judged(base, new)] == [Verdict.unchanged] * 2


def test_which_buckets_of_a_hash_table_are_accessed_is_chance() -> None:
    """Where a dentry lies decides its bucket: in each boot of a kernel alike, in the next one otherwise."""

    def buckets(*numbers: int, accesses: float = 0.1) -> list[SharedLine]:
        of_each = [PerBoot(accesses, accesses)] * 4
        return [line(f"in_lookup_hashtable[{number}]", of_each, even=True) for number in numbers]

    moved = judged(buckets(68, 116), buckets(240, 320))
    assert [row.verdict for row in moved] == [Verdict.unchanged] * 4
    more = judged(buckets(68, 116), buckets(240, 320, accesses=0.3))
    assert Verdict.changed in {row.verdict for row in more}


def test_a_line_that_is_the_only_one_of_its_name_is_itself() -> None:
    base = [line("rq_lock", [PerBoot(6.0, 6.0)], even=True), line("rq_other", [PerBoot(2.0, 2.0)], even=True)]
    new = [line("rq_lock", [PerBoot(2.0, 2.0)], even=True), line("rq_other", [PerBoot(6.0, 6.0)], even=True)]
    assert [row.verdict for row in judged(base, new)] == [Verdict.changed] * 2


def test_one_boot_of_what_is_uneven_does_not_tell() -> None:
    (row,) = judged([line("vm_lock", [PerBoot(6.0, 6.0)])], [line("vm_lock", [PerBoot(2.0, 2.0)])])
    assert row.is_undecided and not row.differs


def test_functions_have_one_name_in_all_kernels() -> None:
    assert instructions.same_function("__kmalloc_noprof") == "__kmalloc"
    assert instructions.same_function("link_path_walk.part.0.constprop.0") == "link_path_walk"
