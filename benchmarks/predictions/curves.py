"""Published curves of throughput by tasks beside `bigiron predict`: the table in docs/validation/curves.md.

For each curve of `benchmarks/predictions/curves/` that a kernel here can run: its workload is recorded with 8
CPUs on the nearest of Debian's kernels, and predicted for the curve's machine. Of the published points only
the first is used, as the rate that sets how fast instructions are. Compared is throughput relative to the
first point: the median error, the share of points inside the 90 % interval, and the interval's width. Beside
it are no contention at all (every core as fast as the first), and the universal scalability law fitted to the
points up to a quarter of the range.

    benchmarks/predictions/curves.py [--fit | --calibrate] [--counts] STUDIES [ID...]

STUDIES is a folder of recordings; what is missing there is recorded first, a minute or so each. With `--fit`
the constants of `bigiron.simulator.fitted` are fitted to all of the curves, and printed; and each curve is
scored with constants fitted to the curves of all other machines. With `--calibrate` the model's error is
fitted to the curves that no constant was fitted to. Predicted is from traces, or with `--counts` from counts.
SAMPLES and SEED are environment variables.

Two columns are of predictions that were asked for in another way, with the same constants: without a rate,
of which only what is relative to the first point is compared; and of a recording with as many CPUs and nodes
as the machine has.
"""

import csv
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median

import calibration
import numpy as np
from calibration import WANTED, Sampled
from curve_list import (
    CURVES,
    JUDGED,
    MORE,
    OWN_CPUS,
    PAIRS,
    RECORDINGS,
    UNBOUND,
    UNFITTED,
    UNLIKE,
    WITHOUT_RATE,
)
from curve_scores import Score, by_vendor, extents
from fitting import WIDE, Surveyed, fit, least_error, predicted, share_inside
from scipy.optimize import curve_fit

from bigiron.analysis.statistics import knee
from bigiron.analysis.statistics.estimate import of_samples
from bigiron.errors import UserError
from bigiron.results import prediction
from bigiron.simulator import machine_files
from bigiron.simulator.fitted import FITTED, Constants
from bigiron.simulator.replay import FITTED as FITTED_UNKNOWNS
from bigiron.simulator.replay import KnownRate, Replayed, ReplayOptions, replay
from bigiron.study import store

HERE = Path(__file__).parent
BIGIRON = Path(sys.executable).with_name("bigiron")
SAMPLES = int(os.environ.get("SAMPLES", "64"))
SEED = int(os.environ.get("SEED", "1"))
TRACES = "--counts" not in sys.argv
CPUS = 8  # of a recording, unless it says otherwise
DEADLINE_S = 3600  # for a cell, on a host that does other things, too
FEW_OPERATIONS = 100  # of a task there, as there are so many tasks
SAME = 0.05  # a change of less is none
LAWS_SHARE = 0.25  # of the range, to which the universal scalability law is fitted


def published() -> dict[str, list[tuple[int, float]]]:
    """Tasks and throughput of every curve."""
    curves = defaultdict(list)
    for path in sorted((HERE / "curves").glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                curves[row["curve_id"]].append((int(row["tasks"]), float(row["throughput"])))
    return {name: sorted(points) for name, points in curves.items()}


def recorded(folder: Path, name: str, like: str = "") -> store.Study:
    """The recording of that name, made if it is not there; with the CPUs and nodes of a machine, if told."""
    workload, kernel, mode, more = RECORDINGS[name]
    study = folder / (f"{name}-as-{like}" if like else name)
    if not (study / "study.toml").exists():
        what = ["--workload-file", workload] if workload.endswith(".c") else [workload]
        extra = MORE.get(more) or (["--boot", more] if more else [])
        command = [
            *(BIGIRON, "run", *what, "--kernel", f"debian/{kernel}", "--mode", mode),
            *(_shape(like) if like else () if "--cpus" in extra else ("--cpus", str(CPUS))),
            *(() if "--deadline" in extra else ("--deadline", str(DEADLINE_S))),
            *("--probe", "conflicts,locks,instructions,trace"),
            *(*extra, "-o", str(study)),
        ]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return store.open_study(study)


def _shape(machine: str) -> list[str]:
    model = machine_files.load(machine)
    nodes = f"sockets={model.nodes},nodes={model.nodes}"
    return ["--cpus", str(model.cpus), "--topology", nodes, "--operations", str(FEW_OPERATIONS)]


def replayed(
    curve: str,
    points: list[tuple[int, float]],
    folder: Path,
    constants: Constants,
    own_cpus: bool = False,
    has_rate: bool = True,
) -> tuple[Replayed, list[int], np.ndarray]:
    """A curve's replays, the tasks that fit the machine, and the first's throughput by sample."""
    name, machine, lock, per_op, unit = CURVES[curve]
    model = machine_files.load(machine)
    tasks = [number for number, _ in points if number <= model.cpus]
    known = KnownRate(curve, tasks[0], points[0][1] * unit / per_op) if has_rate else None
    study = recorded(folder, name, machine if own_cpus else "")
    if TRACES and "trace" not in study.spec.probes:
        sys.exit(f"{study.folder} was recorded without traces: record it again, or ask for --counts")
    recordings, refused = prediction.record(study, tasks[-1], TRACES)
    if not recordings:
        raise UserError(refused[0].why)
    options = ReplayOptions(model, tasks, SAMPLES, SEED, known, lock, name in UNBOUND, constants)
    found = replay({curve: recordings[0].source}, options)
    first, *later = (found.tasks.index(number) for number in tasks)
    throughput = found.variants[curve].throughput
    return found, tasks, throughput[:, later] / (known.throughput if known else throughput[:, [first]])


def survey(curve: str, points: list[tuple[int, float]], folder: Path) -> Surveyed:
    """Replay a curve with constants from wide ranges."""
    found, tasks, relative = replayed(curve, points, folder, WIDE)
    return Surveyed(
        curve,
        CURVES[curve][1],
        CURVES[curve][0],
        np.log([value / points[0][1] for _, value in points[1 : len(tasks)]]),
        np.log(relative),
        np.column_stack([2 * found.unknowns[constant] - 1 for constant in FITTED_UNKNOWNS]),
        np.array(tasks[1:]) / tasks[0],
        np.log(found.slower),
    )


def sample(curve: str, points: list[tuple[int, float]], folder: Path) -> Sampled:
    """Replay a curve without an error of the model."""
    found, tasks, relative = replayed(curve, points, folder, replace(FITTED, model_error=0.0))
    first, *later = (found.tasks.index(number) for number in tasks)
    return Sampled(
        curve,
        CURVES[curve][1],
        curve not in UNFITTED,
        np.log([value / points[0][1] for _, value in points[1 : len(tasks)]]),
        np.log(relative),
        found.variants[curve].kept(first)[later],
    )


def score(
    curve: str,
    points: list[tuple[int, float]],
    folder: Path,
    constants: Constants = FITTED,
    own_cpus: bool = False,
    has_rate: bool = True,
) -> Score:
    """Predict a curve, and compare."""
    _, tasks, relative = replayed(curve, points, folder, constants, own_cpus, has_rate)
    points = points[: len(tasks)]
    intervals = [of_samples(samples) for samples in relative.T]
    rows = [
        (number, value / points[0][1], at.value, at.low, at.high)
        for (number, value), at in zip(points[1:], intervals, strict=True)
    ]
    return compared(curve, points, rows)


def scored(surveyed: Surveyed, points: list[tuple[int, float]], constants: Constants) -> Score:
    """The same of a curve that was surveyed, with constants that were fitted without its machine."""
    points = points[: 1 + len(surveyed.truth)]
    at = np.exp([surveyed.truth, *predicted(surveyed, constants)]).T
    rows = [
        (number, float(truth), float(value), float(low), float(high))
        for (number, _), (truth, value, low, high) in zip(points[1:], at, strict=True)
    ]
    return compared(surveyed.curve, points, rows)


def compared(
    curve: str, points: list[tuple[int, float]], rows: list[tuple[int, float, float, float, float]]
) -> Score:
    """Published points beside predicted ones: tasks, published, predicted, low and high."""
    tasks, truth, ours, low, high = np.array(rows).T
    law = _universal(points)
    ahead = tasks > points[-1][0] * LAWS_SHARE if law is not None else tasks > 0

    def off(of: np.ndarray, which: np.ndarray) -> float:
        return float(np.median(np.abs(of / truth - 1)[which]))

    all_points = tasks > 0
    others = [tasks / points[0][0], *([law] if law is not None else [])]
    return Score(
        curve,
        CURVES[curve][1],
        off(ours, all_points),
        int(((low <= truth) & (truth <= high)).sum()),
        len(rows),
        float(np.median(high / low)),
        _knees(points, rows),
        off(others[0], all_points),
        off(law, all_points) if law is not None else None,
        truth[-1] < 0.7 * others[0][-1],
        all(off(ours, ahead) < off(other, ahead) for other in others),
        tuple(rows),
    )


def _knees(points: list[tuple[int, float]], rows: list[tuple[int, float, float, float, float]]) -> str:
    """The knee as published and as predicted."""
    truth = knee.knee(dict(points))
    ours = knee.knee({points[0][0]: 1.0} | {tasks: value for tasks, _, value, _, _ in rows})
    return f"{truth or '-'} / {ours or '-'}"


def _universal(points: list[tuple[int, float]]) -> np.ndarray | None:
    """What the universal scalability law, fitted to the first points, has for the others; of the first."""

    def law(tasks: np.ndarray, one: float, contention: float, coherency: float) -> np.ndarray:
        return one * tasks / (1 + contention * (tasks - 1) + coherency * tasks * (tasks - 1))

    tasks, values = (np.array(column, np.float64) for column in zip(*points, strict=True))
    known = tasks <= tasks[-1] * LAWS_SHARE
    if known.sum() < 3:
        return None
    start = (values[0] / tasks[0], 0.01, 1e-4)
    try:
        fitted, _ = curve_fit(law, tasks[known], values[known], start, bounds=(0, [np.inf, 1, 1]))
    except RuntimeError:
        return None
    return np.asarray(law(tasks[1:], *fitted) / values[0])


def main() -> None:
    """Print the table, and the scores over all."""
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if not arguments:
        print("curves: not run, as it needs a folder of recordings: benchmarks/predictions/curves.py STUDIES")
        return
    folder, wanted = Path(arguments[0]), arguments[1:] or list(CURVES)
    curves = published()
    each = survey if "--fit" in sys.argv else sample if "--calibrate" in sys.argv else score
    found: list[Surveyed | Sampled | Score] = []
    refused: list[tuple[str, Exception]] = []
    for curve in wanted:
        try:
            found.append(each(curve, curves[curve], folder))
        except (UserError, subprocess.CalledProcessError) as error:
            refused.append((curve, error))
    if sampled := [one for one in found if isinstance(one, Sampled)]:
        print(*calibration.table(sampled, FITTED.model_error), sep="\n")
        say_refused(refused)
        return
    surveyed = [one for one in found if isinstance(one, Surveyed)]
    of_fold = left_out(surveyed) if surveyed else {}
    scores = [one for one in found if isinstance(one, Score)] or [
        scored(one, curves[one.curve], of_fold[one.machine]) for one in surveyed
    ]
    otherwise = [asked_otherwise(one, curves[one.curve], folder, of_fold) for one in scores]
    table(scores, otherwise)
    pairs(scores, curves)
    say_refused(refused)
    if scores:
        by_vendor(scores)
        summary(scores, len(refused))
        for what, of in (("without a rate", "without_rate"), ("with the machine's own CPUs", "own_cpus")):
            brief(what, [one for ways in otherwise if (one := getattr(ways, of))], scores)


def say_refused(refused: list[tuple[str, Exception]]) -> None:
    """A line for each curve that could not be predicted."""
    for curve, error in refused:
        print(f"\nrefused: {curve}: {error}")


@dataclass(frozen=True)
class Otherwise:
    """A curve as it is predicted without a rate, and of a recording with the machine's CPUs and nodes."""

    without_rate: Score | None
    own_cpus: Score | None


def asked_otherwise(
    found: Score, points: list[tuple[int, float]], folder: Path, of_fold: dict[str, Constants]
) -> Otherwise:
    """The curves of which that is known."""
    constants = of_fold.get(found.machine, FITTED)
    without_rate, own_cpus = found.curve in WITHOUT_RATE, found.curve in OWN_CPUS
    return Otherwise(
        score(found.curve, points, folder, constants, has_rate=False) if without_rate else None,
        score(found.curve, points, folder, constants, own_cpus=True) if own_cpus else None,
    )


def left_out(surveyed: list[Surveyed]) -> dict[str, Constants]:
    """The constants that all other machines' curves give, by machine; they are printed."""
    alike = [one for one in surveyed if one.workload not in UNLIKE + JUDGED]

    @cache
    def without(machines: frozenset[str]) -> Constants:
        return fit([one for one in alike if one.machine not in machines])

    def held(machines: frozenset[str]) -> float:
        """The model's error with which curves of the other machines are held, each left out in its turn."""
        others = [one for one in surveyed if one.machine not in machines]
        fitted = [(one, without(machines | {one.machine})) for one in others]
        return least_error(lambda error: share_inside(fitted, error), WANTED)

    print("| left out | crossing | contended | kept_ns | under_locks | instructions | model_error |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    found = {}
    for machine in ["", *sorted({one.machine for one in surveyed})]:
        machines = frozenset({machine} - {""})
        of = found[machine] = replace(without(machines), model_error=held(machines))
        constants = (of.crossing, of.contended, of.kept_ns, of.under_locks)
        values = [f"{constant.value:g}" for constant in constants]
        values += [f"{of.instructions.value:g}, {of.instructions.either_way:g}", f"{of.model_error:g}"]
        print(f"| {machine or 'none'} | " + " | ".join(values) + " |")
    print()
    return found


def table(scores: list[Score], otherwise: list[Otherwise]) -> None:
    """A line a curve; and every point of it, on stderr."""
    print("| curve | machine | error | inside | width | knee | no contention | USL | no rate | own CPUs |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for found, ways in zip(scores, otherwise, strict=True):
        law = f"{found.universal:.0%}" if found.universal is not None else "-"
        more = " | ".join(
            f"{way.error:.0%}, {way.inside} of {way.points}" if way else ""
            for way in (ways.without_rate, ways.own_cpus)
        )
        print(
            f"| {found.curve} | {found.machine} | {found.error:.0%} | {found.inside} of {found.points} "
            f"| {found.width:.2f} | {found.knee} | {found.no_contention:.0%} | {law} | {more} |"
        )
        for part, (tasks, truth, value, low, high) in zip(extents(found), found.rows, strict=True):
            print(
                f"{found.curve} {tasks} ({part}): {truth:.2f}, {value:.2f} ({low:.2f} to {high:.2f})",
                file=sys.stderr,
            )


def pairs(scores: list[Score], curves: dict[str, list[tuple[int, float]]]) -> None:
    """What each patch makes of throughput at the most tasks, as published and as predicted.

    Predicted is relative to each curve's own published first point.
    """
    print("\n| before | after | tasks | published | predicted | direction |")
    print("|---|---|--:|--:|--:|---|")
    by_curve = {score.curve: score for score in scores}
    for before, after in PAIRS:
        if not {before, after} <= set(by_curve):
            continue
        tasks = by_curve[before].rows[-1][0]
        first, then = (by_curve[curve].at(tasks) * curves[curve][0][1] for curve in (before, after))
        published, ours = then / first
        right = "right" if _direction(published) == _direction(ours) else "wrong"
        print(f"| {before} | {after} | {tasks} | {published:.2f} | {ours:.2f} | {right} |")


def _direction(change: float) -> int:
    return 0 if abs(change - 1) < SAME else 1 if change > 1 else -1


def summary(scores: list[Score], refused: int) -> None:
    """Over all curves."""
    points = sum(score.points for score in scores)
    widths = [high / low for score in scores for *_, low, high in score.rows]
    contending = [score for score in scores if score.contends]
    closer = [
        score
        for score in contending
        if score.error < score.no_contention and (score.universal is None or score.error < score.universal)
    ]
    print(
        f"\n{len(scores)} curves on {len({score.machine for score in scores})} machines, {refused} refused: "
        f"median error {median(score.error for score in scores):.0%}; "
        f"{sum(score.inside for score in scores) / points:.0%} of {points} points inside the intervals, "
        f"whose median width is a factor of {median(widths):.2f} "
        f"(of the curves' medians, {median(score.width for score in scores):.2f}); "
        f"closer than both baselines for {len(closer)} of the {len(contending)} curves that contend, "
        f"and for {sum(score.leads for score in contending)} over the points that the law was not fitted to"
    )


def brief(what: str, asked: list[Score], scores: list[Score]) -> None:
    """Over the curves that were predicted in another way, beside the same curves as they were before."""

    def over(some: list[Score]) -> str:
        points = sum(score.points for score in some)
        widths = [high / low for score in some for *_, low, high in score.rows]
        return (
            f"median error {median(score.error for score in some):.0%}, "
            f"{sum(score.inside for score in some) / points:.0%} of {points} points inside, "
            f"median width {median(widths):.2f}"
        )

    if asked:
        same = [score for score in scores if score.curve in {one.curve for one in asked}]
        print(f"{what}, {len(asked)} curves: {over(asked)}; the same else: {over(same)}")


if __name__ == "__main__":
    main()
