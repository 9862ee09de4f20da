"""What the extended calls mean: the state that they read and change, and what each gives.

Two processes, 0 and 1, and the parent that both have. Descriptors are of sockets (Unix datagram sockets with
abstract addresses) and of epoll instances, which look for EPOLLIN of sockets. A futex has no waiters:
a wait times out at once. A fork's child exits before the fork returns.

Left out beside what the model of the 18 leaves out: full queues, and epoll instances in others.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from bigiron.matrix.model.calls import SHARED_WORDS
from bigiron.matrix.model.model import (
    ByteRead,
    CallResult,
    Description,
    Fifo,
    Initial,
    LeftOutError,
    State,
    StateTable,
)

WatchKey = tuple[int, Description]  # of what is in an epoll instance: a descriptor, and what it was of


class Socket(Fifo):
    """Bytes, and whether it has an address."""

    description: Description

    def __init__(
        self,
        was_bound: Callable[[], bool] = lambda: False,
        held: Callable[[], int] = lambda: 0,
        before: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__(held, before)
        self._was_bound = was_bound
        self._got_address = False

    @property
    def is_bound(self) -> bool:
        return self._got_address or self._was_bound()

    def bind(self) -> None:
        self._got_address = True

    @property
    def is_open(self) -> bool:
        return self.description.fds != 0


class Epoll:
    """Descriptors to look at: those that were there before, but for what changed."""

    description: Description

    def __init__(
        self,
        was_in: Callable[[WatchKey], bool] = lambda _key: False,
        before: Callable[[], Iterable[WatchKey]] = lambda: (),
    ) -> None:
        self._was_in, self._before = was_in, before
        self.changed: dict[WatchKey, bool] = {}

    def holds(self, key: WatchKey) -> bool:
        return self.changed[key] if key in self.changed else self._was_in(key)

    def ready(self) -> tuple[int, ...]:
        held = [key for key in dict.fromkeys([*self._before(), *self.changed]) if self.holds(key)]
        return tuple(sorted(fd for fd, what in held if what.target.is_open and what.target.held > 0))


class ExtendedInitial(Initial, Protocol):
    """What is there before the first call."""

    def address(self, address: str) -> Socket | None: ...
    def word(self, process: int, word: int) -> int: ...
    def children(self, process: int) -> int: ...


class NothingExtended:
    """Processes that have nothing open and no child; no word was stored to."""

    def name(self, name: str) -> None:
        return None

    def fd(self, process: int, fd: int) -> None:
        return None

    def slot(self, process: int, slot: int) -> None:
        return None

    def address(self, address: str) -> None:
        return None

    def word(self, process: int, word: int) -> int:
        return 0

    def children(self, process: int) -> int:
        return 0


class ExtendedState(State):
    """What the extended calls find and change."""

    def __init__(self, initial: ExtendedInitial) -> None:
        super().__init__(initial)
        self.addresses: dict[str, Socket | None] = StateTable(initial.address)
        self.words: dict[tuple[int, int], int] = StateTable(lambda key: initial.word(*key))
        self.children: dict[int, int] = StateTable(initial.children)

    def tables(self) -> tuple[dict[Any, Any], ...]:
        return self.fds, self.addresses, self.words, self.children

    # Processes.

    def _getpid(self, me: int) -> CallResult:
        return "self"

    def _getppid(self, me: int) -> CallResult:
        return "parent"

    def _fork(self, me: int) -> CallResult:
        self.children[me] += 1
        return "child"  # by whatever number

    def _wait(self, me: int) -> CallResult:
        if self.children[me] == 0:
            return "-ECHILD"
        self.children[me] -= 1
        return "child"

    # Futexes.

    def _futex_wait(self, me: int, word: int, value: int) -> CallResult:
        return "-ETIMEDOUT" if self.words[_owner(me, word)] == value else "-EAGAIN"

    def _futex_wake(self, me: int, word: int) -> CallResult:
        return 0

    # Sockets.

    def _socket(self, me: int) -> CallResult:
        made = Socket()
        made.description = Description(made)
        return self._install(me, made.description)

    def _socket_of(self, me: int, fd: int) -> Socket | str:
        description = self.fds[me, fd]
        if description is None:
            return "-EBADF"
        return description.target if isinstance(description.target, Socket) else "-ENOTSOCK"

    def _at(self, address: str) -> Socket | None:
        """A socket's address is free again when it is closed."""
        found = self.addresses[address]
        return found if found and found.is_open else None

    def _bind(self, me: int, fd: int, address: str) -> CallResult:
        bound = self._socket_of(me, fd)
        if isinstance(bound, str):
            return bound
        if bound.is_bound:
            return "-EINVAL"
        if self._at(str(address)):
            return "-EADDRINUSE"
        self.addresses[str(address)] = bound
        bound.bind()
        return 0

    def _sendto(self, me: int, fd: int, address: str, value: int) -> CallResult:
        sender = self._socket_of(me, fd)
        if isinstance(sender, str):
            return sender
        receiver = self._at(str(address))
        if receiver is None:
            return "-ECONNREFUSED"
        receiver.put(value)
        return 1

    def _recvfrom(self, me: int, fd: int) -> CallResult:
        receiver = self._socket_of(me, fd)
        if isinstance(receiver, str):
            return receiver
        return "-EAGAIN" if receiver.held == 0 else ByteRead("byte", receiver.take())

    # Epoll.

    def _epoll_create(self, me: int) -> CallResult:
        made = Epoll()
        made.description = Description(made)
        return self._install(me, made.description)

    def _epoll_ctl(self, me: int, fd: int, adds: bool, to: int) -> CallResult:
        epoll = self.fds[me, fd]
        if epoll is None:
            return "-EBADF"
        what = self.fds[me, to]
        if what is None:
            return "-EBADF"
        if epoll is what or not isinstance(epoll.target, Epoll):
            return "-EINVAL"
        if isinstance(what.target, Epoll):
            raise LeftOutError
        is_in = epoll.target.holds((to, what))
        if adds:
            if is_in:
                return "-EEXIST"
        elif not is_in:
            return "-ENOENT"
        epoll.target.changed[to, what] = bool(adds)
        return 0

    def _epoll_wait(self, me: int, fd: int) -> CallResult:
        epoll = self.fds[me, fd]
        if epoll is None:
            return "-EBADF"
        return epoll.target.ready() if isinstance(epoll.target, Epoll) else "-EINVAL"

    # To set up.

    def _store(self, me: int, word: int, value: int) -> CallResult:
        self.words[_owner(me, word)] = value
        return 0


def _owner(process: int, word: int) -> tuple[int, int]:
    """Those that all share are process 0's."""
    return (process if word < SHARED_WORDS else 0), word
