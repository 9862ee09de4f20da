"""Growth: known laws are found again, what cannot be told is refused, and a sum over all CPUs is linear."""

import csv
import doctest
import io
import json
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from conftest import WORKLOADS, bigiron, measured
from hypothesis import example, given
from hypothesis import strategies as st
from test_compare import count, counts

from bigiron import workloads
from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.lines import merging
from bigiron.analysis.lines.matching import SharedLine
from bigiron.analysis.probes import instructions
from bigiron.analysis.replay import synthetic_operation
from bigiron.analysis.replay.extrapolate import VariantCounts, extrapolate
from bigiron.analysis.replay.extrapolated import NOTHING, Extrapolated
from bigiron.analysis.replay.program import Event
from bigiron.analysis.statistics import growth
from bigiron.analysis.statistics.growth import CountSeries, GrowthLaw, fit
from bigiron.probes import ProbeTable, conflicts
from bigiron.report import growth as report
from bigiron.results import growth as growth_results
from bigiron.results import measurements, prediction
from bigiron.study import store
from bigiron.study.spec import Spec, Variant

TERMS: dict[GrowthLaw, Callable[[float], float]] = {
    GrowthLaw.constant: lambda n: 0.0,
    GrowthLaw.log: math.log2,
    GrowthLaw.linear: lambda n: n,
    GrowthLaw.n_log_n: lambda n: n * math.log2(n),
    GrowthLaw.square: lambda n: n * n,
}


@dataclass(frozen=True)
class Known:
    """A count whose law is known."""

    law: GrowthLaw
    a: float
    b: float

    @classmethod
    def of(cls, law: GrowthLaw, cpus: Sequence[int], last: float, grown: float) -> "Known":
        """`last` at the most CPUs, of which the share `grown` has come since the fewest."""
        f = TERMS[law]
        b = 0.0 if law is GrowthLaw.constant else grown * last / (f(cpus[-1]) - f(cpus[0]))
        return cls(law, last - b * f(cpus[-1]), b)

    def value(self, cpus: float) -> float:
        return self.a + self.b * TERMS[self.law](cpus)


laws = st.sampled_from(list(GrowthLaw))
counts_of_cpus = st.one_of(
    st.just([2, 3, 4, 6, 8]),
    st.just([2, 4, 8, 16, 32]),
    st.sets(st.integers(2, 64), min_size=5, max_size=8).map(sorted).filter(lambda n: n[-1] >= 4 * n[0]),
)


# Known laws


# A count that begins with nothing is fitted from where there is something.
@given(laws, counts_of_cpus, st.floats(0.5, 1e6), st.floats(0.05, 0.99))
@example(GrowthLaw.linear, [2, 3, 4, 6, 8], 1000.0, 0.006)
def test_an_exact_law_is_found_and_predicts(
    law: GrowthLaw, cpus: list[int], last: float, grown: float
) -> None:
    known = Known.of(law, cpus, last, grown)
    found = fit({n: known.value(n) for n in cpus})
    assert found.law is law
    assert (found.best.a, found.best.b) == pytest.approx((known.a, known.b), rel=1e-6, abs=1e-6 * last)
    predicted = found.predict(512)
    assert predicted.value == pytest.approx(known.value(512), rel=1e-6)
    assert predicted.low <= predicted.value <= predicted.high


@given(laws, counts_of_cpus, st.integers(1, 1000), st.integers(0, 1000))
def test_exact_counts_are_sure(law: GrowthLaw, cpus: list[int], b: int, a: int) -> None:
    known = Known(law, a or 1, b if a < 10 * b else 0.1 * a)
    found = fit({n: known.value(n) for n in cpus})
    assert found.law is law
    assert found.sure > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("cpus", [[2, 3, 4, 6, 8], [2, 4, 8, 16, 32]])
@pytest.mark.parametrize(
    ("noise", "digits", "least_grown", "wanted"),
    [
        (0.0, 3, 0.05, 0.99),  # exact, and rounded as counts are
        (0.005, 6, 0.5, 0.99),
        (0.005, 6, 0.1, 0.95),
        (0.02, 6, 0.5, 0.9),
    ],
)
def test_how_often_it_is_right(
    noise: float, digits: int, least_grown: float, wanted: float, cpus: list[int]
) -> None:
    """The rates in docs/validation/statistics.md; `pytest -k how_often -s` prints them."""
    chance = random.Random(512)
    right, sure, sure_and_right, covered, tries = 0, 0, 0, 0, 500
    for attempt in range(tries):
        law = list(GrowthLaw)[attempt % len(GrowthLaw)]
        known = Known.of(law, cpus, 10 ** chance.uniform(-1, 3), chance.uniform(least_grown, 1))
        found = fit({n: round(known.value(n) * (1 + chance.gauss(0, noise)), digits) for n in cpus})
        right += found.law is law
        if found.law and found.sure > 0.95:
            sure += 1
            sure_and_right += found.law is law
        if found.law:
            predicted = found.predict(512)
            covered += predicted.low - 1e-3 <= known.value(512) <= predicted.high + 1e-3
    print(
        f"\n{cpus}, noise {noise:.1%}, of which grows {least_grown:.0%} or more: right {right / tries:.1%}; "
        f"surer than 95 % in {sure / tries:.1%}, right then {sure_and_right / sure:.1%}; "
        f"512 CPUs in the interval {covered / tries:.1%}"
    )
    assert right / tries >= wanted
    assert sure_and_right / sure >= 0.98
    assert covered / tries >= 0.93


# What is no growth


@pytest.mark.parametrize("cpus", [[2, 3, 4, 6, 8], [2, 4, 8], [4, 8, 16, 32, 64]])
@pytest.mark.parametrize(
    ("count", "ends_at"),
    [
        (lambda n: 6.0, 6),
        (lambda n: 1 - 1 / n, 1),  # one time in n there was no other CPU
        (lambda n: 10 + 3 / n, 10),
        (lambda n: 3 / n, 0),
        (lambda n: 0.0, 0),
    ],
)
def test_a_constant_with_an_edge_is_constant(
    count: Callable[[int], float], ends_at: float, cpus: list[int]
) -> None:
    found = fit({n: count(n) for n in cpus})
    assert (found.law, found.grows) == (GrowthLaw.constant, False)
    assert found.predict(1 << 20).value == pytest.approx(ends_at, abs=1e-3)


def test_what_is_not_there_with_few_cpus_is_left_out() -> None:
    found = fit({2: 0.0, 4: 7.0, 8: 11.0, 16: 19.0})
    assert (found.law, round(found.best.a, 6), round(found.best.b, 6)) == (GrowthLaw.linear, 3, 1)


def test_a_constant_is_not_what_rounds_away() -> None:
    assert fit({2: 6.0, 3: 6.0004, 4: 5.9996, 6: 6.0, 8: 6.0003}).law is GrowthLaw.constant


# What cannot be told


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ({}, "too few CPU counts (none): 3 are the minimum, 5 are better"),
        ({2: 1.0, 8: 4.0}, "too few CPU counts (2, 8)"),
        ({6: 6.0, 7: 7.0, 8: 8.0}, "the CPU counts (6, 7, 8) are too close"),
        ({2: 0.0, 4: 0.0, 8: 5.0}, "nonzero only at 8 CPUs"),
        ({2: 0.284, 3: 0.032, 4: 0.187, 6: 0.12, 8: 0.059}, "varies by 104% of its mean"),
        ({2: 1.0, 3: 6.0, 4: 2.0, 6: 9.0, 8: 4.0}, "deviates"),
        ({2: 8.0, 3: 7.0, 4: 6.0, 6: 4.0, 8: 2.0}, "varies"),  # it falls
        ({n: 1.5**n for n in (2, 4, 8, 16, 32)}, "varies by 249% of its mean"),
        ({n: float(n) ** 1.5 for n in (2, 3, 4, 6, 8)}, "N^(3/2), which is not one of the laws reported"),
    ],
)
def test_a_refusal_says_why(points: dict[int, float], words: str) -> None:
    found = fit(points)
    assert found.law is None
    assert words in found.refusal
    with pytest.raises(ValueError, match="no law"):
        found.predict(64)


@given(st.dictionaries(st.integers(1, 1024), st.floats(0, 1e9), max_size=8), st.integers(2, 4096))
def test_whatever_is_counted_has_a_law_or_a_refusal(points: dict[int, float], at: int) -> None:
    found = fit(points)
    assert bool(found.law) != bool(found.refusal)
    if found.law:
        assert 0 < found.sure <= 1 + 1e-9
        assert sum(candidate.weight for candidate in found.candidates) == pytest.approx(1)
        predicted = found.predict(at)
        assert 0 <= predicted.low <= predicted.value <= predicted.high


def test_the_interval_is_wide_where_laws_disagree() -> None:
    exact = fit({n: 10.0 + n for n in (2, 3, 4, 6, 8)}).predict(512)
    noisy = fit({2: 12.2, 3: 12.8, 4: 14.1, 6: 15.8, 8: 18.3}).predict(512)
    assert exact.high - exact.low < 0.02 * exact.value
    assert noisy.low < 522 and noisy.high > 5 * 522  # N^2 fits nearly as well


def test_no_interval_goes_below_nothing() -> None:
    assert fit({2: 0.4, 3: 0.2, 4: 0.3, 6: 0.21, 8: 0.19}).refusal
    assert fit({2: 1.3, 4: 1.2, 8: 1.25}).predict(512).low >= 0


# A count that is cut at few CPUs


def test_the_whole_count_bounds_a_prediction() -> None:
    cpus = (2, 3, 4, 6, 8)
    cut, whole = {n: 2.0 * n - 2 for n in cpus}, {n: 8.0 + n for n in cpus}
    found = growth.fit_series(CountSeries("counters of CPU", "", cut, whole))
    assert (found.law, round(found.best.b, 6)) == (GrowthLaw.linear, 2)
    predicted = found.predict(64)
    assert predicted.value == pytest.approx(72)
    assert predicted.high == pytest.approx(126, abs=1)
    assert found.predict(6).value == pytest.approx(10)


# Lines that are alike


def line(object: str, accesses: float, **shares: float) -> SharedLine:
    weights = {function: share * accesses for function, share in shares.items()}
    return SharedLine(object, weights, 0.5 * accesses, accesses, 1, 8, False, accesses)


def test_each_cpu_s_line_of_a_variable_is_added_up() -> None:
    shares = [line(f"runqueues.clock of CPU {cpu}", 1.75, scan=0.9, own=0.1) for cpu in range(8)]
    (together,) = merging.merge_similar(shares)
    assert (together.object, together.accesses_per_op) == ("runqueues.clock of CPU", 14)
    assert together.weights == pytest.approx({"scan": 12.6, "own": 1.4})


def test_a_sum_is_no_share_of_itself() -> None:
    lines = [line("kmalloc-192+0x28 (192 bytes)", 19.0, add_up=0.9, lock=0.1)]
    lines += [line("kmalloc-64+0x0 (64 bytes)", 1.75, add_up=0.9, own=0.1) for _ in range(8)]
    assert [found.accesses_per_op for found in merging.merge_similar(lines)] == [19, 14]


def test_small_lines_are_distinguished_less_finely() -> None:
    small = [line("struct page", 0.1, get=0.6, put=0.4), line("struct page", 0.02, get=0.4, put=0.6)]
    large = [line("struct page", 1.0, get=0.6, put=0.4), line("struct page", 0.9, get=0.4, put=0.6)]
    assert (len(merging.merge_similar(small)), len(merging.merge_similar(large))) == (1, 2)


# A clock that changes on the way


def of_cpus(folder: Path, slower: dict[int, int]) -> store.Study:
    """Each CPU writes a line in each operation. `slower`: how many times slower the clock was, by CPUs."""
    spec = Spec(
        workload="getppid1",
        probes=["conflicts"],
        cpus=list(slower),
        operations=10,
        variant=[Variant(name="v", kernel="k")],
    )
    study = store.create(folder, spec, workloads.find("getppid1"))
    for cell in study.plan():
        rate = slower[cell.cpus]
        record = store.new_record(cell, "vm", {"clock_slower": rate} if rate > 1 else {})
        rows = counts(*(count(cpu, "fput", 0, 10 * cell.cpus) for cpu in range(cell.cpus)))
        study.add(
            record, {"conflicts": ProbeTable(rows, {"operations": [10] * cell.cpus, "lost_accesses": 0})}
        )
    return study


def test_a_clock_that_is_slowed_from_some_cpus_on_is_reported(tmp_path: Path) -> None:
    """From 32 CPUs on; its rate alone, which follows the CPUs, is no step."""
    found = growth_results.growth_study(of_cpus(tmp_path / "s", {4: 1, 8: 1, 16: 1, 32: 64, 64: 128}))
    told = (
        "the guest clock was the host's at 4, 8, 16 CPUs, 64 times slower at 32 CPUs, 128 times slower at 64 "
        "CPUs: timer-driven work (ticks, RCU) may jump there, so that no growth law fits; with --clock "
        "instructions it does not"
    )
    assert report.warnings(found.tables[0]) == [told]
    assert told in " ".join(report.as_text(found).split())
    assert {series["clock_step"] for series in json.loads(report.as_json(found))["series"]} == {told}
    for name, slower in ("fast", {4: 1, 8: 1, 64: 1}), ("slow", {32: 64, 48: 64, 64: 128}):
        assert not report.warnings(growth_results.growth_study(of_cpus(tmp_path / name, slower)).tables[0])


# A real kernel


@pytest.fixture(scope="module")
def free_space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workload whose every operation adds up what each CPU has of a percpu_counter, on 2 to 8 CPUs."""
    study = tmp_path_factory.mktemp("growth") / "s"
    source = WORKLOADS / "free_space.c"
    probes = ("--probe", "conflicts,locks,instructions,trace")
    # On a busy host more operations would each see another time, and update their file's.
    options = ("--kernel", "debian/6.12", "--cpus", "2,3,4,8", "--clock", "instructions")
    measured("--workload-file", source, *options, *probes, "-o", study)
    return study


@pytest.fixture(scope="module")
def series(free_space: Path) -> list[dict[str, Any]]:
    answer = bigiron("growth", free_space, "--at", "64", "--format", "json")
    assert (answer.status, answer.err) == (0, "")
    document = json.loads(answer.out)
    assert (document["workload"], document["unit"]) == ("free_space", "accesses per operation")
    return list(document["series"])


def summing(series: list[dict[str, Any]], cpus: str, count: float) -> dict[str, Any]:
    """The series of lines that __percpu_counter_sum reads, with such a count."""
    (found,) = [
        one
        for one in series
        if "__percpu_counter_sum" in one["touched_by"]
        and one["points"][cpus] == pytest.approx(count, rel=0.01)
    ]
    return found


def test_a_sum_over_all_cpus_grows_by_one_access_a_cpu(series: list[dict[str, Any]]) -> None:
    total = summing(series, "8", 19)
    assert (total["law"], total["term"]) == ("N", "N")
    assert (total["a"], total["b"]) == (pytest.approx(11, abs=0.2), pytest.approx(1, abs=0.02))
    assert total["predicted_low"] <= total["predicted"] <= total["predicted_high"]
    assert total["predicted"] == pytest.approx(75.536, abs=1.5)  # as measured with 64 CPUs


def test_each_cpu_s_share_does_too(series: list[dict[str, Any]]) -> None:
    shares = summing(series, "8", 14)
    assert shares["law"] == "N"
    assert shares["predicted"] == pytest.approx(72, abs=1)  # as measured with 64 CPUs


def test_the_worst_comes_first(series: list[dict[str, Any]]) -> None:
    grows = [one["law"] not in ("constant", None) for one in series[:-1]]
    assert grows == sorted(grows, reverse=True)
    growth_by = [one["predicted"] - one["points"]["8"] for one in series[: sum(grows)]]
    assert growth_by == sorted(growth_by, reverse=True)
    assert series[-1]["series"] == "all shared cache lines"


def test_text_names_what_does_not_grow_and_warns_of_the_distance(free_space: Path) -> None:
    answer = bigiron("growth", free_space, "--at", "512")
    assert (answer.status, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= 100
    assert "predicted at 512" in answer.out
    assert "512 CPUs are 64 times the largest measured count" in answer.out
    said = " ".join(answer.out.split())
    # A page comes to the list of its generation and goes from it: two counts, each read and written.
    assert re.search(r"lrugen\.nr_pages\[\d+\] \([^)]*\): constant, 4( |$)", said), answer.out


def test_every_format_has_the_same_series(free_space: Path, series: list[dict[str, Any]]) -> None:
    table = bigiron("growth", free_space, "--at", "64", "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["series"] for row in rows] == [one["series"] for one in series]
    assert [row["law"] for row in rows] == [one["law"] or "" for one in series]
    shown = bigiron("growth", free_space, "--at", "64", "--format", "markdown").out
    assert "| all shared cache lines |" in shown and "predicted at 64" in shown


def test_the_work_of_a_sum_over_all_cpus_grows_too(free_space: Path) -> None:
    answer = bigiron("growth", free_space, "--probe", "instructions", "--at", "64", "--format", "json")
    assert (answer.status, answer.err) == (0, "")
    document = json.loads(answer.out)
    assert document["unit"] == "instructions per operation"
    *functions, total = document["series"]
    (summing,) = [one for one in functions if one["series"] == "__percpu_counter_sum"]
    assert summing["law"] == "N" and summing["b"] > 2, "instructions for each CPU more"
    assert total["series"] == "all functions"
    assert total["points"]["8"] == pytest.approx(sum(one["points"]["8"] for one in functions), abs=0.01)
    shown = bigiron("growth", free_space, "--probe", "instructions").out
    assert "function " in shown and "__percpu_counter_sum" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_an_operation_is_extrapolated_to_what_more_cpus_do(free_space: Path) -> None:
    study = store.open_study(free_space)

    def cells(probe: str, *numbers: int) -> dict[int, list[ProbedCell]]:
        records = {number: [one for one in study.records() if one.cpus == number] for number in numbers}
        return {at: [measurements.cell(study, one, probe) for one in here] for at, here in records.items()}

    few = VariantCounts(cells("instructions", 2, 3, 4), cells("conflicts", 2, 3, 4))
    extrapolated = extrapolate({"few": few}, 8)["few"]
    functions = {path.rsplit(";", 1)[-1] for path in extrapolated.paths}
    assert functions == {"__percpu_counter_sum", "_find_next_or_bit"}
    executed = {
        number: instructions.profile(cell.table, cell.operations).filter(pl.col("function").is_in(functions))
        for number in (4, 8)
        for cell in cells("instructions", number)[number]
    }
    more = executed[8]["self_per_op"].sum() - executed[4]["self_per_op"].sum()
    assert extrapolated.instructions == pytest.approx(more, rel=0.01)
    ((counters, factor),) = extrapolated.visits.items()
    assert counters.endswith("used_blocks.counters of CPU")
    visits = {
        number: synthetic_operation.visits_of_each_cpu(cell.table)[counters] / cell.operations
        for number in (4, 8)
        for cell in cells("conflicts", number)[number]
    }
    assert factor == pytest.approx(visits[8] / visits[4], rel=0.02)


def under_a_lock(operation: Sequence[Event]) -> tuple[float, int]:
    """Instructions, and visits, while a lock is held."""
    held, executed, visits = 0, 0.0, 0
    for event in operation:
        held += {"lock": 1, "unlock": -1}.get(event.kind, 0)
        if held and event.kind == "work":
            executed += event.amount
        visits += bool(held) and event.kind == "visit"
    return executed, visits


@pytest.mark.parametrize(("recorded", "held"), [("trace", 1.0), ("counts", 0.88)])
def test_a_prediction_for_more_cpus_is_extrapolated(free_space: Path, recorded: str, held: float) -> None:
    """The sum goes on under the counter's lock: 34 instructions and a visit for each CPU more.

    Counts do not tell which of them the lock protects: an eighth comes before it or after.
    """
    found = {
        machine: prediction.predict(
            store.open_study(free_space), machine, [2], samples=8, traces=recorded == "trace"
        ).recordings[0]
        for machine in ("i7-4770", "xeon-5418y-x2")
    }
    few, many = found.values()
    assert few.extrapolated == NOTHING, "it has no more CPUs"
    assert (many.cpus, many.extrapolated.cpus) == (8, 48)
    at = {
        name: [
            fmean(figures)
            for figures in zip(
                *(
                    under_a_lock(operation)
                    for draw in range(8)
                    for operation in recording.source(np.random.default_rng(draw)).operations
                ),
                strict=True,
            )
        ]
        for name, recording in (("few", few), ("many", many))
    }
    assert at["many"][0] - at["few"][0] == pytest.approx(held * 34 * 40, rel=0.05)
    assert at["many"][1] - at["few"][1] == pytest.approx(held * 40, rel=0.05)


def test_what_is_extrapolated_is_reported(free_space: Path) -> None:
    asked = ("predict", free_space, "--machine", "xeon-5418y-x2", "--tasks", "2", "--samples", "8")
    answer = bigiron(*asked)
    assert "recorded with 8 CPUs; extrapolated to 48: " in answer.out, answer
    (told,) = json.loads(bigiron(*asked, "--format", "json").out)["recordings"]
    assert told["extrapolated_to"] == 48 and told["extrapolated_instructions"] == pytest.approx(
        34 * 40, rel=0.02
    )
    assert list(told["extrapolated_visits"].values()) == [pytest.approx(47 / 7, abs=0.01)]


def of_work(sums: Mapping[int, float]) -> VariantCounts:
    """Counts of an operation that executes 1,000 instructions, and so many in a sum by number of CPUs."""
    rows = {"context": ["process"] * 2, "path": ["", "enter"], "function": ["enter", "sum"]}
    cells = {
        cpus: [ProbedCell(pl.DataFrame(rows | {"instructions": [1000.0, more]}), {"operations": [1]})]
        for cpus, more in sums.items()
    }
    touched = pl.DataFrame(schema=conflicts.SCHEMA)
    return VariantCounts(cells, {cpus: [ProbedCell(touched, {"operations": [1]})] for cpus in sums})


def test_variants_are_extrapolated_in_the_same_way() -> None:
    line, noisy = {2: 20.0, 4: 40.0, 8: 80.0}, {2: 20.0, 4: 48.0, 8: 80.0}
    nothing = {2: 0.0, 4: 0.0, 8: 0.0}
    sure = extrapolate({"line": of_work(line), "none": of_work(nothing)}, 64)
    assert sure == {"line": Extrapolated({"enter;sum": pytest.approx(560)}, {}, 64), "none": NOTHING}
    unsure = extrapolate({"line": of_work(line), "noisy": of_work(noisy)}, 64)
    assert unsure == {"line": NOTHING, "noisy": NOTHING}


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"old": [2, 4, 8], "new": [8]}, "not all variants have the same numbers of CPUs"),
        ({"old": [2, 4, 8], "new": [2, 4, 8]}, ""),
        ({"old": [4, 8], "new": [4, 8]}, ""),
    ],
)
def test_why_nothing_is_extrapolated(free_space: Path, cells: dict[str, list[int]], why: str) -> None:
    study = store.open_study(free_space)
    like = {record.cpus: record for record in study.records()}
    records = {
        variant: [msgspec.structs.replace(like[cpus], variant=variant) for cpus in numbers]
        for variant, numbers in cells.items()
    }
    found, told = prediction._extrapolated(study, records, 48)
    assert told == why
    assert bool(found) == (not why and len(cells["new"]) > 2)
    lost = {
        name: [msgspec.structs.replace(one, lost={"x": 1}) for one in all] for name, all in records.items()
    }
    if found:
        assert prediction._extrapolated(study, lost, 48) == ({}, "counts were lost while it was recorded")
        bare = {
            name: [
                msgspec.structs.replace(one, tables={"instructions": one.tables["instructions"]})
                for one in all
            ]
            for name, all in records.items()
        }
        assert (
            "not all cells have the probes instructions and conflicts"
            in prediction._extrapolated(study, bare, 48)[1]
        )


def test_other_contexts_have_growth_of_their_own(free_space: Path) -> None:
    answer = bigiron("growth", free_space, "--context", "interrupt", "--format", "json")
    assert answer.status == 0
    document = json.loads(answer.out)
    assert document["contexts"] == ["interrupt"]
    assert not any("do_ftruncate" in one["touched_by"].split(", ") for one in document["series"])


def test_one_number_of_cpus_is_not_enough(open1: Path) -> None:
    answer = bigiron("growth", open1)
    assert answer.status == 2
    assert "3 numbers of CPUs, 2 and more" in answer.complaint


def test_an_unknown_variant_is_refused(free_space: Path) -> None:
    answer = bigiron("growth", free_space, "--variant", "debian/5.10")
    assert (answer.status, "has no variant" in answer.complaint) == (2, True)


def test_the_examples_are_true() -> None:
    assert doctest.testmod(growth).failed == 0
