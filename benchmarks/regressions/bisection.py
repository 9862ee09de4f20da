"""How often a bisection of noisy values is right, simulated: docs/validation/regressions/bisection.md.

256 candidates, one of which makes the value 10 % less, or none; each run has noise. Beside ours, plain
bisection (one run of each end, then one of each candidate, which counts as the end that is nearer), and git's
with a script that says good or bad by a threshold (five runs of each end, half way between their means; each
candidate is run three times). Neither can say that there is no culprit.
`.venv/bin/python benchmarks/regressions/bisection.py [TRIALS]`, some minutes.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean

import numpy as np

from bigiron.bisect.bisection import CandidateGraph
from bigiron.bisect.timed_bisection import TimedSearch

CANDIDATES, EFFECT, TOLERANCE = 256, 0.9, 0.05
NOISE = (0.01, 0.02, 0.05, 0.10, 0.20)
MOST_RUNS = 1000
NAMES = [str(number) for number in range(CANDIDATES + 1)]
HISTORY = CandidateGraph.linear(NAMES)

Sample = Callable[[int], float]


@dataclass(frozen=True)
class Ended:
    """What a search said, None for no culprit, and what it cost."""

    culprit: int | None
    runs: int
    decided: bool = True


def ours(sample: Sample) -> Ended:
    """Until one hypothesis has 95 %."""
    search = TimedSearch(HISTORY, NAMES[0], NAMES[-1], TOLERANCE)
    for number in range(1, MOST_RUNS + 1):
        name = search.next()
        search.add(name, sample(int(name)))
        if search.ready and search.chances.decided:
            likeliest = search.chances.likeliest
            return Ended(None if likeliest is None else int(likeliest), number)
    return Ended(None, MOST_RUNS, decided=False)


def by_threshold(sample: Sample, of_ends: int, of_each: int) -> Ended:
    """Halve, with as many runs of each candidate."""
    good, bad = (mean(sample(end) for _ in range(of_ends)) for end in (0, CANDIDATES))
    threshold, down = (good + bad) / 2, bad < good
    low, high, runs = 0, CANDIDATES, 2 * of_ends
    while high - low > 1:
        middle = (low + high) // 2
        runs += of_each
        if (mean(sample(middle) for _ in range(of_each)) < threshold) == down:
            high = middle
        else:
            low = middle
    return Ended(high, runs)


SEARCHES: dict[str, Callable[[Sample], Ended]] = {
    "ours": ours,
    "plain": lambda sample: by_threshold(sample, 1, 1),
    "git": lambda sample: by_threshold(sample, 5, 3),
}


def trial(
    search: Callable[[Sample], Ended], noise: float, has_culprit: bool, seed: int
) -> tuple[bool, Ended]:
    """Whether it is right of a culprit, or of none, that chance has chosen."""
    chance = np.random.default_rng(seed)
    culprit = int(chance.integers(1, CANDIDATES + 1)) if has_culprit else None

    def sample(candidate: int) -> float:
        truth = 100.0 * (EFFECT if culprit is not None and candidate >= culprit else 1.0)
        return truth * math.exp(chance.normal(0, noise))

    ended = search(sample)
    return ended.decided and ended.culprit == culprit, ended


def main() -> None:
    """A row for each noise."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{CANDIDATES} candidates, a culprit with {EFFECT - 1:+.0%} or none, {trials} trials each\n")
    print(
        "| noise | " + " | ".join(f"{name}, culprit: right (runs) | {name}, none" for name in SEARCHES) + " |"
    )
    print("|--:|" + "--:|--:|" * len(SEARCHES))
    for noise in NOISE:
        row = [f"{noise:.0%}"]
        for search in SEARCHES.values():
            for has_culprit in (True, False):
                done = [trial(search, noise, has_culprit, seed) for seed in range(trials)]
                right = sum(one for one, _ in done) / trials
                runs = mean(ended.runs for _, ended in done)
                undecided = sum(not ended.decided for _, ended in done)
                more = f", {undecided} undecided" if undecided else ""
                row.append(f"{right:.1%} ({runs:.0f}{more})")
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
