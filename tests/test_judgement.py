"""What counts of two kernels say of a report: tables in, a judgement out."""

import doctest
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from test_compare import PAIR, count, counts
from test_instructions import counts as executed
from test_locks import SCHEMA as LOCKS
from test_locks import taken

from bigiron.analysis.comparison.model import Measurements, ProbedCell
from bigiron.analysis.layout.outcome import LayoutCounts
from bigiron.analysis.lines import per_cpu
from bigiron.analysis.probes import critical_sections
from bigiron.judge import judgement
from bigiron.judge.change import CountChange
from bigiron.judge.judgement import Judgement, ReportedClaim
from bigiron.patch import compared

TASKS, OPERATIONS = 4, 100  # of all tasks together


def of(probe: str, **variants: pl.DataFrame | list[pl.DataFrame]) -> Measurements:
    """Two boots of each kernel that count the same, or those that are given."""
    facts: dict[str, Any] = {
        "operations": [OPERATIONS],
        "lost_accesses": 0,
        "lost_acquisitions": 0,
        "unreleased": 0,
        "line_bytes": 64,
        "pair_bytes": 128,
    }
    cells = {
        name: [ProbedCell(table, facts) for table in (given if isinstance(given, list) else [given] * 2)]
        for name, given in variants.items()
    }
    return Measurements("s", "w", probe, "VM time", OPERATIONS, "kernel", "", {(TASKS, TASKS): cells})


def line(accesses: int, *, function: str = "f", object: str = "shared.count") -> list[dict[str, Any]]:
    """Every CPU writes one line so many times per operation."""
    return [count(cpu, function, 0, accesses * OPERATIONS // TASKS, object=object) for cpu in range(TASKS)]


def lock(times: int, held: int) -> list[dict[str, Any]]:
    """Every CPU takes one lock so many times per operation, and holds it so long."""
    each = OPERATIONS // TASKS
    return [taken(cpu, "shared.lock", "open;take", times * each, held * each) for cpu in range(TASKS)]


def work(instructions: int, function: str = "f", waiting: int = 0) -> pl.DataFrame:
    return executed(
        ("open", function, instructions * OPERATIONS),
        ("open;queued_spin_lock_slowpath", "g", waiting * OPERATIONS),
    )


def judged(
    base: tuple[list[dict[str, Any]], list[dict[str, Any]], pl.DataFrame],
    new: tuple[list[dict[str, Any]], list[dict[str, Any]], pl.DataFrame],
    *,
    regression: bool = True,
    tasks: int = 64,
) -> Judgement:
    """Of lines, locks and work of both."""
    return judgement.judge(
        of("conflicts", base=counts(*base[0]), new=counts(*new[0])),
        of("locks", base=pl.DataFrame(base[1], schema=LOCKS), new=pl.DataFrame(new[1], schema=LOCKS)),
        of("instructions", base=base[2], new=new[2]),
        "base",
        "new",
        ReportedClaim(regression, tasks),
    )


def test_tasks_whose_number_is_unknown_are_taken_to_be_one_per_cpu() -> None:
    kernels = {"base": counts(*line(2)), "new": counts(*line(4))}
    no_locks, same_work = pl.DataFrame(schema=LOCKS), work(5000)
    known = (
        of("conflicts", **kernels),
        of("locks", base=no_locks, new=no_locks),
        of("instructions", base=same_work, new=same_work),
    )
    unknown = (replace(one, points={(TASKS, None): one.points[TASKS, TASKS]}) for one in known)
    found = [judgement.judge(*three, "base", "new", ReportedClaim(True, None)) for three in (known, unknown)]
    assert found[0] == found[1] and found[0].tasks == TASKS and found[0].changes


def test_a_line_that_is_written_more_often_is_coherence() -> None:
    found = judged((line(2), [], work(5000)), (line(4), [], work(5000)))
    (change,) = found.changes
    assert (found.kind, change.object, change.before, change.after) == ("coherence", "shared.count", 2, 4)
    assert change.writers == ("f",) and change.share > 0.5 and found.at_tasks == 64


def read_by_all(reads: int, writes: int) -> list[dict[str, Any]]:
    """Every CPU reads one line so many times in an operation, and writes it so many times in all of them."""
    each = OPERATIONS // TASKS
    return [count(cpu, "f", reads * each, writes if cpu == 0 else 0, object="a.flag") for cpu in range(TASKS)]


def test_a_line_that_all_read_and_now_write_is_coherence() -> None:
    stored = [count(cpu, "f", 0, OPERATIONS // TASKS, object="a.flag") for cpu in range(TASKS)]
    found = judged((read_by_all(1, 1), [], work(5000)), (stored, [], work(5000)))
    (change,) = found.changes
    assert (found.kind, change.object, change.unit) == ("coherence", "a.flag", "writes")
    assert (change.before, change.after) == (0.01, 1.0) and change.share > 0.1


def test_reads_that_one_write_in_a_recording_disturbs_are_no_change() -> None:
    """Whether it is recorded is chance, and the other kernel may read the line as often."""
    rare = read_by_all(1, 1)
    assert judged(([], [], work(5000)), (rare, [], work(5000)), tasks=4).kind == "neither"


def test_where_objects_lie_does_not_excuse_more_writes() -> None:
    anywhere = (LayoutCounts(1, 0.2, 1, 0.6), LayoutCounts(1, 0.2, 1, 0.6))
    change = CountChange("coherence", "struct a.b", 0.01, 1.0, "accesses", 700, 0.7, by_alignment=anywhere)
    assert change.is_only_luck
    assert compared.key(change) != compared.key(replace(change, unit="writes"))


def test_a_lock_that_is_held_longer_is_locks_and_so_is_its_line() -> None:
    its_line = line(2, function="_raw_spin_lock", object="shared.lock")
    waited_for = [*its_line, *line(4, function="_raw_spin_lock", object="shared.lock")]
    found = judged((its_line, lock(1, 50), work(5000)), (waited_for, lock(1, 900), work(5000)))
    (change,) = found.changes
    assert (found.kind, change.object, change.held) == ("locks", "shared.lock", (50, 900))


def test_a_lock_that_covers_more_of_the_same_instructions_costs_only_what_tasks_wait() -> None:
    """At four tasks hardly any waits for a lock that is held for two per cent of an operation."""
    short, long = lock(1, 50), lock(1, 9000)
    assert judged((line(2), short, work(500_000)), (line(2), long, work(500_000)), tasks=4).kind == "neither"
    queued = judged((line(2), short, work(500_000)), (line(2), long, work(500_000)), tasks=128)
    assert queued.kind == "locks" and queued.share > 1


def test_instructions_under_a_lock_are_counted_once() -> None:
    found = judged((line(2), lock(1, 50), work(500_000)), (line(2), lock(1, 9050), work(509_000)), tasks=4)
    assert (found.kind, found.explaining) == ("instructions", 1)
    assert found.share == pytest.approx(0.018, rel=0.01)


def calls(take: int, walk: int, outside: int = 5000, callers: str = "open") -> pl.DataFrame:
    """Instructions of a function that takes a lock, of one that runs under it, and of one that does not."""
    return executed(
        (callers, "take", take * OPERATIONS),
        (f"{callers};take", "walk", walk * OPERATIONS),
        ("close", "other", outside * OPERATIONS),
    )


def test_a_lock_that_is_held_longer_by_what_runs_under_it_is_a_part_of_that_finding() -> None:
    before, after = calls(20, 800), calls(20, 1100)
    found = judged((line(2), lock(1, 810), before), (line(2), lock(1, 1110), after))
    (change,) = found.changes
    assert (found.kind, change.object, change.functions) == ("instructions", "walk", {"walk": 300})
    assert (change.before, change.after) == (820, 1120)
    assert [(one.object, one.held) for one in change.locks] == [("shared.lock", (810, 1110))]
    # 5 % more instructions, and at 64 tasks nearly all of the time is under the lock.
    assert found.share == change.share == pytest.approx(300 / 910, rel=0.05)
    assert found.explaining == 1 and not found.left_out
    fewer = judged((line(2), lock(1, 1110), after), (line(2), lock(1, 810), before), regression=False)
    assert (fewer.kind, fewer.changes[0].object) == ("instructions", "walk") and fewer.share < -0.2


def test_a_lock_that_is_also_taken_more_often_stays_the_cause() -> None:
    found = judged((line(2), lock(1, 810), calls(20, 800)), (line(2), lock(2, 1110), calls(20, 1100)))
    assert (found.kind, found.changes[0].object) == ("locks", "shared.lock")
    assert not any(one.locks for one in found.changes)


def test_a_lock_that_is_held_longer_mostly_by_something_else_stays_the_cause() -> None:
    """It is taken earlier: 300 of the 400 instructions ran before, too, and are under the lock now."""
    found = judged((line(2), lock(1, 410), calls(20, 800)), (line(2), lock(1, 810), calls(20, 900)))
    assert [(one.kind, one.object) for one in found.changes] == [
        ("locks", "shared.lock"),
        ("instructions", "walk"),
    ]


def test_a_function_that_returns_with_a_lock_leaves_it_to_its_caller() -> None:
    """And what changes where the lock is not held is another finding: no instruction is in both."""

    def work_of(walk: int, other: int) -> pl.DataFrame:
        return executed(
            ("open;add", "take", 30 * OPERATIONS),
            ("open;add", "walk", walk * OPERATIONS),
            ("open", "other", other * OPERATIONS),
        )

    def held(instructions: int) -> list[dict[str, Any]]:
        return [one | {"path": "open;add;take"} for one in lock(1, instructions)]

    found = judged((line(2), held(810), work_of(800, 9000)), (line(2), held(1110), work_of(1100, 9500)))
    under, elsewhere = found.changes
    assert (under.object, under.before, under.after) == ("walk", 830, 1130) and under.locks
    assert (elsewhere.object, elsewhere.before, elsewhere.after) == ("other", 9000, 9500)
    assert not elsewhere.locks and found.explaining == 2


def test_nested_locks_are_held_longer_by_the_same_instructions() -> None:
    def both(held: int) -> list[dict[str, Any]]:
        inner = [
            one | {"object": "inner.lock", "lock": 64, "path": "open;take"} for one in lock(1, held - 300)
        ]
        return [*[one | {"path": "open"} for one in lock(1, held)], *inner]

    found = judged((line(2), both(5810), calls(5020, 800)), (line(2), both(6110), calls(5020, 1100)))
    (change,) = found.changes
    assert (change.kind, change.object, change.executed) == ("instructions", "walk", 300)
    assert {one.object for one in change.locks} == {"shared.lock", "inner.lock"}


def test_locks_that_are_held_longer_and_locks_that_are_held_shorter_are_two_findings() -> None:
    def two(walk: int, other: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], pl.DataFrame]:
        where = {"object": "other.lock", "lock": 64, "path": "close;take"}
        locks = [*lock(1, walk + 10), *(one | where for one in lock(1, other + 10))]
        return line(2), locks, pl.concat([calls(20, walk), calls(20, other, callers="close")])

    found = judged(two(800, 1300), two(1100, 800))
    assert [[one.object for one in change.locks] for change in found.changes if change.cost > 0] == [
        ["shared.lock"]
    ]
    assert (found.kind, found.changes[0].functions) == ("instructions", {"walk": 300})


def test_a_lock_that_only_one_kernel_takes_seldom_and_long_is_a_change_of_locks() -> None:
    seldom = [one | {"acquisitions": 1, "instructions": 400 * OPERATIONS // TASKS} for one in lock(1, 400)]
    few = (line(2), [], calls(20, 800)), (line(2), seldom, calls(20, 800))
    assert judged(*few).changes[0].object == "shared.lock"
    assert judged(*reversed(few), regression=False).changes[0].object == "shared.lock"


def test_a_line_in_which_a_lock_lies_that_is_taken_more_often_is_the_lock_s() -> None:
    def flags_and_lock(times: int) -> list[dict[str, Any]]:
        """Most who touch the line look at a flag that lies beside the lock."""
        taking = line(times, function="_raw_spin_lock", object="struct zone.lock (Normal, node 0)")
        looking = line(4 * times, function="free_page", object="struct zone.flags (Normal, node 0)")
        return [*taking, *looking]

    zone = "struct zone.lock (Normal, node 0)"
    few, many = ([one | {"object": zone} for one in lock(times, 500)] for times in (1, 8))
    found = judged((flags_and_lock(1), few, work(5000)), (flags_and_lock(8), many, work(5000)))
    assert [(change.kind, change.object) for change in found.changes] == [("locks", zone)]


def test_more_instructions_are_instructions_but_for_those_that_wait() -> None:
    found = judged((line(2), [], work(5000)), (line(2), [], work(5400, waiting=9000)))
    (change,) = found.changes
    assert (found.kind, change.functions) == ("instructions", {"f": 400})
    assert found.share == pytest.approx(change.share) and found.share > 0
    assert judged((line(2), [], work(5000)), (line(2), [], work(5000, waiting=9000))).kind == "neither"


def test_identical_counts_are_neither_and_so_is_what_costs_next_to_nothing() -> None:
    same = (line(2), lock(1, 50), work(5000))
    assert judged(same, same).kind == "neither"
    assert judged(same, (line(2), lock(1, 50), work(5030))).kind == "neither"


@pytest.mark.slow
def test_kernels_differ_if_they_lie_further_apart_than_the_boots_of_either() -> None:
    def of_boots(base: list[int], new: list[int]) -> str:
        nothing = pl.DataFrame([], schema=LOCKS)
        lines = counts(*line(2))
        return judgement.judge(
            of("conflicts", base=[lines] * len(base), new=[lines] * len(new)),
            of("locks", base=[nothing] * len(base), new=[nothing] * len(new)),
            of("instructions", base=list(map(work, base)), new=list(map(work, new))),
            "base",
            "new",
            ReportedClaim(True, 64),
        ).kind

    assert of_boots([5000, 5300], [5700, 5900]) == "instructions"
    assert of_boots([5000, 5300], [5500, 5900]) == "neither"
    # Each boot more can only take a difference away.
    assert of_boots([5000, 5300, 5000], [5700, 5900, 5310]) == "neither"
    assert of_boots([5000] * 4, [5700] * 4) == "instructions"


def test_an_opposite_change_is_reported() -> None:
    found = judged((line(4), [], work(5000)), (line(2), [], work(5000)))
    assert (found.kind, found.against_the_report) == ("coherence", True)
    better = judged((line(4), [], work(5000)), (line(2), [], work(5000)), regression=False)
    assert (better.kind, better.against_the_report) == ("coherence", False)


def test_what_explains_the_report_comes_before_what_weighs_more() -> None:
    found = judged((line(4), [], work(5000)), (line(1), [], work(5600)))
    assert [change.kind for change in found.changes] == ["instructions", "coherence"]


def one_cpu_each(accesses: int, *, apart: int) -> list[dict[str, Any]]:
    """Two CPUs write a field each: in one line, or in two that lie beside each other."""
    return [
        count(
            cpu, "f", 0, accesses * OPERATIONS // 2, line=PAIR + apart * cpu, byte=cpu, object="struct mm.seq"
        )
        for cpu in range(2)
    ]


def test_the_examples() -> None:
    assert doctest.testmod(per_cpu).failed == doctest.testmod(critical_sections).failed == 0


@pytest.mark.slow
def test_what_is_a_line_on_one_kernel_and_a_pair_on_the_other_has_not_changed() -> None:
    together, apart = one_cpu_each(4, apart=0), one_cpu_each(4, apart=64)
    assert judged((together, [], work(5000)), (apart, [], work(5000))).kind == "neither"
    assert judged((apart, [], work(5000)), (together, [], work(5000))).kind == "neither"
    assert judged((apart, [], work(5000)), (one_cpu_each(9, apart=0), [], work(5000))).kind == "coherence"


def pipes(*accesses: int) -> list[dict[str, Any]]:
    """Each of so many pipes' inodes, whose times every CPU writes so often."""
    return [
        count(
            cpu,
            "touch",
            0,
            times * OPERATIONS // TASKS,
            line=0x1000 + 256 * pipe,
            object="struct inode.i_atime",
        )
        for pipe, times in enumerate(accesses)
        for cpu in range(TASKS)
    ]


def test_of_lines_that_are_called_the_same_only_the_sum_can_change() -> None:
    def kind(base: list[dict[str, Any]], new: list[dict[str, Any]]) -> str:
        return judged((base, [], work(50_000)), (new, [], work(50_000))).kind

    assert kind(pipes(8, 8, 8), pipes(12, 8, 4)) == "neither"
    assert kind(pipes(8, 8, 8), pipes(12, 12, 12)) == "coherence"
    assert kind(pipes(8), pipes(12)) == "coherence"


def test_a_lock_that_costs_nothing_explains_no_line() -> None:
    found = judged(
        (line(2, object="shared.lock"), lock(1, 50), work(50_000)),
        (line(8, object="shared.lock"), lock(1, 56), work(50_000)),
    )
    assert found.kind == "coherence" and found.left_out == ("shared.lock (locks)",)


def each_cpu_s(cpus: int, times: int, member: str = "first") -> list[dict[str, Any]]:
    """Every operation writes a line of each CPU so many times."""
    each = times * OPERATIONS // cpus
    return [
        count(cpu, "send", 0, each, line=0x1000 + 256 * of, object=f"queue.{member} of CPU {of}")
        for of in range(cpus)
        for cpu in range(cpus)
    ]


def of_each_cpu(
    new: dict[int, list[dict[str, Any]]],
    report_s: int = 64,
    base: dict[int, list[dict[str, Any]]] | None = None,
) -> Judgement:
    """Such lines by the number of CPUs, of which the base has none unless they are given."""
    other = count(0, "f", 1, 0)
    lines = of("conflicts", base=counts(other), new=counts(other))
    points = {
        (cpus, cpus): {
            name: [replace(cell, table=counts(other, *more)) for cell in lines.points[TASKS, TASKS][name]]
            for name, more in (("base", (base or {}).get(cpus, [])), ("new", found))
        }
        for cpus, found in new.items()
    }
    nothing = pl.DataFrame([], schema=LOCKS)
    executed_ = work(100_000)
    return judgement.judge(
        replace(lines, points=points),
        of("locks", base=nothing, new=nothing),
        of("instructions", base=executed_, new=executed_),
        "base",
        "new",
        ReportedClaim(True, 64, report_s),
    )


def test_lines_of_all_cpus_are_judged_as_they_grow_to_those_of_the_report() -> None:
    alone = of_each_cpu({4: each_cpu_s(4, 1)})
    assert (alone.kind, alone.may_grow) == ("neither", True)
    found = of_each_cpu({2: each_cpu_s(2, 1), 4: each_cpu_s(4, 1)})
    (change,) = found.changes
    assert (found.kind, found.may_grow, change.object) == ("coherence", False, "queue.first of each CPU")
    assert (change.before, change.after, change.at_report) == (0, 4, (0, 64))
    assert of_each_cpu({4: each_cpu_s(4, 1)}, report_s=4).may_grow is False


def test_lines_of_one_cpu_that_is_picked_do_not_grow() -> None:
    found = of_each_cpu({2: each_cpu_s(2, 2), 4: each_cpu_s(4, 1)})
    assert (found.kind, found.may_grow) == ("neither", False)


def test_lines_of_all_cpus_grow_on_both_kernels_whatever_each_calls_them() -> None:
    """What the line has hottest is another member on each."""
    before = {cpus: each_cpu_s(cpus, 3, "last") for cpus in (2, 4)}
    after = {cpus: each_cpu_s(cpus, 4) for cpus in (2, 4)}
    (change,) = of_each_cpu(after, base=before).changes
    assert (change.before, change.after, change.at_report) == (12, 16, (192, 256))


@pytest.mark.parametrize("clone", ["lookup_noprof", "lookup.isra.0.cold"])
def test_functions_are_the_same_whatever_suffix_a_compiler_or_profiling_adds(clone: str) -> None:
    found = judged(
        (line(2, function="lookup"), [], work(5000, "lookup")),
        (line(6, function=clone), [], work(5400, clone)),
    )
    shared, instructions = found.changes
    assert instructions.functions == {"lookup": 400}
    assert shared.kind == "coherence" and shared.joined == ()


def test_a_kernel_that_executes_nothing_divides_nothing() -> None:
    found = judged(([], [], work(0)), ([], [], work(500)))
    assert found.kind in ("instructions", "neither")


def test_work_that_only_the_new_kernel_does_is_no_small_change() -> None:
    found = judged(([], [], work(0)), ([], [], work(500)))
    assert (found.kind, found.share, found.work) == ("instructions", 1.0, (0, 500))


def test_tables_without_a_row_are_judged_neither() -> None:
    nothing = ([], [], work(0).clear())
    found = judged(nothing, nothing)
    assert (found.kind, found.work, found.changes) == ("neither", (0, 0), [])


def test_a_lock_that_the_first_boot_did_not_take_counts_in_the_others() -> None:
    """A repetition without the lock has it 0 times, wherever it is among the repetitions."""
    none = pl.DataFrame([], schema=LOCKS)
    some, many = (pl.DataFrame(lock(times, 50), schema=LOCKS) for times in (1, 9))
    lines = counts(*line(2))

    def before(*base: pl.DataFrame) -> float:
        (change,) = judgement.judge(
            of("conflicts", base=lines, new=lines),
            of("locks", base=list(base), new=many),
            of("instructions", base=work(5000), new=work(5000)),
            "base",
            "new",
            ReportedClaim(True, 64),
        ).changes
        return change.before

    assert before(none, some) == before(some, none) == 0.5


def test_functions_that_cancel_each_other_change_nothing_in_all() -> None:
    """Even if the sums differ by some instructions, as two boots do."""

    def work_of(f: int, g: int) -> pl.DataFrame:
        return pl.concat([work(f, "f"), work(g, "g")])

    before, after = work_of(3000, 2000), work_of(2000, 3045)
    found = judged((line(2), [], before), (line(2), [], after))
    (change,) = found.changes
    assert change.cancels and change.share > 0.005
    assert (found.kind, found.share, found.against_the_report) == ("instructions", 0.0, False)
    # What does cost something comes first, even if it contradicts the report.
    found = judged((line(4), [], before), (line(2), [], after))
    assert [one.kind for one in found.changes] == ["coherence", "instructions"]
    assert found.against_the_report and found.share < 0


def test_cache_lines_that_change_by_one_cause_are_weighed_together() -> None:
    """Each of eight cache lines costs less than the instructions, and all together cost more."""

    def references(times: int) -> list[dict[str, Any]]:
        lines = [
            line(times, object=f"struct cred.field_{number}", function="get_cred") for number in range(8)
        ]
        return [count | {"line": number} for number, of_line in enumerate(lines) for count in of_line]

    found = judged((references(2), [], work(16_000)), (references(4), [], work(16_700)), tasks=8)
    assert [change.kind for change in found.changes] == ["coherence"] * 8 + ["instructions"]
    assert found.changes[-1].cost > found.changes[0].cost
    assert found.kind == "coherence" and found.explaining == 8
    assert 8 * found.changes[0].share == pytest.approx(found.share, rel=0.1)
