"""Scaling curves: knees, laws and partings of curves whose truth is known, and of simulated ones."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from conftest import Answer, bigiron

import bigiron as library
from bigiron.analysis.statistics import knee
from bigiron.analysis.statistics.knee import Fit, ScalingLaw, ThroughputCurve, lock_bound, universal
from bigiron.analysis.statistics.repetitions import Repetitions
from bigiron.analysis.statistics.verdict import Look, compare
from bigiron.report import knee as knee_report
from bigiron.results import scaling as scaling_results

DOUBLES = (1, 2, 4, 8, 16, 32, 64)
LAWS = {
    ScalingLaw.universal: (universal, (1e5, 0.02, 1e-4), ("alone", "serial", "crosstalk")),
    ScalingLaw.lock_bound: (lock_bound, (9e-6, 1e-6, 2e-8), ("compute", "hold", "handover")),
}


def repetitions(
    variant: str, throughput: Mapping[int, float], count: int = 8, noise: float = 0.01
) -> list[Repetitions]:
    chance = np.random.default_rng(1)
    return [
        Repetitions(
            variant, tasks, tasks, "throughput", "operations/s", "more", tuple(range(1, count + 1)),
            tuple((float(value * math.exp(noise * chance.normal())),) for _ in range(count)),
        )
        for tasks, value in throughput.items()
    ]  # fmt: skip


def by(law: ScalingLaw, tasks: tuple[int, ...] = DOUBLES) -> dict[int, float]:
    form, parameters, _ = LAWS[law]
    return dict(zip(tasks, form(np.array(tasks, np.float64), *parameters), strict=True))


def fits(curve: ThroughputCurve) -> dict[ScalingLaw, Fit]:
    return {fit.law: fit for fit in curve.fits}


def test_the_laws_have_the_limits_they_must() -> None:
    tasks = np.array([1.0, 4.0, 64.0, 1000.0])
    assert universal(tasks, 5.0, 0.0, 0.0).tolist() == [5.0, 20.0, 320.0, 5000.0]
    amdahl = universal(tasks, 1.0, 0.1, 0.0)
    assert amdahl[-1] == pytest.approx(1 / 0.1, rel=0.01)
    held = lock_bound(tasks, 9e-6, 1e-6, 0.0)
    assert held[0] == pytest.approx(1e5)
    assert held[-1] == pytest.approx(1e6)
    # Two tasks, by hand: the chain's weights are 1, 2 hold/compute, 2 (hold/compute)^2.
    x = 1 / 9
    assert lock_bound(np.array([2.0]), 9.0, 1.0, 0.0)[0] == pytest.approx(
        (2 * x + 2 * x * x) / (1 + 2 * x + 2 * x * x)
    )
    collapsed = lock_bound(np.array([64.0, 128.0]), 9e-6, 1e-6, 1e-6)
    assert collapsed[0] / collapsed[1] == pytest.approx(2, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("law", ScalingLaw)
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_law_is_found_again_and_predicts(law: ScalingLaw, noise: float) -> None:
    curve = knee.curve(repetitions("v", by(law), noise=noise), None, 128)
    found, (_, parameters, names) = fits(curve)[law], LAWS[law]
    truth = by(law, (128,))[128]
    for name, value in zip(names, parameters, strict=True):
        assert found.parameters[name].value == pytest.approx(value, rel=0.001 + 25 * noise)
        assert found.parameters[name].low <= found.parameters[name].value <= found.parameters[name].high
    assert max(map(abs, found.residuals.values())) <= 0.001 + 3 * noise
    assert found.refusal == ""
    assert found.predicted[128].value == pytest.approx(truth, rel=0.001 + 5 * noise)
    assert found.predicted[128].low * 0.99 <= truth <= found.predicted[128].high * 1.01


def test_a_law_that_does_not_fit_predicts_nothing() -> None:
    curve = knee.curve(repetitions("v", by(ScalingLaw.lock_bound)), None, 128)
    assert "it differs from the measured value at" in fits(curve)[ScalingLaw.universal].refusal
    assert fits(curve)[ScalingLaw.universal].predicted == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("throughput", "to", "refusal"),
    [
        ({n: 1e5 * n for n in DOUBLES}, 128, "64 tasks still have 100% of ideal scaling"),
        (by(ScalingLaw.universal), 257, "257 tasks are more than 4 times the most that were measured (64)"),
        (
            {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0, 16: 8.0, 32: 8.0, 64: 1.0},
            128,
            "it differs from the measured value at",
        ),
    ],
)
def test_what_the_data_cannot_carry_is_not_extrapolated(
    throughput: dict[int, float], to: int, refusal: str
) -> None:
    for fit in knee.curve(repetitions("v", throughput), None, to).fits:
        assert refusal in fit.refusal
        assert fit.predicted == {}


def test_chance_is_not_extrapolated() -> None:
    noisy = repetitions("v", by(ScalingLaw.universal), count=1, noise=0.08)
    for fit in knee.curve(noisy, None, 256).fits:
        assert fit.refusal and not fit.predicted


@pytest.mark.parametrize(
    ("tasks", "refusal"),
    [
        ((1, 2, 4, 8), "too few numbers of tasks (1, 2, 4, 8): 5 are the minimum"),
        ((8, 9, 10, 11, 12), "the numbers of tasks (8, 9, 10, 11, 12) are too close"),
    ],
)
def test_too_little_has_no_law(tasks: tuple[int, ...], refusal: str) -> None:
    curve = knee.curve(repetitions("v", by(ScalingLaw.universal, tasks)), None, 100)
    assert curve.refusal.startswith(refusal)
    assert curve.fits == ()


def test_the_knee_is_where_the_closed_form_has_it() -> None:
    """Tasks add less than half of the ideal from where the law's slope is half of its first value."""
    every = tuple(range(1, 65))
    truth = by(ScalingLaw.universal, every)
    slopes = [truth[n + 1] - truth[n] for n in every[:-1]]
    half = next(n for n, slope in zip(every, slopes, strict=False) if slope < truth[1] / 2)
    assert knee.knee(truth) == half
    curve = knee.curve(repetitions("v", by(ScalingLaw.universal)), None, 128)
    assert curve.knee and curve.knee.tasks == max(n for n in DOUBLES if n <= half)


def test_a_dip_is_no_knee() -> None:
    assert knee.knee({1: 100, 2: 200, 4: 400, 8: 410, 16: 1500, 32: 1510}) == 16
    assert knee.knee({1: 100, 2: 200, 4: 400}) is None


def test_a_knee_that_chance_may_have_moved_says_so() -> None:
    close = {1: 100.0, 2: 200.0, 4: 300.0, 8: 320.0}
    found = knee.curve(repetitions("v", close, noise=0.05), None, 16).knee
    assert found and found.low == 2 and found.high == 4


def test_few_repetitions_have_no_interval() -> None:
    close = {1: 100.0, 2: 200.0, 4: 300.0, 8: 320.0}
    for count, interval in ((1, False), (5, False), (6, True)):
        curve = knee.curve(repetitions("v", close, count, noise=0), None, 16)
        found = curve.knee
        assert found and found.tasks == 4 and found.interval is interval
        assert interval or found.low is found.high is None
        text = knee_report.as_text(scaling_results.Scaling("s", "w", "time", "v", 8, [curve], []))
        assert ("no interval: fewer than 6" in " ".join(text.split())) is not interval


def test_a_curve_that_begins_at_zero_has_no_ideal() -> None:
    nothing = {1: 0.0, 2: 100.0, 4: 190.0}
    curve = knee.curve(repetitions("v", nothing, noise=0), None, 8)
    assert curve.knee is None
    scaling = scaling_results.Scaling("s", "w", "time", "v", 8, [curve], [])
    shown = [shape(scaling) for shape in knee_report.FORMATS.values()]
    assert "    2  100      -" in shown[0]
    assert "knee: unknown: with 1 task the throughput is 0" in shown[0]


def test_where_variants_part() -> None:
    base, slower = by(ScalingLaw.universal), by(ScalingLaw.universal)
    slower |= {32: 0.9 * slower[32], 64: 0.7 * slower[64], 4: 0.9 * slower[4]}
    series = repetitions("base", base) + repetitions("slower", slower, noise=0.011)
    points = [(tasks, tasks) for tasks in DOUBLES]
    found = knee.parting(compare(series, "base", [Look(8, points)], paired=False), None)
    assert found.tasks == 32  # at 4 they differ too, and at 8 and 16 no more
    assert [tasks for tasks, one in found.comparisons.items() if one.verdict == "changed"] == [4, 32, 64]
    same = compare(
        series[:7] + repetitions("slower", base, noise=0.011), "base", [Look(8, points)], paired=False
    )
    assert knee.parting(same, None).tasks is None


@pytest.fixture(scope="module")
def locks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Operations under a queued and under a ticket lock, of which all tasks that wait look at one line."""
    study = tmp_path_factory.mktemp("knee") / "s"
    options = ["--machine", "uniform", "--cpus", "1..32", "--set", "lock=qspinlock,ticket", "--seeds", "6"]
    answer = bigiron("simulate", "lock-bound", *options, "--warmup", "1", "--duration", "10", "-o", study)
    assert answer.status == 0, answer
    scaling = scaling_results.knee_study(library.open_study(study))
    shown = {name: shape(scaling) for name, shape in knee_report.FORMATS.items()}
    assert bigiron("knee", study, "--format", "csv") == Answer(0, shown["csv"], "")
    return shown


def test_a_simulated_lock(locks: dict[str, str]) -> None:
    """A queued lock's throughput stays, a ticket lock's falls with everyone who waits for it."""
    queued, ticket = json.loads(locks["json"])["curves"]
    most = [max(point["throughput"]["value"] for point in curve["points"]) for curve in (queued, ticket)]
    last = [curve["points"][-1]["throughput"]["value"] for curve in (queued, ticket)]
    assert last[0] > 0.8 * most[0] and last[1] < 0.2 * most[1]
    assert queued["knee"]["tasks"] == ticket["knee"]["tasks"] == 2
    assert "simulated time" in locks["text"]
    laws = {fit["law"]: fit for fit in ticket["fits"]}
    assert laws["lock-bound law"]["parameters"]["handover"]["low"] > 0


def test_all_formats_say_the_same(locks: dict[str, str]) -> None:
    document = json.loads(locks["json"])
    rows = pl.read_csv(locks["csv"].encode())
    assert rows.height == sum(len(curve["points"]) for curve in document["curves"]) == 12
    for curve in document["curves"]:
        here = rows.filter(variant=curve["variant"])
        assert here["median"].to_list() == [point["throughput"]["value"] for point in curve["points"]]
        assert set(here["knee"]) == {curve["knee"]["tasks"]}
        assert f"- {curve['variant']}\n  - knee: {curve['knee']['tasks']} tasks" in locks["markdown"]
        assert f"{curve['variant']}\n  knee: {curve['knee']['tasks']} tasks" in locks["text"]
    assert rows.filter(variant="lock=ticket")["verdict"].to_list()[-1] == "changed"
    parted = document["partings"][0]["tasks"]
    assert f"lock=ticket diverges from lock=qspinlock at {parted} tasks and beyond" in locks["text"]


def test_names_are_text_in_markdown() -> None:
    curves = [knee.curve(repetitions("a_b|c*", {1: 100, 2: 198, 4: 200}), None, 8)]
    markdown = knee_report.as_markdown(scaling_results.Scaling("s", "w_x|y", "time", "a_b|c*", 8, curves, []))
    assert "w\\_x\\|y, one CPU per task" in markdown and "\n- a\\_b\\|c\\*\n  - knee: " in markdown
    assert "| tasks | a\\_b\\|c\\* | ideal |\n|--:|--:|--:|\n" in markdown


def test_one_number_of_tasks_is_no_curve(tmp_path: Path) -> None:
    study = tmp_path / "s"
    options = ["--machine", "uniform", "--cpus", "2", "--warmup", "1", "--duration", "1"]
    assert bigiron("simulate", "lock-bound", *options, "-o", study).status == 0
    answer = bigiron("knee", study)
    assert answer.status == 2
    assert answer.complaint.startswith(f"{study} has no curve: measure throughput")


def test_a_curve_that_begins_at_zero_has_no_share_of_ideal(tmp_path: Path) -> None:
    """Of a run that hung."""
    study, rows = tmp_path / "s", "1,0,0,0,0,0\n2,18,0,0,0,0\n4,36,0,0,0,0\n"
    (tmp_path / "hung.csv").write_text(f"tasks,processes,processes_idle,threads,threads_idle,linear\n{rows}")
    bigiron("import", "will-it-scale", tmp_path / "hung.csv", "-o", study)
    for format in knee_report.FORMATS:
        answer = bigiron("knee", study, "--format", format)
        assert (answer.status, answer.err) == (0, "")
    assert re.search(r"^ +2 +18(\.0)? +-$", bigiron("knee", study).out, re.MULTILINE)
    assert bigiron("report", study, "-o", tmp_path / "report.html").status == 0
