"""Profiles compared: what functions and call chains weigh in each variant, and how much that varies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

Weights = Mapping[tuple[str, ...], float]
"""What each stack weighs, outermost frame first."""


@dataclass(frozen=True)
class ComparedFigure:
    """Something counted in several variants: a value of each repetition.

    >>> counted = ComparedFigure("path_openat", {"old": (6.0, 6.0), "new": (1.9, 2.1)})
    >>> counted.mean("new"), round(counted.spread("new"), 3), round(counted.ratio("old", "new"), 3)
    (2.0, 0.071, -0.667)
    """

    name: str
    values: Mapping[str, tuple[float, ...]]

    def mean(self, variant: str) -> float:
        """Of the repetitions; 0 where there is none of it."""
        return fmean(self.values.get(variant) or (0.0,))

    def spread(self, variant: str) -> float | None:
        """The standard deviation as a share of the mean; None of one repetition, or of nothing."""
        values = self.values.get(variant, ())
        return stdev(values) / abs(self.mean(variant)) if len(values) > 1 and self.mean(variant) else None

    def change(self, base: str, variant: str) -> float:
        """How much more it is than in the base."""
        return self.mean(variant) - self.mean(base)

    def ratio(self, base: str, variant: str) -> float | None:
        """The change as a share of the base; None where one of them has none of it."""
        if not self.mean(base) or not self.mean(variant):
            return None
        return self.mean(variant) / self.mean(base) - 1

    def largest_change(self, base: str, variants: Iterable[str]) -> float:
        """Of all variants, without its sign."""
        return max((abs(self.change(base, variant)) for variant in variants), default=0.0)

    @property
    def most(self) -> float:
        """Where it is most."""
        return max(map(self.mean, self.values), default=0.0)


def chains(profiles: Mapping[str, Sequence[Weights]]) -> list[ComparedFigure]:
    """Each whole stack, its frames with `;` between them. `profiles`: by variant, one of each repetition."""
    return _figures(profiles, lambda frames: (";".join(frames),))


def functions(profiles: Mapping[str, Sequence[Weights]]) -> list[ComparedFigure]:
    """Each function with all that it called; once for each stack, however often it is in it.

    >>> functions({"v": [{("open", "lookup"): 2.0, ("open", "lookup", "lookup"): 1.0}]})[1]
    ComparedFigure(name='open', values={'v': (3.0,)})
    """
    return _figures(profiles, lambda frames: tuple(dict.fromkeys(frames)))


def _figures(
    profiles: Mapping[str, Sequence[Weights]], names: Callable[[tuple[str, ...]], Iterable[str]]
) -> list[ComparedFigure]:
    counted: dict[str, dict[str, list[float]]] = {}
    for variant, repetitions in profiles.items():
        for number, weights in enumerate(repetitions):
            for frames, weight in weights.items():
                for name in names(frames):
                    values = counted.setdefault(name, {})
                    values.setdefault(variant, [0.0] * len(repetitions))[number] += weight
    return [
        ComparedFigure(name, {variant: tuple(values) for variant, values in by_variant.items()})
        for name, by_variant in sorted(counted.items())
    ]


def ranked(figures: Iterable[ComparedFigure], base: str, variants: Iterable[str]) -> list[ComparedFigure]:
    """The largest change first, then what is most."""
    others = [variant for variant in variants if variant != base]
    return sorted(figures, key=lambda one: (-round(one.largest_change(base, others), 6), -one.most, one.name))
