"""Every situation in which two calls commute, each once by its shape, and a test of each.

Of a situation only that is settled which the model asked while it made the calls in both orders, and while
the outcomes were compared. What was not settled does not matter; in the test it is absent, or as small as can
be.
"""

from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

from bigiron.matrix.model.calls import (
    CALLS,
    EXTENDED_CALLS,
    FIRST_FD,
    SHARED_WORDS,
    SIGNATURES,
    TAKES,
    Kind,
    Test,
)
from bigiron.matrix.model.commute import After, commutes
from bigiron.matrix.model.extended.model import ExtendedState
from bigiron.matrix.model.extended.set_up import test_of as extended_test_of
from bigiron.matrix.model.extended.shape import shape as extended_shape
from bigiron.matrix.model.extended.symbolic import ExtendedUnknown, ExtendedWorld
from bigiron.matrix.model.model import CallResult, State
from bigiron.matrix.model.set_up import test_of
from bigiron.matrix.model.shape import shape
from bigiron.matrix.model.symbolic import (
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


@dataclass(frozen=True)
class Family:
    """Calls of which each is paired with each, and what knows them."""

    calls: Collection[str]
    world: type[World]
    before: Callable[[Any], Unknown]  # what a world's objects are to one state
    state: Callable[[Any], State]
    shape: Callable[[Situation], Hashable]
    test_of: Callable[[int, Situation], Test]


COMMUTER = Family(CALLS, World, Unknown, State, shape, test_of)
EXTENDED = Family(
    EXTENDED_CALLS, ExtendedWorld, ExtendedUnknown, ExtendedState, extended_shape, extended_test_of
)


def pairs(family: Family = COMMUTER) -> list[tuple[str, str]]:
    return list(combinations_with_replacement(family.calls, 2))


def situations(a: str, b: str, same: bool, family: Family = COMMUTER) -> Iterator[Situation]:
    """Of one pair, by two threads of the same process or by two processes."""

    def visit(world: World) -> Situation | None:
        situation = Situation((a, b), same, _Arguments(world, same, a, b).of_both(), world)
        first, second = (_made(situation, order, family) for order in ((0, 1), (1, 0)))
        if not commutes(first, second):
            return None
        _settle_what_is_last(world, first)
        return situation

    shapes = set()
    for situation in worlds(family.world, visit):
        if situation and (its_shape := family.shape(situation)) not in shapes:
            shapes.add(its_shape)
            yield situation


def _made(situation: Situation, order: tuple[int, int], family: Family) -> After:
    unknown = family.before(situation.world)
    state = family.state(unknown)
    given: dict[int, CallResult] = {}
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
        made: dict[str, Any] = {}
        for parameter, kind in SIGNATURES[name].items():
            made[parameter] = self._argument(name, kind, role, other, _number_of(Kind.FD, made, name))
        return made

    def _argument(self, name: str, kind: Kind, role: int, other: str, fds: int) -> Any:
        """`fds`: descriptors that the call has got as arguments before."""
        match kind:
            case Kind.NAME | Kind.ADDRESS:
                return Name(self.world)
            case Kind.FD:
                return self._fd(role, other, fds)
            case Kind.FILE:
                return None if self.world.choose(2) == 0 else self._fd(role, other, fds)
            case Kind.OFFSET:
                return self.world.number(OFFSETS if name == "mmap" else ARGUMENT_OFFSETS)
            case Kind.VALUE:
                return self.world.number(VALUES)
            case Kind.SLOT:
                return self.world.choose(2) if role == 1 and self.same and _takes(other, Kind.SLOT) else 0
            case Kind.WORD:
                return self._word(role, other)
            case _:
                return Flag(self.world)

    def _fd(self, role: int, other: str, before: int) -> int:
        """One that a call has got already, or another one; or any place among those that the other takes."""
        options = 1 + before
        if self.same:
            named = sum(_number_of(kind, SIGNATURES[other], other) for kind in (Kind.FD, Kind.FILE))
            options += TAKES.get(other, named if role == 1 else 0)
        fd = FIRST_FD + self.world.choose(options)
        self.world.arguments.add((0 if self.same else role, fd))
        return fd

    def _word(self, role: int, other: str) -> int:
        """The process's own, or one that all share; the other call's or another one."""
        shared = self.world.choose(2) == 1
        both = role == 1 and (self.same or shared) and _takes(other, Kind.WORD)
        return SHARED_WORDS * shared + (self.world.choose(2) if both else 0)


def _number_of(kind: Kind, parameters: Collection[str], name: str) -> int:
    """How many of a call's parameters are of a kind."""
    return sum(SIGNATURES[name][parameter] is kind for parameter in parameters)


def _takes(name: str, kind: Kind) -> bool:
    return kind in SIGNATURES[name].values()


def tests(family: Family = COMMUTER) -> Iterator[Test]:
    """All of them, numbered, in the order of the calls."""
    number = 0
    for a, b in pairs(family):
        for same in (True, False):
            for situation in situations(a, b, same, family):
                number += 1
                yield family.test_of(number, situation)
