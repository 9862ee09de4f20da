"""The stacks of all variants in one tree, for the flame graphs of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from bigiron.analysis.comparison.profiles import Weights
from bigiron.probes.probe import Contexts
from bigiron.results import stacks
from bigiron.study.store import Study

_LEAST = 1 / 20_000  # of the whole: narrower frames could never be seen


@dataclass(frozen=True)
class Flame:
    """A probe's stacks at the most CPUs and tasks measured; the mean of the repetitions."""

    probe: str
    what: str
    cpus: int
    tasks: int
    variants: tuple[str, ...]
    base: str
    root: "Frame"

    @property
    def data(self) -> dict[str, Any]:
        """For the page: names once each, frames as [name, a weight of each variant, callees]."""
        names: dict[str, int] = {}
        least = tuple(weight * _LEAST for weight in self.root.weights)
        tree = _packed(self.root, names, least)
        return {
            "what": self.what,
            "variants": self.variants,
            "base": self.variants.index(self.base),
            "names": list(names),
            "tree": tree,
        }


@dataclass
class Frame:
    """A function on a path, what it weighs in each variant with all that it called, and those."""

    name: str
    weights: list[float]
    callees: dict[str, "Frame"] = field(default_factory=dict)


def flame_of(study: Study, probe: str, base: str, contexts: Contexts) -> Flame:
    """The stacks of all variants that were measured with the most CPUs and tasks."""
    (cpus, tasks), measured = list(study.measured(probe).items())[-1]
    weighed = stacks.by_repetition(study, probe, contexts, measured)
    base = base if base in weighed else next(iter(weighed))
    what = stacks.what(probe, chain(*measured.values()))
    return Flame(probe, what, cpus, tasks or cpus, tuple(weighed), base, tree_of(weighed))


def tree_of(weighed: Mapping[str, Sequence[Weights]]) -> Frame:
    """The stacks of each variant in one tree, each weight the mean of its repetitions."""
    root = Frame("all", [0.0] * len(weighed))
    for column, repetitions in enumerate(weighed.values()):
        for weights in repetitions:
            for frames, weight in weights.items():
                _add(root, frames, column, weight / len(repetitions))
    return root


def _add(root: Frame, frames: Sequence[str], column: int, weight: float) -> None:
    root.weights[column] += weight
    frame = root
    for name in frames:
        frame = frame.callees.setdefault(name, Frame(name, [0.0] * len(root.weights)))
        frame.weights[column] += weight


def _packed(frame: Frame, names: dict[str, int], least: Sequence[float]) -> list[Any]:
    callees = [
        _packed(callee, names, least)
        for callee in sorted(frame.callees.values(), key=lambda callee: callee.name)
        if any(weight > limit for weight, limit in zip(callee.weights, least, strict=True))
    ]
    number = names.setdefault(frame.name, len(names))
    weights = [_rounded(weight) for weight in frame.weights]
    return [number, weights, callees] if callees else [number, weights]


def _rounded(weight: float) -> float:
    """To six digits, and without ".0": a page may have thousands."""
    rounded = float(f"{weight:.6g}")
    return int(rounded) if rounded.is_integer() else rounded
