"""Verdicts on noisy measurements: how often they are wrong, on simulated ones whose truth is known."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from bigiron.analysis.statistics import ratio
from bigiron.analysis.statistics.repetitions import Repetitions
from bigiron.analysis.statistics.verdict import Look, MetricComparison, Verdict, compare, next_look, outliers

RECORDED = Path(__file__).with_name("recorded_throughput.csv")
NOISE = 0.02
POINT = (2, 2)

Noise = Callable[[np.random.Generator, int], npt.NDArray[np.float64]]
"""Of so many repetitions the relative error of each."""

NOISES: dict[str, Noise] = {
    "calm": lambda chance, count: chance.normal(0, NOISE, count),
    "heavy tails": lambda chance, count: NOISE / np.sqrt(3) * chance.standard_t(3, count),
}
DRIFTS: dict[str, Noise] = {
    "steady": lambda chance, count: np.zeros(count),
    "slowing": lambda chance, count: np.linspace(0, -0.3, count),
    "wandering": lambda chance, count: np.cumsum(chance.normal(0, 0.03, count)),
}
CONDITIONS = [(noise, drift) for noise in NOISES for drift in DRIFTS]


def repetitions(
    variant: str, logarithms: npt.NDArray[np.float64], point: tuple[int, int] = POINT
) -> Repetitions:
    samples = tuple((float(value),) for value in 1e6 * np.exp(logarithms))
    numbers = tuple(range(1, len(samples) + 1))
    return Repetitions(variant, *point, "throughput", "operations/s", "more", numbers, samples)


def simulated(
    chance: np.random.Generator, change: float, count: int, noise: str = "calm", drift: str = "steady"
) -> list[Repetitions]:
    """A base and a variant beside it, which differs by a relative change; what drifts hits both alike."""
    common = DRIFTS[drift](chance, count)
    return [
        repetitions(name, common + NOISES[noise](chance, count) + np.log1p(by))
        for name, by in (("base", 0.0), ("ours", change))
    ]


def judged(series: list[Repetitions], looks: list[int], *, paired: bool = True) -> list[MetricComparison]:
    points = sorted({one.point for one in series})
    return compare(series, "base", [Look(count, points) for count in looks], paired=paired)


def shares(verdict_of: Callable[[np.random.Generator], Verdict], times: int) -> dict[Verdict, float]:
    """How often each verdict comes out of as many studies."""
    counted = Counter(verdict_of(np.random.default_rng(seed)) for seed in range(times))
    return {verdict: counted[verdict] / times for verdict in Verdict}


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "drift"), CONDITIONS)
def test_no_change_is_seldom_called_one_and_one_of_5_percent_nearly_always(noise: str, drift: str) -> None:
    """10 repetitions, 2 % noise; the standard deviation of the heavy tails is as large."""

    def verdict_on(change: float) -> Callable[[np.random.Generator], Verdict]:
        return lambda chance: judged(simulated(chance, change, 10, noise, drift), [10])[0].verdict

    alarms, *detected = (shares(verdict_on(change), 300)[Verdict.changed] for change in (0.0, -0.05, 0.05))
    print(f"| {noise} | {drift} | {alarms:.1%} | {detected[0]:.1%} | {detected[1]:.1%} |")
    assert alarms <= 0.05
    assert min(detected) >= 0.95


@pytest.mark.slow
def test_of_many_comparisons_seldom_any_is_a_false_alarm() -> None:
    points = [(8, tasks) for tasks in (1, 2, 4, 8)]

    def any_changed(chance: np.random.Generator) -> Verdict:
        series = [
            repetitions(variant, NOISES["calm"](chance, 10), point)
            for point in points
            for variant in ("base", "one", "other", "third")
        ]
        found = judged(series, [10])
        assert len(found) == 12
        return Verdict.changed if any(one.verdict is Verdict.changed for one in found) else Verdict.undecided

    assert shares(any_changed, 100)[Verdict.changed] <= 0.05


def until_decided(chance: np.random.Generator, change: float, noise: str, drift: str) -> MetricComparison:
    """What `--until-decided` does, as far as 60 repetitions go."""
    series, looks = simulated(chance, change, 60, noise, drift), [8]
    while (found := judged(series, looks)[0]).verdict is Verdict.undecided and next_look(looks[-1]) <= 60:
        looks.append(next_look(looks[-1]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "drift"), [CONDITIONS[0], CONDITIONS[-1]])
def test_looking_until_it_is_decided_raises_no_more_false_alarms(noise: str, drift: str) -> None:
    for change, times in ((0.0, 150), (0.05, 100)):
        found = shares(lambda chance, by=change: until_decided(chance, by, noise, drift).verdict, times)
        print(f"| {noise} | {drift} | {change:.0%} | {' | '.join(f'{found[one]:.1%}' for one in Verdict)} |")
        if change:
            assert found[Verdict.changed] == 1.0
        else:
            assert found[Verdict.changed] <= 0.05
            assert found[Verdict.unchanged] > 0.3


@pytest.mark.parametrize("count", [1, 2, 7, 8, 255, 256, 257, 300])
def test_medians_of_resamples_are_numpy_s_own(count: int) -> None:
    """To the last bit, though they are looked for among ranks; also where values come twice."""
    drawn = ratio._drawn(count, 1)
    for values in (np.random.default_rng(count).normal(size=count), np.arange(count) % 3 / 7):
        assert (ratio._medians(values, 1) == np.median(values[drawn], axis=1)).all()


@pytest.mark.slow
def test_a_change_just_beyond_the_tolerance_is_seldom_called_unchanged() -> None:
    found = shares(lambda chance: until_decided(chance, 0.021, "calm", "steady").verdict, 150)
    assert found[Verdict.unchanged] <= 0.05


@pytest.mark.slow
def test_where_nothing_ran_beside_each_other_the_errors_are_no_larger() -> None:
    def verdict_on(change: float) -> Callable[[np.random.Generator], Verdict]:
        return lambda chance: judged(simulated(chance, change, 8), [8], paired=False)[0].verdict

    assert shares(verdict_on(0.0), 300)[Verdict.changed] <= 0.05
    assert shares(verdict_on(0.05), 300)[Verdict.changed] >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("change", [0.0, 0.02])
def test_as_many_repetitions_more_as_are_asked_for_decide(change: float) -> None:
    """Most often: asked for are so many that four of five do, if the spread is what it seems to be."""
    decided = []
    for seed in range(40):
        series = simulated(np.random.default_rng(seed), change, 400)
        found = judged(series, [8])[0]
        if found.verdict is Verdict.undecided:
            assert found.more
            again = judged(series, [8, min(8 + found.more, 400)])[0]
            decided.append(again.verdict is not Verdict.undecided)
    assert len(decided) > 20
    assert sum(decided) / len(decided) > 0.6


@pytest.mark.slow
def test_too_few_repetitions_decide_nothing_whatever_they_say() -> None:
    for count in (1, 2, 5):
        for paired in (True, False):
            found = judged(simulated(np.random.default_rng(1), -0.5, count), [count], paired=paired)[0]
            if count < 5 or paired:
                assert found.verdict is Verdict.undecided
                assert (found.more is None) == (count == 1)


def test_what_was_decided_at_a_look_stays_so() -> None:
    """A variant that is slower at first, and as fast as the base ever after."""
    calm = np.linspace(-0.001, 0.001, 30)
    series = [
        repetitions("base", calm),
        repetitions("ours", calm[::-1] - np.where(np.arange(30) < 8, 0.1, 0)),
    ]
    found = judged(series, [8, 12, 18, 27])[0]
    assert (found.verdict, found.judged, round(found.ratio.value, 2)) == (Verdict.changed, 8, 0.91)
    assert judged(series, [30])[0].verdict is Verdict.unchanged


def test_a_look_that_is_not_finished_is_not_taken() -> None:
    series = simulated(np.random.default_rng(1), 0.5, 10)
    looks = [Look(20, [POINT])]
    assert compare(series, "base", looks, paired=True)[0].verdict is Verdict.changed
    assert compare(series, "base", looks, paired=True, unfinished=[POINT])[0].verdict is Verdict.undecided


def test_repetitions_without_a_partner_are_not_judged() -> None:
    """Repetition 3 of the base failed: the variant's has nothing that ran beside it."""
    base, ours = simulated(np.random.default_rng(1), 0.0, 10)
    found = judged([base.only({1, 2, 4, 5, 6, 7, 8, 9, 10}), ours], [10])[0]
    assert found.judged == 9
    assert 3 not in found.ours.numbers


def test_repetitions_that_did_not_run_beside_each_other_are_not_judged() -> None:
    """Cells of 10 s: repetition 4 of one failed and ran again an hour later, 6 after a short pause."""
    base, ours = simulated(np.random.default_rng(1), 0.0, 10)
    begun = {"base": [100.0 * number for number in range(10)], "ours": [100.0 * n + 10 for n in range(10)]}
    begun["ours"][3] += 3600
    begun["ours"][5] += 100
    base, ours = (
        replace(one, spans=tuple((at, at + 10) for at in begun[one.variant])) for one in (base, ours)
    )
    found = judged([base, ours], [10])[0]
    assert set(found.ours.numbers) == set(range(1, 11)) - {4}


def test_an_outlier_is_named_and_counts() -> None:
    values = np.array([0.0, 0.01, -0.01, 0.005, -0.5, 0.002])
    found = outliers(repetitions("base", values))
    assert [(one.repetition, round(one.away, 2)) for one in found] == [(5, -0.39)]
    with_it, without = (
        judged(
            [repetitions("base", np.zeros(len(logs))), repetitions("ours", logs)], [len(logs)], paired=False
        )
        for logs in (values, np.delete(values, 4))
    )
    assert with_it[0].ratio.low < without[0].ratio.low


def recorded() -> list[tuple[tuple[str, int], list[Repetitions]]]:
    """Throughput of this kernel against itself, on a busy machine of two CPUs.

    See docs/explanation/statistics.md.
    """
    rows = pl.read_csv(RECORDED)
    return [
        (
            (str(workload), int(str(tasks))),
            [
                repetitions(variant, np.log(rows["throughput"].to_numpy()) - np.log(1e6))
                for variant, rows in (
                    (name, here.filter(variant=variant).sort("repetition"))
                    for name, variant in (("base", "a"), ("ours", "b"))
                )
            ],
        )
        for (workload, tasks), here in rows.group_by("workload", "tasks", maintain_order=True)
    ]


def test_a_kernel_is_never_changed_against_itself() -> None:
    for where, series in recorded():
        count = len(series[0].numbers)
        looks = [8]
        while next_look(looks[-1]) <= count:
            looks.append(next_look(looks[-1]))
        for paired in (True, False):
            for taken in ([8], [count], looks):
                assert judged(series, taken, paired=paired)[0].verdict is not Verdict.changed, where


@pytest.mark.slow
def test_nor_if_chance_had_given_its_repetitions_other_names() -> None:
    """What was recorded, noise, drift and outliers, with names exchanged between what ran side by side."""
    false_alarms, studies = 0, 0
    for _, series in recorded():
        values = np.log([one.values for one in series])
        for seed in range(60):
            swap = np.random.default_rng(seed).random(values.shape[1]) < 0.5
            named = [
                repetitions(name, np.where(swap, values[at], values[1 - at]) - np.log(1e6))
                for at, name in ((0, "base"), (1, "ours"))
            ]
            found = judged(named, [8, 12, 18])[0]
            false_alarms += found.verdict is Verdict.changed
            studies += 1
    assert false_alarms / studies <= 0.05
