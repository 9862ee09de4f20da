"""Calls that bring about a world of the extended calls, and the test that follows from them."""

from bigiron.matrix.model.calls import Test
from bigiron.matrix.model.extended.model import ExtendedState, NothingExtended
from bigiron.matrix.model.extended.symbolic import OTHER_FD, ExtendedWorld, InitialSocket
from bigiron.matrix.model.set_up import PARKED, Calls, test_after
from bigiron.matrix.model.symbolic import Situation

_SENDER_FD = OTHER_FD + 1
_MESSAGE = 10  # an arbitrary value


def test_of(number: int, situation: Situation) -> Test:
    calls = Calls(ExtendedState(NothingExtended()))
    assert isinstance(situation.world, ExtendedWorld)
    _ExtendedSetUp(situation.world, calls).all()
    return test_after(number, situation, calls)


class _ExtendedSetUp:
    def __init__(self, world: ExtendedWorld, calls: Calls) -> None:
        self._world, self._calls = world, calls
        self._owner: dict[int, int] = {}  # of a description: the process that opens it
        for (process, _), number in sorted(world.fds.items()):
            if number is not None:
                self._owner.setdefault(number, process)

    def all(self) -> None:
        world = self._world
        for number, initial in enumerate(world.descriptions):
            if isinstance(initial, InitialSocket):
                self._socket(number)
            else:
                self._open("epoll_create", self._owner.get(number, 0), PARKED + number)
        for (process, fd), known in sorted(world.fds.items()):
            if known is not None:
                owner = self._owner[known]
                self._calls.make("dup" if owner == process else "receive", process, PARKED + known, fd)
        for number, initial in enumerate(world.descriptions):
            if not isinstance(initial, InitialSocket):
                self._look_at(number)
        for number, initial in enumerate(world.descriptions):
            if world.value(initial.fds) <= initial.known_fds:
                self._calls.make("close", self._owner.get(number, 0), PARKED + number)
        for (process, word), value in sorted(world.words.items()):
            self._calls.make("store", process, word, world.value(value))
        for process, children in sorted(world.children.items()):
            for _ in range(world.value(children)):
                self._calls.make("fork", process)

    def _open(self, call: str, process: int, fd: int) -> None:
        made = self._calls.make(call, process)
        assert isinstance(made, int)
        self._calls.move(process, made, fd)

    def _socket(self, number: int) -> None:
        world, initial, process = self._world, self._world.socket(number), self._owner.get(number, 0)
        self._open("socket", process, PARKED + number)
        if not initial.is_bound:
            return
        address = initial.address or f"x{number}"
        self._calls.make("bind", process, PARKED + number, address)
        messages = [initial.messages.get(nr, _MESSAGE + number) for nr in range(world.value(initial.held))]
        self._send(process, address, [world.value(message) for message in messages])

    def _send(self, process: int, address: str, messages: list[int]) -> None:
        if not messages:
            return
        self._open("socket", process, _SENDER_FD)
        for message in messages:
            self._calls.make("sendto", process, _SENDER_FD, address, message)
        self._calls.make("close", process, _SENDER_FD)

    def _look_at(self, number: int) -> None:
        """By a process that has both, each by the descriptor by which it is known."""
        epoll, calls = self._world.epoll(number), self._calls
        for (fd, what), is_in in epoll.holds.items():
            if is_in.settled:
                process, epoll_fd = self._who_has(number, fd, what)
                calls.make("epoll_ctl", process, epoll_fd, True, fd)
        process = self._owner.get(number, 0)
        if epoll.other is not None and epoll.other >= 0:
            self._open("socket", process, OTHER_FD)
            calls.make("epoll_ctl", process, PARKED + number, True, OTHER_FD)
            calls.make("bind", process, OTHER_FD, f"y{number}")
            self._send(process, f"y{number}", [_MESSAGE] * epoll.other)

    def _who_has(self, number: int, fd: int, what: int) -> tuple[int, int]:
        for (process, epoll_fd), known in sorted(self._world.fds.items()):
            if known == number and self._world.fds.get((process, fd)) == what:
                return process, epoll_fd
        raise AssertionError("what is in an epoll instance is open where that is")
