"""Every situation in which two calls commute, each once by its shape, and a test of each.

Of a situation only that is settled which the model asked while it made the calls in both orders, and while
the outcomes were compared. What was not settled does not matter; in the test it is absent, or as small as can
be.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

from bigiron.matrix.calls import CALLS, FIRST_FD, TAKES, Kind, Test
from bigiron.matrix.commute import After, commutes
from bigiron.matrix.model import Given, State
from bigiron.matrix.set_up import test_of
from bigiron.matrix.shape import shape
from bigiron.matrix.unknown import (
    ARGUMENT_OFFSETS,
    OFFSETS,
    VALUES,
    Flag,
    Name,
    Situation,
    Unknown,
    World,
    worlds,
)


def pairs() -> list[tuple[str, str]]:
    return list(combinations_with_replacement(CALLS, 2))


def situations(a: str, b: str, same: bool) -> Iterator[Situation]:
    """Of one pair, by two threads of the same process or by two processes."""

    def visit(world: World) -> Situation | None:
        situation = Situation((a, b), same, _Arguments(world, same, a, b).of_both(), world)
        first, second = _made(situation, (0, 1)), _made(situation, (1, 0))
        if not commutes(first, second):
            return None
        _settle_what_is_last(world, first)
        return situation

    shapes = set()
    for situation in worlds(visit):
        if situation and (its_shape := shape(situation)) not in shapes:
            shapes.add(its_shape)
            yield situation


def _made(situation: Situation, order: tuple[int, int]) -> After:
    unknown = Unknown(situation.world)
    state = State(unknown)
    given: dict[int, Given] = {}
    for role in order:
        name, process = situation.calls[role], situation.process(role)
        given[role] = state.make(name, process, situation.arguments[role])
    return After(state, given[0], given[1], unknown)


def _settle_what_is_last(world: World, after: After) -> None:
    """To take a file's last name, or a description's last descriptor, is more than to take one of several."""
    things = after.before.all()
    for number, file in enumerate(world.files):
        if things["file", number].links < file.links:
            world.settle_last(number)
    for number, description in enumerate(world.descriptions):
        if things["description", number].fds < description.fds:
            bool(description.fds == 1)


@dataclass(frozen=True)
class _Arguments:
    """What the two calls are given: unknown, but for descriptors and slots, of which there are few."""

    world: World
    same: bool
    a: str
    b: str

    def of_both(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._of(self.a, 0, self.b), self._of(self.b, 1, self.a)

    def _of(self, name: str, role: int, other: str) -> dict[str, Any]:
        return {parameter: self._argument(name, kind, role, other) for parameter, kind in CALLS[name].items()}

    def _argument(self, name: str, kind: Kind, role: int, other: str) -> Any:
        match kind:
            case Kind.NAME:
                return Name(self.world)
            case Kind.FD:
                return self._fd(role, other)
            case Kind.FILE:
                return None if self.world.choose(2) == 0 else self._fd(role, other)
            case Kind.OFFSET:
                return self.world.number(OFFSETS if name == "mmap" else ARGUMENT_OFFSETS)
            case Kind.VALUE:
                return self.world.number(VALUES)
            case Kind.SLOT:
                return self.world.choose(2) if role == 1 and self.same and _takes(other, Kind.SLOT) else 0
            case _:
                return Flag(self.world)

    def _fd(self, role: int, other: str) -> int:
        """The other call's or another one; or below, between or above those that the other call takes."""
        options = 1
        if self.same:
            options = 1 + TAKES.get(other, role == 1 and (_takes(other, Kind.FD) or _takes(other, Kind.FILE)))
        fd = FIRST_FD + self.world.choose(options)
        self.world.arguments.add((0 if self.same else role, fd))
        return fd


def _takes(name: str, kind: Kind) -> bool:
    return kind in CALLS[name].values()


def tests() -> Iterator[Test]:
    """All of them, numbered, in the order of the calls."""
    number = 0
    for a, b in pairs():
        for same in (True, False):
            for situation in situations(a, b, same):
                number += 1
                yield test_of(number, situation)
