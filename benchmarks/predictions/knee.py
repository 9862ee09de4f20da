"""How often what `bigiron knee` predicts holds: the table in docs/validation/statistics.md.

Curves whose law is known, with parameters by chance, are measured at 1 to 64 tasks with noise, and predicted
at 128 and 256. Counted is how often a law was let predict, and how often the truth lay in the interval of
95 %. The other law's fits tell whether a wrong law is recognised. Some twenty minutes:
`.venv/bin/python benchmarks/predictions/knee.py [CURVES]`, of each law and row; 60 unless given.
"""

import itertools
import sys
from dataclasses import dataclass

import numpy as np

from bigiron.analysis.statistics import knee
from bigiron.analysis.statistics.knee import ScalingLaw, lock_bound, universal
from bigiron.analysis.statistics.repetitions import Repetitions

TASKS = (1, 2, 4, 8, 16, 32, 64)
TO = (128, 256)
NOISE = (0.01, 0.03)  # of a repetition
REPETITIONS = (3, 8)


@dataclass
class Tally:
    """Of one law fitted to curves of one law."""

    curves: int = 0
    predicted: int = 0
    held: int = 0


def parameters(law: ScalingLaw, chance: np.random.Generator) -> tuple[float, float, float]:
    """One task's throughput is 100,000 per second; what limits many is anything from little to most."""
    if law is ScalingLaw.universal:
        return 1e5, 10 ** chance.uniform(-2.5, -0.7), 10 ** chance.uniform(-6, -3)
    return 1e-5, 10 ** chance.uniform(-7.5, -5.5), 10 ** chance.uniform(-10, -7.5)


def measured(value: float, tasks: int, noise: float, count: int, chance: np.random.Generator) -> Repetitions:
    """What repetitions give at one number of tasks."""
    samples = tuple((float(value * np.exp(noise * chance.normal())),) for _ in range(count))
    numbers = tuple(range(1, count + 1))
    return Repetitions("v", tasks, tasks, "throughput", "operations/s", "more", numbers, samples)


def tally(noise: float, count: int, to: int, curves: int) -> dict[tuple[ScalingLaw, ScalingLaw], Tally]:
    """By the curve's law and the fitted one."""
    chance = np.random.default_rng(64)
    forms = {ScalingLaw.universal: universal, ScalingLaw.lock_bound: lock_bound}
    tallies = {pair: Tally() for pair in itertools.product(ScalingLaw, ScalingLaw)}
    for law, _ in itertools.product(ScalingLaw, range(curves)):
        form, chosen = forms[law], parameters(law, chance)
        *values, truth = form(np.array([*TASKS, to], np.float64), *chosen)
        at = [
            measured(value, tasks, noise, count, chance) for tasks, value in zip(TASKS, values, strict=True)
        ]
        for fit in knee.curve(at, None, to).fits:
            found = tallies[law, fit.law]
            found.curves += 1
            if fit.predicted:
                found.predicted += 1
                found.held += fit.predicted[to].low <= truth <= fit.predicted[to].high
    return tallies


def main() -> None:
    """Print a line for each noise, number of repetitions and number of tasks."""
    curves = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    print(f"{curves} curves of each law, measured at {', '.join(map(str, TASKS))} tasks\n")
    print(
        "| noise | repetitions | at tasks | its own law predicts | holds | the other law predicts | holds |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for noise, count, to in itertools.product(NOISE, REPETITIONS, TO):
        tallies = tally(noise, count, to, curves)
        cells = []
        for own in (True, False):
            chosen = [one for (law, fitted), one in tallies.items() if (law is fitted) == own]
            predicted = sum(one.predicted for one in chosen)
            cells.append(f"{predicted} of {sum(one.curves for one in chosen)}")
            cells.append(f"{sum(one.held for one in chosen) / predicted:.0%}" if predicted else "-")
        print(f"| {noise:.0%} | {count} | {to} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
