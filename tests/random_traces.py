"""Random traces of calls, to ask a kernel whether the model is right."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bigiron.matrix.calls import FIRST_FD, SIGNATURES, Argument, Call, Kind, Result
from bigiron.matrix.model import Nothing, Results, State

T = TypeVar("T")

_NAMES = "abcd"
_SLOTS = range(4)
_FDS = range(FIRST_FD, FIRST_FD + 7)
_MOST_OPEN = 6
# What takes things away, and pipes, of which there would be more than files.
_RARER = {"close": 0.5, "unlink": 0.3, "rename": 0.5, "munmap": 0.2, "pipe": 0.3}


def random_trace(seed: int, length: int) -> list[tuple[Call, Result]]:
    """Calls by two processes, each with what the model says of it. Most find what they need; some do not."""
    chance = random.Random(seed)
    state, results = State(Nothing()), Results()
    trace: list[tuple[Call, Result]] = []
    process = 0
    while len(trace) < length:
        if chance.random() < 0.2:
            process = 1 - process
        call = _Guess(chance, state, process).call()
        # The same again: what is full, at its end or gone shows only then.
        for _ in range(chance.choice((1, 1, 1, 2, 20)) if call.name in ("read", "write") else 1):
            given = state.make(call.name, call.process, call.named())
            trace.append((call, results.text(given)))
            if isinstance(given, str):
                break
    return trace[:length]


def text_of(traces: Iterable[tuple[int, Sequence[tuple[Call, Result]]]]) -> str:
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

    def call(self) -> Call:
        name = self._name()
        if name == "receive":
            return Call(
                name,
                self.process,
                (self._likely(self._open(1 - self.process), _FDS), self.chance.choice(_FDS)),
            )
        arguments = [self._argument(kind) for kind in SIGNATURES[name].values()]
        if name == "mmap":
            anonymous = self.chance.random() < 0.3
            arguments[2:] = [None, 0] if anonymous else [arguments[2], self.chance.choice((0, 0, 1, 2))]
        return Call(name, self.process, tuple(arguments))

    def _name(self) -> str:
        names = list(SIGNATURES)
        weights: list[float] = [_RARER.get(name, 1.0) for name in names]
        opened = len(self._open(self.process))
        weights[names.index("close")] *= 10 if opened > _MOST_OPEN else 1
        weights[names.index("open")] *= 8 if opened < 2 else 1
        weights[names.index("mmap")] *= 2
        return self.chance.choices(names, weights)[0]

    def _open(self, process: int) -> list[int]:
        return sorted(fd for (of, fd), description in self.state.fds.items() if of == process and description)

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
            case Kind.OFFSET:
                return self.chance.choice((-1, 0, 0, 0, 1, 1, 2, 3))
            case Kind.VALUE:
                return self.chance.randrange(256)
            case _:
                return self.chance.random() < 0.7
