"""Random traces of calls, to ask a kernel whether the model is right."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bigiron.matrix.model.calls import (
    CALLS,
    EXTENDED_CALLS,
    FIRST_FD,
    SIGNATURES,
    WORDS,
    Argument,
    Kind,
    ResultText,
    SystemCall,
)
from bigiron.matrix.model.extended.model import Epoll, ExtendedState, NothingExtended, Socket
from bigiron.matrix.model.model import LeftOutError, Nothing, Results, State

T = TypeVar("T")

_NAMES = "abcd"
_SLOTS = range(4)
_FDS = range(FIRST_FD, FIRST_FD + 7)
_MOST_OPEN = 6
_MOST_HELD = 10  # by a socket: net.unix.max_dgram_qlen
# What takes things away, and pipes, of which there would be more than files.
_RARER = {
    "close": 0.5, "unlink": 0.3, "rename": 0.5, "munmap": 0.2, "pipe": 0.3,
    "getpid": 0.1, "getppid": 0.1, "fork": 0.3, "wait": 0.3, "futex_wait": 0.5, "futex_wake": 0.2,
    "epoll_create": 0.5, "epoll_ctl": 3, "epoll_wait": 2, "sendto": 2,
}  # fmt: skip
_NAMES_OF = {
    False: [*CALLS, "dup", "receive"],
    True: [*EXTENDED_CALLS, "dup", "receive", "store"],
}


def random_trace(seed: int, length: int, *, extended: bool = False) -> list[tuple[SystemCall, ResultText]]:
    """Calls by two processes, each with what the model says of it. Most find what they need; some do not."""
    chance = random.Random(seed)
    state, results = ExtendedState(NothingExtended()) if extended else State(Nothing()), Results()
    trace: list[tuple[SystemCall, ResultText]] = []
    process = 0
    while len(trace) < length:
        if chance.random() < 0.2:
            process = 1 - process
        call = _Guess(chance, state, process).call()
        # The same again: what is full, at its end or gone shows only then.
        for _ in range(chance.choice((1, 1, 1, 2, 20)) if call.name in ("read", "write") else 1):
            try:
                given = state.make(call.name, call.process, call.named())
            except LeftOutError:
                break
            trace.append((call, results.text(given)))
            if isinstance(given, str):
                break
    return trace[:length]


def text_of(traces: Iterable[tuple[int, Sequence[tuple[SystemCall, ResultText]]]]) -> str:
    """What guest/pairs/ reads."""
    blocks = []
    for number, trace in traces:
        lines = [f"test {number} trace two", *(f"{call} -> {result}" for call, result in trace)]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


@dataclass(frozen=True)
class _Guess:
    """A call that a process may make next."""

    chance: random.Random
    state: State
    process: int

    def call(self) -> SystemCall:
        name = self._name()
        if name == "receive":
            return SystemCall(
                name,
                self.process,
                (self._likely(self._open(1 - self.process), _FDS), self.chance.choice(_FDS)),
            )
        if name == "sendto" and all(self._held(address) >= _MOST_HELD for address in _NAMES):
            name = "recvfrom"
        arguments = [self._argument(kind) for kind in SIGNATURES[name].values()]
        if name == "bind":
            arguments[1] = self.chance.choice(_NAMES)
        if name in ("epoll_ctl", "epoll_wait"):
            arguments[0] = self._likely(self._of(Epoll), _FDS)
        if name == "epoll_ctl":
            arguments[2] = self._likely(self._of(Socket), _FDS)
        if name == "recvfrom":
            arguments[0] = self._likely([fd for fd in self._of(Socket) if self._target(fd).held], _FDS)
        if name in ("store", "futex_wait"):
            arguments[1] = self.chance.randrange(2)
        if name == "mmap":
            anonymous = self.chance.random() < 0.3
            arguments[2:] = [None, 0] if anonymous else [arguments[2], self.chance.choice((0, 0, 1, 2))]
        return SystemCall(name, self.process, tuple(arguments))

    def _name(self) -> str:
        names = _NAMES_OF[isinstance(self.state, ExtendedState)]
        weights: list[float] = [_RARER.get(name, 1.0) for name in names]
        opened = len(self._open(self.process))
        weights[names.index("close")] *= 10 if opened > _MOST_OPEN else 1
        weights = self._more(names, weights, "open", 8 if opened < 2 else 1)
        weights = self._more(names, weights, "socket", 4 if opened < 2 else 1)
        weights = self._more(names, weights, "mmap", 2)
        return self.chance.choices(names, weights)[0]

    @staticmethod
    def _more(names: list[str], weights: list[float], of: str, times: float) -> list[float]:
        return [weight * times if name == of else weight for name, weight in zip(names, weights, strict=True)]

    def _addresses(self) -> list[str]:
        """Those in use to which more can be sent."""
        return [address for address in _NAMES if 0 <= self._held(address) < _MOST_HELD]

    def _held(self, address: str) -> int:
        """By the socket that has an address, -1 if none has."""
        socket = self.state.addresses.get(address) if isinstance(self.state, ExtendedState) else None
        return socket.held if socket and socket.is_open else -1

    def _open(self, process: int) -> list[int]:
        return sorted(fd for (of, fd), description in self.state.fds.items() if of == process and description)

    def _of(self, kind: type[Epoll | Socket]) -> list[int]:
        """Descriptors of one kind that are open."""
        return [fd for fd in self._open(self.process) if isinstance(self._target(fd), kind)]

    def _target(self, fd: int) -> Any:
        description = self.state.fds[self.process, fd]
        return description and description.target

    def _likely(self, there: Sequence[T], all_of_them: Sequence[T]) -> T:
        return self.chance.choice(there if there and self.chance.random() < 0.8 else all_of_them)

    def _argument(self, kind: Kind) -> Argument:
        match kind:
            case Kind.NAME:
                return self._likely(sorted(name for name, file in self.state.names.items() if file), _NAMES)
            case Kind.FD | Kind.FILE:
                return self._likely(self._open(self.process), _FDS)
            case Kind.SLOT:
                slots = self.state.slots.items()
                return self._likely(
                    sorted(slot for (of, slot), what in slots if of == self.process and what), _SLOTS
                )
            case Kind.ADDRESS:
                not_full = [address for address in _NAMES if self._held(address) < _MOST_HELD]
                return self._likely(self._addresses(), not_full or _NAMES)
            case Kind.WORD:
                return self.chance.randrange(WORDS)
            case Kind.OFFSET:
                return self.chance.choice((-1, 0, 0, 0, 1, 1, 2, 3))
            case Kind.VALUE:
                return self.chance.randrange(256)
            case _:
                return self.chance.random() < 0.7
