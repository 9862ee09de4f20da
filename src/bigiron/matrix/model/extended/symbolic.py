"""States of the extended calls of which only what was asked is known, as model/symbolic.py has for the 18."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bigiron.matrix.model.calls import SHARED_WORDS
from bigiron.matrix.model.extended.model import Epoll, Socket, WatchKey
from bigiron.matrix.model.model import Description
from bigiron.matrix.model.symbolic import FDS, VALUES, Flag, InitialDescription, Int, Unknown, World

CHILDREN = (0, 1, 2)
HELD = (1, 2, 0)
OTHER_FD = 48
"""Of what an epoll instance looks at beside what calls name."""


@dataclass
class InitialSocket(InitialDescription):
    """A socket, and its open file description."""

    is_bound: bool | None = None  # None: not read yet
    address: str = ""  # if a call names it
    held: Int = 0  # if it is bound and was read
    is_asked: bool = False
    messages: dict[int, Int] = field(default_factory=dict)


@dataclass
class InitialEpoll(InitialDescription):
    """An epoll instance, and its open file description."""

    holds: dict[tuple[int, int], Flag] = field(default_factory=dict)  # a descriptor, and its description
    other: int | None = None  # one more socket in it: 1 if there is a message, 0 if not; -1: none


class ExtendedWorld(World):
    """The initial state along one sequence of choices."""

    def __init__(self, chosen: Sequence[int]) -> None:
        super().__init__(chosen)
        self.addresses: dict[str, int | None] = {}
        self.words: dict[tuple[int, int], Int] = {}
        self.children: dict[int, Int] = {}

    def socket(self, number: int) -> InitialSocket:
        found = self.descriptions[number]
        assert isinstance(found, InitialSocket)
        return found

    def epoll(self, number: int) -> InitialEpoll:
        found = self.descriptions[number]
        assert isinstance(found, InitialEpoll)
        return found

    def _opened(self) -> int:
        return self._made(InitialSocket if self.choose(2) == 0 else InitialEpoll)

    def _made(self, kind: type[InitialDescription]) -> int:
        self.descriptions.append(kind(0, self.number(FDS)))
        return len(self.descriptions) - 1

    def address(self, address: str) -> int | None:
        """Which socket has it: none, a known one, or another one."""
        if address not in self.addresses:
            candidates: list[int | None] = [None, *self._may_have_an_address()]
            chosen = self.choose(len(candidates) + 1)
            number = self._made(InitialSocket) if chosen == len(candidates) else candidates[chosen]
            self.addresses[address] = number
            if number is not None:
                self.socket(number).is_bound = True
                self.socket(number).address = address
        return self.addresses[address]

    def _may_have_an_address(self) -> Iterator[int]:
        for number, initial in enumerate(self.descriptions):
            if isinstance(initial, InitialSocket) and initial.is_bound is not False and not initial.address:
                yield number

    def is_bound(self, number: int) -> bool:
        socket = self.socket(number)
        if socket.is_bound is None:
            socket.is_bound = self.choose(2) == 0
        return socket.is_bound

    def held(self, number: int) -> Int:
        """The messages in a socket. None can be sent to a socket that has no address."""
        socket = self.socket(number)
        if not socket.is_asked:
            socket.is_asked = True
            socket.held = self.number(HELD) if self.is_bound(number) else 0
        return socket.held

    def message(self, number: int, position: int) -> Int:
        return self.socket(number).messages.setdefault(position, self.number(VALUES))

    def is_in(self, number: int, fd: int, what: int) -> bool:
        return bool(self.epoll(number).holds.setdefault((fd, what), Flag(self)))

    def may_hold(self, number: int) -> Iterator[tuple[int, int]]:
        """What an epoll instance may look at: what a process names that has the instance."""
        for process in (0, 1):
            named = [fd for owner, fd in sorted(self.arguments) if owner == process]
            opened = {fd: self.fd(process, fd) for fd in named}
            if number in opened.values():
                for fd, what in opened.items():
                    if what is not None and isinstance(self.descriptions[what], InitialSocket):
                        yield fd, what

    def other(self, number: int) -> int:
        """What else it looks at."""
        epoll = self.epoll(number)
        if epoll.other is None:
            epoll.other = self.choose(3) - 1
        return epoll.other

    def word(self, process: int, word: int) -> Int:
        owner = (process if word < SHARED_WORDS else 0), word
        return self.words.setdefault(owner, self.number(VALUES))

    def of_children(self, process: int) -> Int:
        return self.children.setdefault(process, self.number(CHILDREN))


class ExtendedUnknown(Unknown):
    """A world's objects as one ExtendedState finds them."""

    _world: ExtendedWorld

    def address(self, address: str) -> Socket | None:
        number = self._world.address(address)
        if number is None:
            return None
        found: Socket = self._description(number).target
        return found

    def word(self, process: int, word: int) -> Int:
        return self._world.word(process, word)

    def children(self, process: int) -> Int:
        return self._world.of_children(process)

    def _description(self, number: int) -> Description:
        if ("description", number) not in self._objects:
            is_socket = isinstance(self._world.descriptions[number], InitialSocket)
            target: Socket | Epoll = self._socket(number) if is_socket else self._epoll(number)
            self._objects["target", number] = target
            self._objects["description", number] = target.description
        found: Description = self._objects["description", number]
        return found

    def _socket(self, number: int) -> Socket:
        world = self._world
        socket = Socket(
            lambda: world.is_bound(number),
            lambda: world.held(number),
            lambda position: world.message(number, position),
        )
        socket.description = Description(socket, fds=world.descriptions[number].fds)
        return socket

    def _epoll(self, number: int) -> Epoll:
        world = self._world
        other = Socket(held=lambda: world.other(number))
        other.description = Description(other)

        def holds(key: WatchKey) -> bool:
            fd, what = key
            known = self._number_of(what)
            return what is other.description or (known is not None and world.is_in(number, fd, known))

        def keys() -> Iterator[WatchKey]:
            for fd, what in world.may_hold(number):
                yield fd, self._description(what)
            if world.other(number) >= 0:
                yield OTHER_FD, other.description

        epoll = Epoll(holds, keys)
        epoll.description = Description(epoll, fds=world.descriptions[number].fds)
        return epoll

    def _number_of(self, what: Description) -> int | None:
        """None if it was not open before."""
        every = range(len(self._world.descriptions))
        return next((nr for nr in every if self._objects.get(("description", nr)) is what), None)
