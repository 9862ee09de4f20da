"""The shape of a situation of the extended calls, as shape.py has it of the 18."""

from collections.abc import Hashable
from typing import Any

from bigiron.matrix.model.calls import SHARED_WORDS, Kind
from bigiron.matrix.model.extended.symbolic import ExtendedWorld, InitialSocket
from bigiron.matrix.model.shape import SituationShape, shape_by
from bigiron.matrix.model.symbolic import Situation


def shape(situation: Situation) -> Hashable:
    return shape_by(_Shape, situation)


class _Shape(SituationShape):
    _world: ExtendedWorld

    def all(self) -> Hashable:
        world = self._world
        calls = tuple(self._arguments(role) for role in self._order)
        fds = sorted((self._owned("fd", *owned), owned) for owned in world.fds)
        addresses = sorted((self._number("address", address), address) for address in world.addresses)
        words = sorted((self._word(*owned), owned) for owned in world.words)
        children = sorted((self._owner(process), world.value(nr)) for process, nr in world.children.items())
        return (
            calls,
            tuple((number, self._description(world.fds[owned])) for number, owned in fds),
            tuple((number, self._description(world.addresses[address])) for number, address in addresses),
            tuple((number, self._value(world.words[owned])) for number, owned in words),
            tuple(children),
        )

    def _argument(self, role: int, kind: Kind, argument: Any) -> Hashable:
        if kind is Kind.WORD:
            return self._word(self._situation.process(role), argument)
        return super()._argument(role, kind, argument)

    def _word(self, process: int, word: int) -> tuple[int, int]:
        return self._owned("word", process, word) if word < SHARED_WORDS else (-1, self._number("word", word))

    def _opened(self, number: int, opened: tuple[Hashable, ...]) -> Hashable:
        world, initial = self._world, self._world.descriptions[number]
        if isinstance(initial, InitialSocket):
            held = world.value(initial.held), self._pages(initial.messages.items())
            return *opened, initial.is_bound, held
        epoll = world.epoll(number)
        holds = sorted(
            (
                self._owned("fd", self._process_of(number), fd),
                self._number("description", what),
                is_in.settled,
            )
            for (fd, what), is_in in epoll.holds.items()
        )
        return *opened, tuple(holds), epoll.other

    def _process_of(self, number: int) -> int:
        return next(process for (process, _), known in sorted(self._world.fds.items()) if known == number)
