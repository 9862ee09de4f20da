"""What a rule is: a signature of a shared cache line, and what a maintainer would say of it."""

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from bigiron.analysis import kernel_functions


@dataclass(frozen=True)
class Evidence:
    """What is known of a shared cache line: the object, and accesses per operation by call path.

    A path includes the function that touches the line.
    """

    object: str
    paths: dict[str, float]
    sharing: Collection[str] = ()  # what kinds of it, where that is known

    def share(self, functions: tuple[str, ...], actors: tuple[str, ...]) -> float:
        """Which share of the accesses is by such functions, or on behalf of such actors: 0 to 1.

        The actor is the nearest function on the path that is no mere primitive.

        >>> line = Evidence("", {"d_alloc;_raw_spin_lock": 3.0, "dput": 1.0})
        >>> line.share(("_raw_spin_*",), ()), line.share((), ("d_alloc",)), line.share((), ("d_*", "dput"))
        (0.75, 0.75, 1.0)
        """
        matching = sum(
            weight
            for path, weight in self.paths.items()
            if _matches(_function(path), functions) or _matches(_actor(path), actors)
        )
        return matching / (sum(self.paths.values()) or 1.0)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A signature, what the line is, or who touches it; and what to say of it. Names are globs."""

    name: str
    what: str  # what is shared, as a noun phrase
    why: str  # how it comes that all CPUs write it, as a sentence without a full stop
    experiment: str  # what would confirm it
    source: str  # where the kernel does it
    named: tuple[str, ...] = ()  # an object of such a name is known by it; else:
    object: tuple[str, ...] = ("*",)  # the object may have one of these names ...
    functions: tuple[str, ...] = ()  # ... and these functions ...
    actors: tuple[str, ...] = ()  # ... or functions on behalf of these ...
    least_share: float = 0.0  # ... do at least this share of the accesses
    sharing: str = ""  # the cache line must be shared in this way
    rank: int = 50  # lower ranks are asked first

    def matches(self, evidence: Evidence) -> bool:
        """Whether the line has this signature."""
        if _matches(evidence.object, self.named):
            return True
        touched = self.functions or self.actors
        return (
            bool(touched or self.sharing)
            and (self.sharing in evidence.sharing or not self.sharing)
            and _matches(evidence.object, self.object)
            and evidence.share(self.functions, self.actors) >= self.least_share
        )


@cache  # a study has thousands of lines, and few names
def _matches(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _function(path: str) -> str:
    """The last function, without suffixes that compilers add: `get_partial_node.part.0`."""
    return path.rpartition(";")[2].partition(".")[0]


@cache
def _actor(path: str) -> str:
    functions = [function.partition(".")[0] for function in path.split(";")]
    return next(
        (f for f in reversed(functions) if not _matches(f, kernel_functions.PRIMITIVES)), functions[-1]
    )
