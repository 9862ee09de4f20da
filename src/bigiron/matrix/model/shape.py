"""The shape of a situation: what is left of it when names, descriptors, values and its parts' order are free.

Two situations of one shape are one. Where both calls are of one kind, each situation is found a second time,
with A and B in each other's place.
"""

from collections.abc import Hashable, Iterable
from typing import Any

from bigiron.matrix.model.calls import SIGNATURES, TAKES, Kind
from bigiron.matrix.model.symbolic import Flag, InitialMapping, Name, Situation


def shape(situation: Situation) -> Hashable:
    return shape_by(SituationShape, situation)


def shape_by(kind: type["SituationShape"], situation: Situation) -> Hashable:
    """The same whichever of two calls of one kind is A."""
    straight = kind(situation, (0, 1)).all()
    if situation.calls[0] != situation.calls[1]:
        return straight
    return min(straight, kind(situation, (1, 0)).all(), key=repr)


class SituationShape:
    """Everything gets a number in the order in which it is met, beginning with what the calls are given."""

    def __init__(self, situation: Situation, order: tuple[int, int]) -> None:
        self._situation, self._order = situation, order
        self._world = situation.world
        self._numbers: dict[str, dict[Hashable, int]] = {}

    def all(self) -> Hashable:
        world = self._world
        calls = tuple(self._arguments(role) for role in self._order)
        names = sorted((self._number("name", name), name) for name in world.names)
        fds = sorted((self._owned("fd", *owned), owned) for owned in world.fds)
        slots = sorted((self._owned("slot", *owned), owned) for owned in world.slots)
        return (
            calls,
            tuple((number, self._file(world.names[name])) for number, name in names),
            tuple((number, self._description(world.fds[owned])) for number, owned in fds),
            tuple((number, self._mapping(world.slots[owned])) for number, owned in slots),
        )

    def _number(self, kind: str, thing: Hashable) -> int:
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(thing, len(numbers))

    def _met(self, kind: str, thing: Hashable) -> bool:
        return thing in self._numbers.get(kind, {})

    def _owner(self, process: int) -> int:
        """The call, by its place in the order, whose process it is."""
        return 0 if self._situation.same else self._order[process]

    def _owned(self, kind: str, process: int, number: int) -> tuple[int, int]:
        """Of which call's process, and which of its descriptors or slots."""
        owner = self._owner(process)
        if any(name in TAKES for name in self._situation.calls):
            return owner, number  # which is lower matters: a call takes the lowest that is free
        return owner, self._number(f"{kind} of {process}", number)

    def _arguments(self, role: int) -> Hashable:
        kinds = SIGNATURES[self._situation.calls[role]]
        arguments = self._situation.arguments[role].items()
        return tuple(self._argument(role, kinds[parameter], argument) for parameter, argument in arguments)

    def _argument(self, role: int, kind: Kind, argument: Any) -> Hashable:
        match argument:
            case Flag():
                return argument.settled
            case Name():
                return argument.settled and self._number("name", argument.settled)
            case None:
                return None
        process = self._situation.process(role)
        match kind:
            case Kind.FD | Kind.FILE:
                return self._owned("fd", process, argument)
            case Kind.SLOT:
                return self._owned("slot", process, argument)
            case Kind.VALUE:
                return self._value(argument)
            case _:
                return self._world.value(argument)

    def _value(self, number: Any) -> int:
        value = self._world.value(number)
        return value and 1 + self._number("value", value)

    def _pages(self, pages: Iterable[tuple[Any, Any]]) -> Hashable:
        settled = {self._world.value(place): value for place, value in pages}
        return tuple((place, self._value(settled[place])) for place in sorted(settled))

    def _file(self, file: int | None) -> Hashable:
        if file is None:
            return None
        if self._met("file", file):
            return self._number("file", file)
        initial, length = self._world.files[file], self._world.value(self._world.files[file].length)
        return self._number("file", file), length, self._pages(initial.pages), file in self._world.other_name

    def _description(self, number: int | None) -> Hashable:
        if number is None:
            return None
        if self._met("description", number):
            return self._number("description", number)
        world, initial = self._world, self._world.descriptions[number]
        opened = self._number("description", number), world.value(initial.fds) - initial.known_fds
        return self._opened(number, opened)

    def _opened(self, number: int, opened: tuple[Hashable, ...]) -> Hashable:
        """What a new description is of; `opened`: its number, and how many descriptors it has elsewhere."""
        world, initial = self._world, self._world.descriptions[number]
        if initial.file is not None:
            return opened, self._file(initial.file), world.value(initial.offset)
        pipe = world.pipes[initial.pipe]
        other = pipe.reader if initial.writes else pipe.writer
        held = world.value(pipe.held), self._pages(pipe.pages.items())
        open_elsewhere = world.value(world.descriptions[other].fds) - world.descriptions[other].known_fds
        return opened, self._number("pipe", initial.pipe), initial.writes, held, open_elsewhere

    def _mapping(self, mapping: InitialMapping | None) -> Hashable:
        if mapping is None:
            return None
        writable = bool(mapping.writable.settled)
        if mapping.file is None:
            return writable, self._value(mapping.value)
        return writable, self._file(mapping.file), self._world.value(mapping.offset)
