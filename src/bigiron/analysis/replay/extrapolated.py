"""What is added to a recorded operation: what more CPUs make it do, and time that no count of it has.

See docs/explanation/prediction-model.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Extrapolated:
    """What is added to an operation."""

    paths: Mapping[str, float] = field(default_factory=dict)
    """Instructions more an operation, by call path, with the function that executes them at its end."""

    visits: Mapping[str, float] = field(default_factory=dict)
    """How many times as often an operation visits what each CPU has of its own, by object."""

    cpus: int = 0
    """The machine's; 0 where nothing is added."""

    @property
    def instructions(self) -> float:
        """All that are added to an operation."""
        return sum(self.paths.values())

    def and_more(self, by_function: Mapping[str, float]) -> Extrapolated:
        """The same, and these instructions more an operation, by function.

        >>> Extrapolated({"a;b": 5.0, "c": 1.0}).and_more({"c": 2.0, "d": 3.0}).paths
        {'a;b': 5.0, 'c': 3.0, 'd': 3.0}
        """
        added = {name: self.paths.get(name, 0.0) + more for name, more in by_function.items()}
        return replace(self, paths={**self.paths, **added})

    def by_function(self, functions: Collection[str]) -> dict[str, float]:
        """The instructions by the last function of each path that is among these; by "" where none is.

        >>> Extrapolated({"a;b;c": 5.0, "a;d": 2.0, "e": 1.0}).by_function(["a", "b"])
        {'b': 5.0, 'a': 2.0, '': 1.0}
        """
        found: dict[str, float] = {}
        for path, more in self.paths.items():
            at = next((name for name in reversed(path.split(";")) if name in functions), "")
            found[at] = found.get(at, 0.0) + more
        return found


NOTHING = Extrapolated()
